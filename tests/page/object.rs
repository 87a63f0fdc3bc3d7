//! The object page: through time, line by line.

use serde_json::{Value, json};

use super::Look;
use crate::harness::{self, PATIENCE, poll};

#[tokio::test]
async fn an_object_is_seen_at_any_time_of_its_life_with_who_set_each_line() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("object").await;
    let ns = namespace.name();
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    cluster
        .kubectl(&["create", "configmap", "conf", "-n", ns, "--from-literal=colour=blue", "--from-literal=size=1"])
        .await;
    look.open_live("").await;
    look.row(&["conf", "created"]).await;
    for (manager, patch, shown) in [
        ("argocd-controller", r#"{"data":{"colour":"green"}}"#, "green"),
        ("kubectl-edit", r#"{"data":{"size":"2"}}"#, "1 → 2"),
    ] {
        let manager = format!("--field-manager={manager}");
        cluster.kubectl(&["patch", "configmap", "conf", "-n", ns, &manager, "-p", patch]).await;
        look.row(&["conf", shown]).await;
    }

    look.open_row(&["conf", "green"]).await;
    browser.activate(".ev.open .actions a").await;
    browser.until("document.querySelectorAll('.ticks line').length === 3", "a tick for each change").await;
    assert_eq!(look.url().await, format!("?object=core/v1/configmaps/{ns}/conf"));
    browser.until("document.querySelector('.blame')", "the blame").await;
    let line = async |text: &str| -> (String, bool) {
        browser
            .eval(&format!(
                "{{ const l = [...document.querySelectorAll('.blame .l')].find(l => l.querySelector('.c').textContent.includes({text:?})); \
                 [l.title, l.classList.contains('by-hand')] }}"
            ))
            .await
    };
    let (who, by_hand) = line("colour: green").await;
    assert!(who.starts_with("argocd-controller") && !by_hand, "{who}");
    let (who, by_hand) = line("size: \"2\"").await;
    assert!(who.starts_with("kubectl-edit, by hand") && by_hand, "{who}");

    // Back in time, by the keys of a slider, then by its neighbours' buttons.
    browser.eval::<Value>("document.querySelector('.slider').focus(), null").await;
    browser.press("ArrowLeft").await;
    browser.until("document.querySelector('.blame').innerText.includes('size: \"1\"')", "the size that was").await;
    assert!(browser.text(".blame").await.contains("colour: green"));
    assert!(look.url().await.contains("&at=20"));
    browser.press("[").await;
    browser.until("document.querySelector('.blame').innerText.includes('colour: blue')", "the colour that was").await;
    let then = browser.text(".blame").await;
    browser.reload().await;
    browser.until("document.querySelector('.blame')", "the blame").await;
    assert_eq!(browser.text(".blame").await, then, "a reload keeps the time");

    // From then to now, and a change that comes meanwhile.
    browser
        .eval::<Value>("[...document.querySelectorAll('button')].find(b => b.innerText === 'Compare with now').click()")
        .await;
    browser.until("document.querySelector('.object-body .diff')", "the difference").await;
    let diff = browser.text(".object-body .diff").await;
    for words in ["colour: blue", "colour: green", "size: \"1\"", "size: \"2\""] {
        assert!(diff.contains(words), "{diff}");
    }
    browser.until("document.querySelector('#live').dataset.state === 'live'", "the tail to be live").await;
    cluster.kubectl(&["delete", "configmap", "conf", "-n", ns]).await;
    browser.until("document.querySelectorAll('.ticks line').length === 4", "the deletion to appear").await;
    browser.until("document.querySelector('.life-state').innerText === 'deleted'", "the page to say so").await;
    look.is_well();
}

/// The ids of an object's changes, the newest first, and their times.
async fn changes(look: &Look, object: &str) -> Vec<(String, String)> {
    let page: Value = reqwest::get(format!("{}api/v1/objects/{object}/history?limit=1000", look.origin))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    page["events"].as_array().into_iter().flatten().map(|row| (text(row, "id"), text(row, "time"))).collect()
}

#[tokio::test]
async fn changes_within_one_millisecond_are_stepped_through_one_by_one() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("steps").await;
    let ns = namespace.name();
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    cluster.kubectl(&["create", "configmap", "conf", "-n", ns, "--from-literal=n=0"]).await;
    let object = format!("core/v1/configmaps/{ns}/conf");
    let path = format!("/api/v1/namespaces/{ns}/configmaps/conf");
    // What is recorded together is of one moment: so there are bursts, until two changes share theirs.
    let mut n = 0;
    poll(PATIENCE, "two changes of one millisecond", async || {
        let burst = (0..8).map(|_| {
            n += 1;
            let patch = json!({"data": {"n": n.to_string()}});
            let request = cluster.access().request(reqwest::Method::PATCH, &path);
            request.header("content-type", "application/merge-patch+json").body(patch.to_string()).send()
        });
        futures::future::join_all(burst).await;
        let all = changes(&look, &object).await;
        all.windows(2).any(|pair| pair[0].1 == pair[1].1).then_some(())
    })
    .await;
    let stable = poll(PATIENCE, "all of them to be there", async || {
        let all = changes(&look, &object).await;
        (all.len() == n + 1).then_some(all)
    })
    .await;
    look.open(&format!("?object={object}")).await;
    browser.until("document.querySelector('.blame .l')", "the object").await;
    let chosen = "document.querySelector('.object-history [aria-current]')?.dataset.id";
    let steps = 20.min(stable.len() - 1);
    for (id, _) in &stable[1..=steps] {
        browser.press("[").await;
        browser.until(&format!("{chosen} === '{id}'"), "the change before").await;
    }
    let url = look.url().await;
    let then: String = browser.eval(chosen).await;
    browser.reload().await;
    browser.until(&format!("{chosen} === '{then}'"), "a reload to keep the change").await;
    assert_eq!(look.url().await, url);
    for (id, _) in stable[..steps].iter().rev() {
        browser.press("]").await;
        browser.until(&format!("{chosen} === '{id}'"), "the change after").await;
    }
    look.is_well();
}

#[tokio::test]
async fn a_time_at_which_nobody_watched_is_shown_as_not_certain() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("doubt").await;
    let ns = namespace.name();
    let mut look = Look::of(cluster, &namespace).await;
    cluster.kubectl(&["create", "configmap", "conf", "-n", ns, "--from-literal=size=1"]).await;
    look.open_live("").await;
    look.row(&["conf", "created"]).await;
    look.kubediff.stop().await;
    cluster.kubectl(&["patch", "configmap", "conf", "-n", ns, "-p", r#"{"data":{"size":"2"}}"#]).await;
    let away = jiff::Timestamp::now();
    look.kubediff.start().await;
    look.row(&["conf", "1 → 2"]).await;
    let browser = &look.browser;
    look.open(&format!("?object=core/v1/configmaps/{ns}/conf&at={away}")).await;
    browser.until("document.querySelector('.doubt')", "the doubt").await;
    let doubt = browser.text(".doubt").await;
    assert!(doubt.starts_with("Not certain after") && doubt.contains("The next change"), "{doubt}");
    assert!(browser.text(".blame").await.contains("size: \"1\""));
    // The change that may be older is one step away.
    browser.click(".doubt button").await;
    browser.until("document.querySelector('.object-history .detail .diff')", "that change").await;
    look.open(&format!("?object=core/v1/configmaps/{ns}/conf")).await;
    browser.until("document.querySelector('.blame .l')", "the object").await;
    assert!(browser.eval::<bool>("!document.querySelector('.doubt')").await, "now is certain");
}

/// More than are read at once.
const CHANGES: usize = 640;

#[tokio::test]
async fn the_slider_spans_a_life_that_is_too_long_to_be_read_at_once_and_links_lead_into_it() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("long-life").await;
    let ns = namespace.name();
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    cluster.kubectl(&["create", "configmap", "conf", "-n", ns, "--from-literal=size=0"]).await;
    let object = format!("core/v1/configmaps/{ns}/conf");
    let path = format!("/api/v1/namespaces/{ns}/configmaps/conf");
    let change = async |n: usize| {
        let patch = json!({"data": {"size": n.to_string()}}).to_string();
        let request = cluster.access().request(reqwest::Method::PATCH, &path);
        let request = request.header("content-type", "application/merge-patch+json").body(patch);
        assert!(request.send().await.unwrap().status().is_success());
    };
    for n in 1..=CHANGES {
        change(n).await;
    }
    // The newest first: the one at place p left size = CHANGES - p.
    let all = poll(PATIENCE, "all of them to be there", async || {
        let all = changes(&look, &object).await;
        (all.len() == CHANGES + 1).then_some(all)
    })
    .await;
    let chosen = "document.querySelector('.object-history [aria-current]')?.dataset.id";
    let holds = |n: usize| format!("document.querySelector('.blame').innerText.includes('size: \"{n}\"')");
    look.open(&format!("?object={object}")).await;
    browser.until("document.querySelector('.blame .l')", "the object").await;
    assert!(browser.text(".object-head").await.contains(&format!("{} changes", CHANGES + 1)));
    let read: usize = browser.eval("document.querySelectorAll('.object-history [data-id]').length").await;
    assert!(read < CHANGES, "not all are read");
    let begins: f64 = browser.eval("Number(document.querySelector('.slider').min)").await;
    let first: jiff::Timestamp = all[CHANGES].1.parse().unwrap();
    assert!(begins <= first.as_millisecond() as f64, "the slider begins with its life");
    browser.until("document.querySelector('.ticks .unread')", "marks of changes that are not read").await;

    // A link to a change that is not among the newest, and a reload.
    let old = CHANGES - 20;
    look.open(&format!("?object={object}&at={}&event={}", all[old].1, all[old].0)).await;
    for again in [false, true] {
        if again {
            browser.reload().await;
        }
        browser.until(&format!("{chosen} === '{}'", all[old].0), "the change that the link names").await;
        browser.until(&holds(20), "what it was then").await;
    }
    // From there step by step, past what was read with it.
    for back in 1..=60 {
        browser.press("]").await;
        browser.until(&format!("{chosen} === '{}'", all[old - back].0), "the change after").await;
    }
    // A time alone, where many are of one moment.
    let at = &all[CHANGES - 10].1;
    let last = all.iter().position(|(_, time)| time == at).unwrap();
    look.open(&format!("?object={object}&at={at}")).await;
    browser.until(&format!("{chosen} === '{}'", all[last].0), "the last change by then").await;
    browser.until(&holds(CHANGES - last), "what it was then").await;

    // By hand: to the right end is now, from there back into what is not read.
    browser.drag(".slider", 0.5, 1.0).await;
    browser.until("document.querySelector('.moment').innerText.startsWith('Now')", "now").await;
    browser.until(&holds(CHANGES), "what it is").await;
    let (from, to): (f64, f64) = browser
        .eval("[document.querySelector('.slider').min, document.querySelector('.slider').max].map(Number)")
        .await;
    let wanted: jiff::Timestamp = all[CHANGES - 30].1.parse().unwrap();
    browser.drag(".slider", 0.99, (wanted.as_millisecond() as f64 - from) / (to - from)).await;
    let seen = poll(PATIENCE, "a time within what was not read", async || {
        let url = look.url().await;
        let at = url.split("&at=").nth(1)?.split('&').next()?.to_owned();
        let here: Option<String> = browser.eval(&format!("{chosen} ?? null")).await;
        let place = all.iter().position(|(id, _)| Some(id) == here.as_ref())?;
        (all[place].1.parse::<jiff::Timestamp>().ok()? <= at.parse().ok()? && place > read).then_some(place)
    })
    .await;
    browser.until(&holds(CHANGES - seen), "what it was then").await;

    // What happens meanwhile is counted, and does not move what is looked at.
    browser.until("document.querySelector('#live').dataset.state === 'live'", "the tail to be live").await;
    change(CHANGES + 1).await;
    let counted = format!("document.querySelector('.object-head').innerText.includes('{} changes')", CHANGES + 2);
    browser.until(&counted, "the new change to be counted").await;
    browser.until(&format!("{chosen} === '{}'", all[seen].0), "the same change").await;
    browser.press("End").await;
    browser.eval::<Value>("document.querySelector('.slider').focus(), null").await;
    browser.press("End").await;
    browser.until(&holds(CHANGES + 1), "the newest").await;
    browser.press("Home").await;
    browser.until(&format!("{chosen} === '{}'", all[CHANGES].0), "its creation").await;
    browser.until(&holds(0), "what it was at first").await;
    look.is_well();
}
