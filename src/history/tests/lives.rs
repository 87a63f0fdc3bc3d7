//! Objects at any time, and blame, over random lives.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::event::render::yaml::yaml;

/// What happens to an object.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Put(Value),
    Delete,
    /// The server's last word differs from what was stored.
    DeleteAs(Value),
}

fn specs() -> impl Strategy<Value = Value> {
    let text = select(vec!["a", "b", "one\ntwo\nthree\n", "", "x: y", "12"]);
    let item = (0..5u8, text.clone()).prop_map(|(n, v)| json!({"name": format!("n{n}"), "value": v}));
    let items = vec(item, 0..5).prop_map(|items| {
        let mut seen = Vec::new();
        Value::Array(
            items
                .into_iter()
                .filter(|i| {
                    !seen.contains(&i["name"]) && {
                        seen.push(i["name"].clone());
                        true
                    }
                })
                .collect(),
        )
    });
    let numbers = vec(0..4u8, 0..5);
    let maps = vec((select(vec!["k", "l/m", "n~o", "p.q"]), text), 0..4);
    (items, numbers, maps, 0..3u8).prop_map(|(items, numbers, maps, replicas)| {
        let maps: serde_json::Map<String, Value> = maps.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect();
        json!({"replicas": replicas, "containers": items, "numbers": numbers, "map": maps, "nested": {"deep": [[numbers]]}})
    })
}

pub(super) fn deeds() -> impl Strategy<Value = Vec<(u8, Deed)>> {
    let deed = prop_oneof![
        8 => specs().prop_map(Deed::Put),
        1 => Just(Deed::Delete),
        1 => specs().prop_map(Deed::DeleteAs),
    ];
    vec((0..3u8, deed), 1..40)
}

pub(super) fn gadgets() -> Resource {
    Resource { group: "acme.example".into(), ..Resource::core("v1", "gadgets", "Gadget") }
}

pub(super) fn gadget(n: u8) -> Name {
    Name { group: "acme.example".into(), resource: "gadgets".into(), namespace: "shop".into(), name: format!("g{n}") }
}

pub(super) fn object(n: u8, life: u32, spec: &Value) -> Value {
    json!({"metadata": {"name": format!("g{n}"), "namespace": "shop", "uid": format!("u{n}-{life}"),
        "managedFields": [{"manager": "kubectl-edit", "operation": "Update", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
        "spec": spec, "status": {"seen": spec["replicas"]}})
}

/// Does all of it, and says what each version of each object looks like.
pub(super) async fn live(rig: &Rig, deeds: &[(u8, Deed)]) -> BTreeMap<String, Value> {
    let mut feed = rig.feed(&gadgets()).await;
    let mut lives: [(u32, Option<Value>); 3] = Default::default();
    let mut documents = BTreeMap::new();
    for (step, (n, deed)) in deeds.iter().enumerate() {
        let version = step as u64 + 10;
        let (life, there) = &mut lives[*n as usize];
        let update = match deed {
            Deed::Put(spec) => {
                let document = rig.document(&gadgets(), version, &object(*n, *life, spec));
                *there = Some(spec.clone());
                documents.insert(version.to_string(), document.value());
                Update::Applied(document)
            }
            Deed::Delete | Deed::DeleteAs(_) => {
                let Some(last) = there.take() else { continue };
                let last = if let Deed::DeleteAs(spec) = deed { spec.clone() } else { last };
                let document = rig.document(&gadgets(), version, &object(*n, *life, &last));
                *life += 1;
                Update::Deleted(document)
            }
        };
        feed.put(update).await.unwrap();
        if step % 5 == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
    rig.settle().await;
    documents
}

async fn check(deeds: Vec<(u8, Deed)>) {
    let rig = Rig::new();
    let documents = live(&rig, &deeds).await;
    let mut history = rig.history();
    for n in 0..3 {
        let steps = history.of_object(&gadget(n), Order::Asc, None, 1_000).unwrap();
        let mut states: Vec<(Timestamp, Option<Value>)> = Vec::new();
        let mut before = None;
        for row in &steps.rows {
            let detail = history.detail(row.seq).unwrap().unwrap();
            let event = &detail.event;
            let after = (event.kind != Kind::Deleted).then(|| documents[&event.resource.resource_version].clone());
            if event.kind == Kind::Updated {
                assert_eq!(detail.before, before, "before {row:?}");
            }
            if event.kind == Kind::Deleted {
                assert_eq!(detail.before, before, "the last that was stored");
            }
            assert_eq!(detail.after, after, "after {row:?}");
            assert_eq!(history.at(&gadget(n), When::After(row.seq)).unwrap().object, after, "by the event {row:?}");
            before.clone_from(&after);
            states.push((row.time, after));
        }
        for (at, (time, _)) in states.iter().enumerate() {
            // Of those within one millisecond the last counts.
            let (last, want) =
                states.iter().enumerate().rfind(|(_, (t, _))| t <= time).map(|(i, (_, v))| (i, v)).unwrap();
            let state = history.at(&gadget(n), When::At(*time)).unwrap();
            assert_eq!(&state.object, want, "object {n} after event {at}");
            assert_eq!(state.doubt, None);
            assert_eq!(state.event, Some(steps.rows[last].seq));
            let (lines, _) = history.blame(&gadget(n), When::At(*time)).unwrap();
            let text: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
            assert_eq!(text, want.as_ref().map_or(String::new(), yaml));
            let known: Vec<&str> = steps.rows[..=last].iter().map(|row| row.id.as_str()).collect();
            assert!(lines.iter().all(|line| line.event.as_deref().is_some_and(|id| known.contains(&id))));
        }
        if let Some((first, _)) = states.first() {
            let just_before = Timestamp::from_millisecond(first.as_millisecond() - 1).unwrap();
            match history.at(&gadget(n), When::At(just_before)) {
                Ok(state) => assert_eq!(state.object, None, "it did not exist yet"),
                Err(error) => assert!(matches!(error, Error::NotKept { .. }), "{error}"),
            }
            let now = history.at(&gadget(n), When::Now).unwrap();
            assert_eq!(Some(&now.object), states.last().map(|(_, state)| state));
        } else {
            assert!(matches!(history.at(&gadget(n), When::Now), Err(Error::Unknown(_))));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn at_every_time_of_a_random_history_an_object_is_what_was_recorded(deeds in deeds()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(deeds));
    }

    #[test]
    fn lines_with_pointers_are_the_same_text_as_the_document(spec in specs()) {
        use crate::event::render::yaml::yaml_lines;
        let text: String = yaml_lines(&spec).iter().map(|(line, _)| format!("{line}\n")).collect();
        prop_assert_eq!(text, yaml(&spec));
        for (line, pointer) in yaml_lines(&spec) {
            prop_assert!(spec.pointer(&pointer).is_some(), "{} {}", line, pointer);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blame_follows_a_field_through_the_list_that_it_moves_in() {
    let rig = Rig::new();
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let steps = [
        json!({"containers": [container("web", "1"), container("side", "1")], "replicas": 1}),
        json!({"containers": [container("web", "2"), container("side", "1")], "replicas": 1}),
        json!({"containers": [container("init", "9"), container("web", "2"), container("side", "1")], "replicas": 1}),
        json!({"containers": [container("init", "9"), container("web", "2"), container("side", "1")], "replicas": 3}),
    ];
    live(&rig, &steps.map(|spec| (0, Deed::Put(spec)))).await;
    let mut history = rig.history();
    let rows = history.of_object(&gadget(0), Order::Asc, None, 10).unwrap().rows;
    let (lines, state) = history.blame(&gadget(0), When::Now).unwrap();
    assert!(state.object.is_some());
    let author = |text: &str| {
        let line = lines.iter().find(|line| line.text.trim() == text).unwrap_or_else(|| panic!("{text} in {lines:#?}"));
        rows.iter().position(|row| Some(&row.id) == line.event.as_ref()).unwrap()
    };
    assert_eq!(author("name: web"), 0, "it moved, and is as old as it was");
    assert_eq!(author("- image: \"2\""), 1);
    assert_eq!(author("- image: \"9\""), 2);
    assert_eq!(author("name: side"), 0);
    assert_eq!(author("replicas: 3"), 3);
    let replicas = lines.iter().find(|line| line.path == "/spec/replicas").unwrap();
    assert_eq!((replicas.manager.as_deref(), replicas.hand), (Some("kubectl-edit"), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_there_before_anyone_looked_is_blamed_on_its_managers_and_not_known_before() {
    let rig = Rig::new();
    let mut feed = rig.store.feed(Feed::new(gadgets(), Scope::All), vec![], false).await.unwrap();
    let first = rig.document(&gadgets(), 5, &object(0, 0, &json!({"replicas": 1, "other": "x"})));
    feed.put(Update::ListBegan).await.unwrap();
    feed.put(Update::Listed(vec![first])).await.unwrap();
    feed.put(Update::ListEnded(Version::from("6"))).await.unwrap();
    rig.settle().await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let between = Timestamp::now();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    feed.put(Update::Applied(rig.document(&gadgets(), 7, &object(0, 0, &json!({"replicas": 1, "other": "y"})))))
        .await
        .unwrap();
    rig.settle().await;
    let mut history = rig.history();
    let then = history.at(&gadget(0), When::At(between)).unwrap();
    assert_eq!(then.object.unwrap()["spec"]["other"], "x");
    assert_eq!(then.event, None);
    let long_ago = history.at(&gadget(0), When::At("2020-01-01T00:00:00Z".parse().unwrap()));
    assert!(matches!(long_ago, Err(Error::NotKept { .. })), "{long_ago:?}");
    let (lines, _) = history.blame(&gadget(0), When::Now).unwrap();
    let line = |path: &str| lines.iter().find(|line| line.path == path).unwrap();
    assert!(line("/spec/other").event.is_some());
    assert_eq!(line("/spec/replicas").event, None);
    assert_eq!(line("/spec/replicas").manager.as_deref(), Some("kubectl-edit"));
    let (objects, next) = history.objects(&objects::Which::default(), &Sight::Everything, None, 10).unwrap();
    assert_eq!((objects.len(), next), (1, None));
    assert_eq!(objects[0].kind, "Gadget");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_listed_in_pages_of_any_size_each_once() {
    let rig = Rig::new();
    let mut maps = rig.feed(&config_maps()).await;
    let mut gadget_feed = rig.feed(&gadgets()).await;
    for n in 0..10u64 {
        let namespace = ["a", "b", "c"][n as usize % 3];
        let metadata = json!({"metadata": {"name": format!("m{n}"), "namespace": namespace, "uid": format!("u{n}")}});
        maps.put(Update::Applied(rig.document(&config_maps(), n + 10, &metadata))).await.unwrap();
        gadget_feed.put(Update::Applied(rig.document(&gadgets(), n + 10, &metadata))).await.unwrap();
    }
    rig.settle().await;
    let history = rig.history();
    let list = |which: &objects::Which, limit: usize| {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let (objects, next) = history.objects(which, &Sight::Everything, cursor.as_deref(), limit).unwrap();
            all.extend(objects.into_iter().map(|o| format!("{}/{}/{}", o.kind, o.namespace, o.name)));
            match next {
                Some(next) => cursor = Some(next),
                None => return all,
            }
        }
    };
    let all = list(&objects::Which::default(), 1_000);
    assert_eq!(all.len(), 20);
    for limit in [1, 3, 7, 10, 19, 20] {
        assert_eq!(list(&objects::Which::default(), limit), all, "pages of {limit}");
    }
    let which = objects::Which { kinds: Words::one("cm"), namespaces: Words::one("b"), names: Words::default() };
    assert_eq!(list(&which, 2), ["ConfigMap/b/m1", "ConfigMap/b/m4", "ConfigMap/b/m7"]);
    let star = objects::Which { names: Words::one("m*3"), ..objects::Which::default() };
    assert_eq!(list(&star, 1).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_objects_go_on_in_the_next_feed_of_the_same_resource_and_where_looking_was_cut_off() {
    let rig = Rig::new();
    let mut version = 10;
    for namespace in ["shop", "bank"] {
        let scope = Scope::Namespace(namespace.into());
        let mut feed = rig.store.feed(Feed::new(config_maps(), scope), vec![], false).await.unwrap();
        feed.put(Update::ListBegan).await.unwrap();
        for n in 0..3 {
            version += 1;
            let object =
                json!({"metadata": {"name": format!("m{n}"), "namespace": namespace, "uid": format!("u{version}")}});
            feed.put(Update::Listed(vec![rig.document(&config_maps(), version, &object)])).await.unwrap();
        }
        feed.put(Update::ListEnded(Version::from("1"))).await.unwrap();
    }
    rig.settle().await;
    let history = rig.history();
    let list = |which: &objects::Which, limit: usize, most: usize| {
        let (mut all, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = history.objects_within(which, &Sight::Everything, cursor.as_deref(), limit, most);
            let (objects, next) = page.unwrap();
            assert!(objects.len() <= limit.min(most));
            all.extend(objects.into_iter().map(|o| format!("{}/{}", o.namespace, o.name)));
            pages += 1;
            assert!(pages < 20, "it goes on: {cursor:?}");
            match next {
                Some(next) => cursor = Some(next),
                None => return all,
            }
        }
    };
    let all = ["shop/m0", "shop/m1", "shop/m2", "bank/m0", "bank/m1", "bank/m2"];
    let last = objects::Which { names: Words::one("m2"), ..objects::Which::default() };
    for limit in 1..=7 {
        for most in 1..=7 {
            assert_eq!(list(&objects::Which::default(), limit, most), all, "pages of {limit}, {most} looked at");
            assert_eq!(list(&last, limit, most), ["shop/m2", "bank/m2"], "pages of {limit}, {most} looked at");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undoing_is_a_command_that_first_looks_whether_it_still_fits_and_never_writes_a_mask() {
    let rig = Rig::new();
    live(&rig, &[(0, Deed::Put(json!({"replicas": 1}))), (0, Deed::Put(json!({"replicas": 3})))]).await;
    let mut history = rig.history();
    let undo = history.detail(2).unwrap().unwrap().undo;
    assert_eq!(undo, None, "spec and status at once");
    let mut feed = rig.feed(&config_maps()).await;
    for (version, value) in [(10, "one"), (11, "it's two")] {
        let object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "data": {"k": value}});
        feed.put(Update::Applied(rig.document(&config_maps(), version, &object))).await.unwrap();
    }
    let secrets = Resource::core("v1", "secrets", "Secret");
    let mut feed = rig.feed(&secrets).await;
    for (version, value) in [(10, "b25l"), (11, "dHdv")] {
        let object = json!({"metadata": {"name": "key", "namespace": "shop", "uid": "s"}, "data": {"k": value}});
        feed.put(Update::Applied(rig.document(&secrets, version, &object))).await.unwrap();
    }
    rig.settle().await;
    let undo = history.detail(4).unwrap().unwrap().undo.unwrap();
    assert_eq!(
        undo,
        r#"kubectl patch configmaps web -n shop --type=json -p '[{"op":"test","path":"/data/k","value":"it'\''s two"},{"op":"replace","path":"/data/k","value":"one"}]'"#
    );
    assert_eq!(history.detail(6).unwrap().unwrap().undo, None, "the value is not known");
    assert_eq!(history.detail(5).unwrap().unwrap().undo, None, "a creation is no patch");
    assert!(history.detail(99).unwrap().is_none());
    assert_eq!(history.at(&name("configmaps", "shop", "web"), When::Now).unwrap().event, Some(4));
}
