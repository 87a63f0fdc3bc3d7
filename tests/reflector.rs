//! Every change of a real cluster arrives once and in order, whatever is done to the connection in between.

mod discovery;
pub mod mirror;
mod outages;
mod resources;

use std::{sync::Arc, time::Duration};

use kubediff::cluster::{
    Scope,
    reflector::{Ended, Phase, Relist, Status},
    source::{Error, api::Api},
};

use self::mirror::{Mirror, Reading, Writing, configmaps};
use crate::harness::{self, After, Fault, Matching, PATIENCE, Proxy, Then, poll};

const STREAMING: &str = "sendInitialEvents=true";

#[tokio::test]
async fn a_restart_resumes_at_the_cursor_and_lists_nothing() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("resume").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    let proxy = Proxy::start(cluster.access());
    writing.create("before").await;

    let mirror = Mirror::default();
    let reading = Reading::of(proxy.access(), configmaps(&namespace), &mirror).await;
    reading.until_live().await;
    assert_eq!(mirror.documents(), writing.list().await);
    writing.create("live").await;
    writing.change("before").await;
    mirror.until_equal(&writing).await;
    reading.stop().await;

    for name in ["away-1", "away-2"] {
        writing.create(name).await;
        writing.change(name).await;
    }
    writing.delete("away-1").await;
    writing.change("live").await;
    proxy.forget();
    let reading = Reading::of(proxy.access(), configmaps(&namespace), &mirror).await;
    mirror.until_equal(&writing).await;
    assert_eq!(proxy.count(&Matching::lists("configmaps")), 0, "no list");
    assert_eq!(proxy.count(&Matching::watches("configmaps").query(STREAMING)), 0, "no streaming list");
    mirror.assert_each_once(&writing, &["before@1"]);
    reading.stop().await;
}

#[tokio::test]
async fn cut_torn_and_ended_streams_lose_nothing_and_double_nothing() {
    let cluster = harness::cluster().await;
    let breaks = [
        (After::Events(2), Then::Cut),
        (After::Events(1), Then::Tear),
        (After::Bytes(700), Then::Cut),
        (After::Events(1), Then::EndWith("{\"type\":\"MODI".into())),
        (After::Events(1), Then::EndWith("what is this\n".into())),
        (After::Events(2), Then::End),
    ];
    // Two a reading: the pauses grow from failure to failure.
    for pair in breaks.chunks(2) {
        let namespace = cluster.namespace("torn").await;
        let writing = Writing::new(cluster.access(), namespace.name());
        let proxy = Proxy::start(cluster.access());
        let mirror = Mirror::default();
        let reading = Reading::of(proxy.access(), configmaps(&namespace), &mirror).await;
        reading.until_live().await;
        proxy.forget();
        for (after, then) in pair {
            proxy.fault_next(1, Matching::watches("configmaps"), Fault::Stream(*after, then.clone()));
        }
        proxy.cut(&Matching::watches("configmaps"));
        // Written at once, so that every reconnection finds the next change waiting and breaks on it.
        for round in 0..12 {
            let name = format!("map-{}", round % 4);
            if round < 4 {
                writing.create(&name).await;
            } else {
                writing.change(&name).await;
            }
        }
        writing.delete("map-0").await;
        mirror.until_equal(&writing).await;
        mirror.assert_each_once(&writing, &[]);
        assert_eq!(proxy.count(&Matching::watches("configmaps")), 3, "both faults were met");
        assert_eq!(proxy.count(&Matching::lists("configmaps")), 0, "neither is a reason to list");
        reading.stop().await;
    }
}

#[tokio::test]
async fn a_stalled_watch_is_given_up_and_resumed() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("stalled").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    let proxy = Proxy::start(cluster.access());
    let mirror = Mirror::default();
    let reading = Reading::with(proxy.access(), configmaps(&namespace), &mirror, |settings| {
        settings.watch_timeout = Duration::from_secs(2)..=Duration::from_secs(3);
        settings.grace = Duration::from_secs(1);
    })
    .await;
    reading.until_live().await;
    proxy.stall(&Matching::watches("configmaps"));
    writing.create("unheard").await;
    writing.change("unheard").await;
    // A watch may have ended by itself just before it was stalled: then it is the next one's turn.
    poll(PATIENCE, "a watch that is given up", async || {
        let given_up = reading.status().watches.0.contains_key(&Ended::Silent);
        if !given_up {
            proxy.stall(&Matching::watches("configmaps"));
        }
        given_up.then_some(())
    })
    .await;
    mirror.until_equal(&writing).await;
    mirror.assert_each_once(&writing, &[]);
    reading.stop().await;
}

#[tokio::test]
async fn a_410_in_the_stream_or_as_an_answer_leads_to_one_list_that_shows_deletions() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("gone").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    let proxy = Proxy::start(cluster.access());
    let mirror = Mirror::default();
    for name in ["kept", "deleted"] {
        writing.create(name).await;
    }
    let reading = Reading::of(proxy.access(), configmaps(&namespace), &mirror).await;
    reading.until_live().await;
    for fault in [Fault::error_event(0, 410), Fault::answer(410)] {
        proxy.fault_next(1, Matching::watches("configmaps"), fault);
        proxy.refuse(true);
        proxy.cut(&Matching::watches("configmaps"));
        writing.delete("deleted").await;
        writing.change("kept").await;
        proxy.refuse(false);
        mirror.until_equal(&writing).await;
        reading.until_live().await;
        writing.create("deleted").await;
        mirror.until_equal(&writing).await;
    }
    assert_eq!(reading.status().relists[&Relist::Expired], 2);
    reading.stop().await;
}

#[tokio::test]
async fn busy_forbidden_and_failing_answers_are_waited_out_without_a_list() {
    let cluster = harness::cluster().await;
    let answers = [
        (Fault::answer(401), "not authenticated"),
        (Fault::answer(403), "not permitted"),
        (Fault::answer(503), "failed with 503"),
        (Fault::too_many_requests(1), "wait 1 s"),
    ];
    // One reading each: the pauses grow from failure to failure.
    for (fault, words) in answers {
        let namespace = cluster.namespace("refused").await;
        let writing = Writing::new(cluster.access(), namespace.name());
        let proxy = Proxy::start(cluster.access());
        let mirror = Mirror::default();
        let reading = Reading::of(proxy.access(), configmaps(&namespace), &mirror).await;
        reading.until_live().await;
        proxy.fault_next(1, Matching::watches("configmaps"), fault);
        proxy.cut(&Matching::watches("configmaps"));
        writing.create("meanwhile").await;
        writing.change("meanwhile").await;
        mirror.until_equal(&writing).await;
        let problem = reading.status().problem.expect("a problem").error.to_string();
        assert!(problem.contains(words), "{problem}");
        mirror.assert_each_once(&writing, &[]);
        assert_eq!(proxy.count(&Matching::lists("configmaps")), 0);
        reading.stop().await;
    }
}

#[tokio::test]
async fn a_paged_list_that_fails_on_page_seven_ends_whole() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("pages").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    for number in 0..80 {
        writing.create(&format!("map-{number:02}")).await;
    }
    let proxy = Arc::new(Proxy::start(cluster.access()));
    proxy.fault(Matching::watches("configmaps").query(STREAMING), Fault::answer(422));
    let mirror = Mirror::default();
    let source = mirror::Seventh::of(&proxy).await;
    let reading = Reading::from(source, configmaps(&namespace), &mirror, |settings| settings.page = 10);
    reading.until_live().await;
    assert_eq!(mirror.documents(), writing.list().await);
    assert_eq!(mirror.lists_begun(), 1, "it went on where it failed");
    assert!(reading.status().lists.failed >= 2, "{:?}", reading.status());
    writing.change("map-07").await;
    mirror.until_equal(&writing).await;
    assert_eq!(mirror.reported(), ["map-07@2"], "what was listed is not told again");
    reading.stop().await;
}

#[tokio::test]
async fn a_continue_token_that_expires_leads_to_one_full_list() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("token").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    for number in 0..35 {
        writing.create(&format!("map-{number:02}")).await;
    }
    let proxy = Proxy::start(cluster.access());
    proxy.fault(Matching::watches("configmaps").query(STREAMING), Fault::answer(422));
    proxy.fault_next(1, Matching::lists("configmaps").query("continue="), Fault::answer(410));
    let mirror = Mirror::default();
    let reading = Reading::with(proxy.access(), configmaps(&namespace), &mirror, |settings| settings.page = 10).await;
    reading.until_live().await;
    assert_eq!(mirror.documents(), writing.list().await);
    assert_eq!(mirror.lists_begun(), 2);
    assert_eq!(proxy.count(&Matching::lists("configmaps")), 3, "a page, a refused page, all");
    reading.stop().await;
}

#[tokio::test]
async fn a_permission_taken_away_and_given_back_heals_by_itself() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("rbac").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    let role = |verbs: &str| {
        format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{{"name":"reader"}},
                "rules":[{{"apiGroups":[""],"resources":["configmaps"],"verbs":[{verbs}]}}]}}"#
        )
    };
    let binding = format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{{"name":"reader"}},
            "roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"}},
            "subjects":[{{"kind":"ServiceAccount","name":"default","namespace":"{}"}}]}}"#,
        namespace.name()
    );
    cluster.apply(namespace.name(), &role(r#""get""#)).await;
    cluster.apply(namespace.name(), &binding).await;
    let token = cluster.kubectl(&["create", "token", "default", "-n", namespace.name()]).await;
    let proxy = Proxy::start(&cluster.access().with_token(token.trim()));
    let mirror = Mirror::default();
    let reading = Reading::of(proxy.access(), configmaps(&namespace), &mirror).await;
    reading.until("it is not permitted", |status| status.phase == Phase::Waiting).await;
    let problem = reading.status().problem.unwrap().error.to_string();
    assert!(problem.contains("configmaps is forbidden"), "{problem}");

    cluster.apply(namespace.name(), &role(r#""list","watch""#)).await;
    reading.until_live().await;
    writing.create("seen").await;
    mirror.until_equal(&writing).await;

    cluster.apply(namespace.name(), &role(r#""get""#)).await;
    poll(PATIENCE, "the role to take effect", async || {
        let access = proxy.access();
        let answer = access.get(&format!("/api/v1/namespaces/{}/configmaps", namespace.name())).send().await.ok()?;
        (answer.status() == 403).then_some(())
    })
    .await;
    proxy.cut(&Matching::watches("configmaps"));
    reading.until("it is not permitted any more", |status| status.phase == Phase::Waiting).await;
    writing.change("seen").await;
    writing.create("unseen").await;
    cluster.apply(namespace.name(), &role(r#""list","watch""#)).await;
    mirror.until_equal(&writing).await;
    mirror.assert_each_once(&writing, &[]);
    reading.stop().await;
}

#[tokio::test]
async fn a_token_that_is_no_longer_valid_is_replaced_from_its_file() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("token-file").await;
    let name = namespace.name();
    let writing = Writing::new(cluster.access(), name);
    let role = ["create", "role", "reader", "-n", name, "--verb=list,watch", "--resource=configmaps"];
    cluster.kubectl(&role).await;
    let account = format!("--serviceaccount={name}:reader");
    cluster.kubectl(&["create", "rolebinding", "reader", "-n", name, "--role=reader", &account]).await;
    let file = cluster.dir().join(format!("{name}.token"));
    let new_token = async || {
        cluster.kubectl(&["create", "serviceaccount", "reader", "-n", name]).await;
        let token = cluster.kubectl(&["create", "token", "reader", "-n", name]).await;
        std::fs::write(&file, token.trim()).unwrap();
    };
    new_token().await;
    let proxy = Proxy::start(cluster.access());
    let mut config = proxy.access().config().await;
    config.auth_info.token = None;
    config.auth_info.token_file = Some(file.to_str().unwrap().to_owned());
    let mirror = Mirror::default();
    let api = Api::connect(config, Default::default()).unwrap();
    let reading = Reading::from(api, configmaps(&namespace), &mirror, |_| {});
    reading.until_live().await;

    let old = cluster.access().with_token(std::fs::read_to_string(&file).unwrap());
    // With its account the token goes, though not at once: the server remembers for some seconds whom it let in.
    cluster.kubectl(&["delete", "serviceaccount", "reader", "-n", name]).await;
    new_token().await;
    poll(PATIENCE, "the old token to be refused", async || {
        let answer = old.get(&format!("/api/v1/namespaces/{name}/configmaps")).send().await.ok()?;
        (answer.status() == 401).then_some(())
    })
    .await;
    proxy.cut(&Matching::watches("configmaps"));
    let refused =
        |status: &Status| matches!(&status.problem, Some(problem) if matches!(problem.error, Error::Unauthorized(_)));
    reading.until("it is refused", refused).await;
    writing.create("meanwhile").await;
    let expected = writing.list().await;
    poll(3 * PATIENCE, "the new token to be used", async || (mirror.documents() == expected).then_some(())).await;
    mirror.assert_each_once(&writing, &[]);
    reading.stop().await;
}

#[tokio::test]
async fn a_namespaced_feed_sees_its_namespace_alone_and_a_field_selector_leaves_one_out() {
    let cluster = harness::cluster().await;
    let (one, other) = (cluster.namespace("one").await, cluster.namespace("other").await);
    let (writing, elsewhere) =
        (Writing::new(cluster.access(), one.name()), Writing::new(cluster.access(), other.name()));
    let mirror = Mirror::default();
    let mut feed = configmaps(&one);
    feed.scope = Scope::All;
    feed.fields = format!("metadata.namespace!={},metadata.name!=kube-root-ca.crt", other.name());
    let all = Mirror::default();
    let both = [
        Reading::of(cluster.access(), configmaps(&one), &mirror).await,
        Reading::of(cluster.access(), feed, &all).await,
    ];
    for reading in &both {
        reading.until_live().await;
    }
    elsewhere.create("left-out").await;
    writing.create("here").await;
    elsewhere.change("left-out").await;
    writing.change("here").await;
    mirror.until_equal(&writing).await;
    poll(PATIENCE, "the wide feed to see it", async || all.objects().contains_key("here").then_some(())).await;
    assert!(!all.objects().contains_key("left-out"));
    assert!(!mirror.objects().contains_key("left-out"));
    for reading in both {
        reading.stop().await;
    }
}

#[tokio::test]
async fn secrets_can_be_read_as_metadata_alone() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("secrets").await;
    cluster
        .kubectl(&["create", "secret", "generic", "s", "-n", namespace.name(), "--from-literal=password=hunter2"])
        .await;
    let mut feed = configmaps(&namespace);
    feed.resource = mirror::resource("", "v1", "secrets", "Secret", true).into();
    feed.metadata_only = true;
    for streaming in [true, false] {
        let proxy = Proxy::start(cluster.access());
        if !streaming {
            proxy.fault(Matching::watches("secrets").query(STREAMING), Fault::answer(422));
        }
        let mirror = Mirror::default();
        let reading = Reading::of(proxy.access(), feed.clone(), &mirror).await;
        reading.until_live().await;
        let document = mirror.document("s");
        assert_eq!((document["kind"].as_str(), document["apiVersion"].as_str()), (Some("Secret"), Some("v1")));
        assert!(document.get("data").is_none(), "{document}");
        reading.stop().await;
    }
}
