//! What somebody sees who may not see all.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;

/// `all` may everything, `shop` may get deployments in shop; everybody else is nobody. Counts what it is asked.
#[derive(Default)]
struct Scripted {
    asked: AtomicUsize,
    down: std::sync::atomic::AtomicBool,
}

impl Judge for Scripted {
    fn who<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, JudgeError>> {
        Box::pin(async move {
            let user = User { username: token.to_owned(), ..User::default() };
            Ok(["all", "shop"].contains(&token).then_some(user))
        })
    }

    fn may<'a>(&'a self, user: &'a User, deed: Deed<'a>) -> BoxFuture<'a, Result<bool, JudgeError>> {
        Box::pin(async move {
            self.asked.fetch_add(1, SeqCst);
            if self.down.load(SeqCst) {
                return Err(JudgeError("it is down".into()));
            }
            let shop = ["get", "list"].contains(&deed.verb)
                && (deed.group, deed.resource, deed.namespace) == ("apps", "deployments", "shop");
            Ok(user.username == "all" || shop)
        })
    }
}

async fn as_user(rig: &Rig, token: &str, path: &str) -> Value {
    let answer = rig.get(path).bearer_auth(token).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
    answer.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_good_token_nothing_is_told_but_the_page_itself() {
    let rig = Rig::with(Auth::Token, Some(Arc::new(Scripted::default()))).await;
    rig.event(1, "shop").await;
    for (path, _) in api::routes() {
        let path = path.replace(['{', '}'], "");
        if path.ends_with("openapi.json") || path.contains("silences/") {
            continue;
        }
        for token in [None, Some("wrong"), Some("")] {
            let request = rig.get(&path);
            let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 401, "{path} {token:?}");
            assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        }
        let basic = rig.get(&path).header("authorization", "Basic YWxsOmFsbA==").send().await.unwrap();
        assert_eq!(basic.status(), 401, "{path}");
    }
    assert_eq!(rig.get("/").send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_may_see_one_namespace_sees_that_in_rows_counts_objects_and_streams() {
    let judge = Arc::new(Scripted::default());
    let rig = Rig::with(Auth::Token, Some(judge.clone())).await;
    let mut hidden = String::new();
    for n in 1..=300 {
        let event = rig.event(n, if n % 100 == 0 { "shop" } else { "bank" }).await;
        if n == 299 {
            hidden = event.id;
        }
    }
    assert_eq!(as_user(&rig, "all", "/api/v1/events?limit=1000").await["events"].as_array().unwrap().len(), 300);
    let (mut seen, mut path) = (Vec::new(), "/api/v1/events?limit=1".to_owned());
    loop {
        let page = as_user(&rig, "shop", &path).await;
        seen.extend(page["events"].as_array().unwrap().iter().map(|row| row["seq"].as_i64().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/events?limit=1&cursor={next}");
    }
    assert_eq!(seen, [300, 200, 100], "pages go on past what is hidden");
    let facets = as_user(&rig, "shop", "/api/v1/facets").await;
    assert_eq!(facets["namespace"], json!([{"value": "shop", "count": 3}]));
    let density = as_user(&rig, "shop", "/api/v1/density?since=1h&buckets=1").await;
    let total: u64 = density["buckets"].as_array().unwrap().iter().map(|b| b["updated"].as_u64().unwrap()).sum();
    assert_eq!(total, 3);
    for path in [
        format!("/api/v1/events/{hidden}"),
        "/api/v1/objects/apps/v1/deployments/bank/web-299".into(),
        "/api/v1/objects/apps/v1/deployments/bank/web-299/blame".into(),
        "/api/v1/objects/apps/v1/deployments/bank/web-299/history".into(),
    ] {
        let answer = rig.get(&path).bearer_auth("shop").send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}: that it is there is not told either");
    }
    let shown = as_user(&rig, "shop", "/api/v1/objects/apps/v1/deployments/shop/web-300/history").await;
    assert_eq!(shown["events"].as_array().unwrap().len(), 1);
    let stream = rig.get("/api/v1/stream?after=1").bearer_auth("shop").send().await.unwrap();
    rig.event(301, "bank").await;
    rig.event(302, "shop").await;
    let numbers: Vec<i64> = events(stream, 4).await.into_iter().map(|(_, seq)| seq).collect();
    assert_eq!(numbers, [100, 200, 300, 302]);
    let status = as_user(&rig, "shop", "/api/v1/status").await;
    assert_eq!((&status["sinks"], &status["ledger"]), (&json!([]), &Value::Null));
    assert_eq!(as_user(&rig, "shop", "/api/v1/whoami").await["may_silence"], false);
    let silence = json!({"namespace": "shop", "for": "1h", "reason": "x"});
    let url = format!("{}/api/v1/silences", rig.url);
    assert_eq!(rig.http.post(&url).bearer_auth("shop").json(&silence).send().await.unwrap().status(), 403);
    let made: Value = rig.http.post(&url).bearer_auth("all").json(&silence).send().await.unwrap().json().await.unwrap();
    assert_eq!(made["by"], "all");

    let before = judge.asked.load(SeqCst);
    for _ in 0..20 {
        as_user(&rig, "shop", "/api/v1/events?limit=1000").await;
    }
    assert!(judge.asked.load(SeqCst) <= before + 2, "answers are remembered, and are for places and not for rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_judge_is_asked_of_what_is_looked_at_and_of_no_more_than_a_thousand_places_at_a_time() {
    let judge = Arc::new(Scripted::default());
    let rig = Rig::with(Auth::Token, Some(judge.clone())).await;
    for n in 0..1_500 {
        let namespace = if n % 500 == 0 { "shop".to_owned() } else { format!("team-{n}") };
        rig.event(n, &namespace).await;
    }
    rig.store.write(Box::new(crate::ledger::search::fill_all)).await.unwrap();
    let asked = || judge.asked.swap(0, SeqCst);
    asked();
    let seen = as_user(&rig, "shop", "/api/v1/events?namespace=shop&kind=deploy").await;
    assert_eq!(seen["events"].as_array().unwrap().len(), 3);
    assert_eq!(asked(), 3, "everything, deployments everywhere, deployments in shop");
    for path in ["facets?since=1h&q=nosuchword", "density?kind=Pod", "objects"] {
        as_user(&rig, "shop", &format!("/api/v1/{path}")).await;
    }
    assert!(asked() <= 1_000, "of what there is nothing of, nothing is asked");

    // All of it, as somebody who sees little of it.
    let judge = Arc::new(Scripted::default());
    let other = Rig { url: serve_again(&rig, judge.clone()).await, ..rig };
    let (mut rows, mut path, mut pages) = (Vec::new(), "/api/v1/events?limit=1000".to_owned(), 0);
    loop {
        let page = as_user(&other, "shop", &path).await;
        assert!(judge.asked.swap(0, SeqCst) <= 1_002);
        rows.extend(page["events"].as_array().unwrap().iter().map(|row| row["namespace"].clone()));
        pages += 1;
        assert!(pages < 10, "it goes on");
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/events?limit=1000&cursor={next}");
    }
    assert_eq!(rows, ["shop", "shop", "shop"]);
    assert!(pages > 1);
    let density = as_user(&other, "shop", "/api/v1/density").await;
    assert_eq!(density["partial"], false, "by now all is known");
    let counted: u64 = density["buckets"].as_array().unwrap().iter().map(|b| b["updated"].as_u64().unwrap()).sum();
    assert_eq!(counted, 3);
    assert_eq!(judge.asked.load(SeqCst), 0, "a no is remembered, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_may_see_some_finds_by_name_owner_and_word_what_is_counted_already() {
    let rig = Rig::with(Auth::Token, Some(Arc::new(Scripted::default()))).await;
    for n in 1..=20 {
        rig.event(n, if n % 2 == 0 { "shop" } else { "bank" }).await;
    }
    rig.store.write(Box::new(crate::ledger::search::fill_all)).await.unwrap();
    let sum = |counts: &Value, parts: &[&str]| -> u64 {
        counts.as_array().unwrap().iter().flat_map(|one| parts.iter().map(|part| one[*part].as_u64().unwrap())).sum()
    };
    for (filter, all, shop) in [
        ("name=web-4", 1, 1),
        ("name=web-3", 1, 0),
        ("name=web-1*", 11, 5),
        ("name=!web-4", 19, 9),
        ("owner=Deployment/shop/web", 20, 10),
        ("owner=Deployment/shop/web&name=web-4", 1, 1),
        ("owner=!Deployment/shop/db", 20, 10),
        ("name=web-4&q=nginx", 1, 1),
    ] {
        for (user, wanted) in [("all", all), ("shop", shop)] {
            let rows = as_user(&rig, user, &format!("/api/v1/events?{filter}")).await;
            assert_eq!(rows["events"].as_array().unwrap().len() as u64, wanted, "rows for {user}: {filter}");
            let facets = as_user(&rig, user, &format!("/api/v1/facets?{filter}")).await;
            assert_eq!(sum(&facets["type"], &["count"]), wanted, "facets for {user}: {filter}");
            let density = as_user(&rig, user, &format!("/api/v1/density?since=1h&{filter}")).await;
            let counted = sum(&density["buckets"], &["created", "updated", "deleted"]);
            assert_eq!(counted, wanted, "density for {user}: {filter}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_ends_early_for_the_judge_goes_on_below_its_own_cursor() {
    let rig = Rig::with(Auth::Token, Some(Arc::new(Scripted::default()))).await;
    for n in 1..=1_300 {
        let namespace = if n % 100 == 0 { "shop".to_owned() } else { format!("team-{n}") };
        rig.event(n, &namespace).await;
    }
    rig.store.write(Box::new(crate::ledger::search::fill_all)).await.unwrap();
    let (mut seen, mut cursor, mut pages) = (Vec::new(), 250, 0);
    loop {
        let page = as_user(&rig, "shop", &format!("/api/v1/events?limit=1000&cursor={cursor}")).await;
        seen.extend(page["events"].as_array().unwrap().iter().map(|row| row["seq"].as_i64().unwrap()));
        pages += 1;
        assert!(pages < 10, "it goes on");
        let Some(next) = page["next"].as_str() else { break };
        let next: i64 = next.parse().unwrap();
        assert!(next <= cursor, "{next} is above {cursor}");
        cursor = next;
    }
    assert!(pages > 1);
    assert_eq!(seen, [200, 100]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_shown_while_permissions_cannot_be_checked() {
    let judge = Arc::new(Scripted::default());
    judge.down.store(true, SeqCst);
    let rig = Rig::with(Auth::Token, Some(judge)).await;
    rig.event(1, "shop").await;
    let answer = rig.get("/api/v1/events").bearer_auth("all").send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.json::<Value>().await.unwrap()["error"]["code"], "no-judge");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_costs_one_review_however_many_watches_there_are() {
    let judge = Arc::new(Scripted::default());
    let rig = Rig::with(Auth::Token, Some(judge.clone())).await;
    let status = as_user(&rig, "all", "/api/v1/status").await;
    assert_eq!(status["informers"].as_array().unwrap().len(), WATCHES);
    assert_eq!(judge.asked.swap(0, SeqCst), 2, "everything, and how it is run");
    let status = as_user(&rig, "shop", "/api/v1/status").await;
    let seen = status["informers"].as_array().unwrap();
    assert_eq!(seen.iter().map(|informer| informer["scope"].as_str().unwrap()).collect::<Vec<_>>(), ["shop"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_read_an_owner_is_not_told_its_name_and_cannot_guess_it() {
    let rig = Rig::with(Auth::Token, Some(Arc::new(Scripted::default()))).await;
    let mut owner = sample::event_now();
    (owner.resource.group, owner.resource.resource) = ("acme.example".into(), "plans".into());
    (owner.resource.kind, owner.resource.name) = ("Plan".into(), "layoffs".into());
    owner.owner = Some(owners::own(&owner));
    let plan = owner.owner.clone();
    rig.ledger.append(&rig.store, Arc::new(Redacted::invented(owner))).await.unwrap();
    let mut owned = sample::event_now();
    owned.owner = plan;
    let id = owned.id.clone();
    rig.ledger.append(&rig.store, Arc::new(Redacted::invented(owned))).await.unwrap();
    rig.event(7, "shop").await;
    let paths = [
        "/api/v1/events?name=web".to_owned(),
        "/api/v1/events?name=web&full=true".to_owned(),
        "/api/v1/objects/apps/v1/deployments/shop/web/history".to_owned(),
        format!("/api/v1/events/{id}"),
    ];
    for path in &paths {
        assert!(as_user(&rig, "all", path).await.to_string().contains("layoffs"), "{path}");
        let seen = as_user(&rig, "shop", path).await;
        assert!(!seen.to_string().contains("layoffs"), "{path}: {seen}");
        let owner = seen.pointer("/events/0/owner").or(seen.pointer("/event/owner")).unwrap();
        assert_eq!(owner, &json!({"kind": "Deployment", "namespace": "shop", "name": "web"}), "its own: {path}");
    }
    for (filter, all, shop) in [
        ("owner=Plan/shop/layoffs", 2, 0),
        ("owner=plan/shop/lay*", 2, 0),
        ("owner=*layoffs", 2, 0),
        ("owner=!Plan/shop/layoffs", 1, 2),
        ("owner=Deployment/shop/web,Plan/shop/layoffs", 3, 1),
    ] {
        for (user, wanted) in [("all", all), ("shop", shop)] {
            let page = as_user(&rig, user, &format!("/api/v1/events?{filter}")).await;
            assert_eq!(page["events"].as_array().unwrap().len(), wanted, "{filter} {user}");
            let facets = as_user(&rig, user, &format!("/api/v1/facets?{filter}")).await;
            let counted: u64 =
                facets["type"].as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap()).sum();
            assert_eq!(counted, wanted as u64, "{filter} {user}");
        }
    }
    let stream = async |user: &str, filter: &str| {
        let answer = rig.get(&format!("/api/v1/stream?after=0&{filter}")).bearer_auth(user).send().await.unwrap();
        text_of(answer, 1).await
    };
    assert!(stream("all", "name=web").await.contains("layoffs"));
    assert!(!stream("shop", "name=web").await.contains("layoffs"));
    // The next that fits and may be seen is one that nobody owns.
    assert!(stream("shop", "owner=!Plan/shop/layoffs&name=web-7").await.contains("web-7"));
}
