//! What went while nobody looked, and what an earlier configuration left behind.

use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_namespace_that_went_while_it_was_down_is_told_of_and_one_of_an_unknown_list_is_not() {
    let worlds = Worlds::default();
    let maps = worlds.serve(config_maps(), Duration::ZERO);
    let spaces = worlds.serve(namespaces(), Duration::ZERO);
    for name in ["team-a", "team-b"] {
        spaces.apply("", name, &json!({}));
        maps.apply(name, "one", &json!({}));
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let settings = only(&["v1/configmaps"], &["team-*"]);
    let rig = Rig::start(&worlds, &place, settings.clone());
    rig.synced().await;
    rig.stop().await;

    spaces.delete("", "team-a");
    maps.delete("team-a", "one");
    worlds.forbid("namespaces", true);
    let rig = Rig::start(&worlds, &place, settings.clone());
    rig.until("both are read", |rig| rig.watched().len() == 3).await;
    rig.stop().await;
    worlds.forbid("namespaces", false);
    let rig = Rig::start(&worlds, &place, settings);
    rig.until("one is left", |rig| {
        rig.watched() == ["v1/configmaps in team-b", "v1/namespaces"].map(str::to_owned).into()
    })
    .await;
    let left = Feed::new(config_maps(), Scope::Namespace("team-b".into()));
    let informer = rig.factory.informer(left);
    rig.until("it is in sync", |_| informer.has_synced()).await;
    assert_eq!(informer.lister().await.unwrap().count().unwrap(), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_went_while_it_was_down_is_forgotten_though_the_namespaces_are_known_later() {
    let worlds = Worlds::default();
    let (maps, things) = (worlds.serve(config_maps(), Duration::ZERO), worlds.serve(widgets(), Duration::ZERO));
    let spaces = worlds.serve(namespaces(), Duration::ZERO);
    spaces.apply("", "team-a", &json!({}));
    maps.apply("team-a", "one", &json!({}));
    things.apply("team-a", "one", &json!({}));
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let settings = only(&["*"], &["team-*"]);
    let rig = Rig::start(&worlds, &place, settings.clone());
    rig.synced().await;
    rig.stop().await;

    worlds.lock().worlds.remove("widgets.example.com");
    worlds.lock().latency = millis(300);
    let (told, notes) = Told::new();
    let rig = Rig::start_with(&worlds, &place, settings, Some(Box::new(told)));
    rig.until("it is told to be gone", |_| !notes.lock().unwrap().is_empty()).await;
    assert_eq!(*notes.lock().unwrap(), ["- team-a/one of widgets.example.com"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn feeds_of_an_earlier_configuration_are_forgotten_though_one_group_never_answers() {
    let worlds = Worlds::default();
    let things = Resource { group: "broken.example".into(), ..Resource::core("v1", "things", "Thing") };
    for resource in [config_maps(), widgets(), things] {
        worlds.serve(resource, Duration::ZERO).apply("shop", "one", &json!({}));
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let rig = Rig::start(&worlds, &place, only(&["*"], &[]));
    rig.synced().await;
    rig.stop().await;

    let stored = |rig: &Rig| {
        let reader = rig.store.reader().unwrap();
        let mut feeds = reader.connection().prepare("SELECT resource FROM feeds ORDER BY resource").unwrap();
        feeds.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    let silent = Unavailable { group: "broken.example".into(), version: "v1".into(), reason: "down".into() };
    worlds.lock().unavailable = vec![silent];
    worlds.lock().hidden.insert("things.broken.example".into(), Some(Error::Connection("down".into())));
    let rig = Rig::start(&worlds, &place, only(&["Widget"], &[]));
    rig.until("what answered is forgotten", |rig| stored(rig) == ["things.broken.example", "widgets.example.com"])
        .await;
    rig.synced().await;
    worlds.lock().unavailable.clear();
    worlds.lock().hidden.clear();
    rig.trigger.fire();
    rig.until("and the other when it answers", |rig| stored(rig) == ["widgets.example.com"]).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_went_is_told_once_and_its_end_stays_noted_while_other_groups_fall_silent() {
    let worlds = Worlds::default();
    let maps = worlds.serve(config_maps(), Duration::ZERO);
    let spaces = worlds.serve(namespaces(), Duration::ZERO);
    for name in ["team-a", "team-b"] {
        spaces.apply("", name, &json!({}));
        maps.apply(name, "one", &json!({}));
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let settings = only(&["v1/configmaps"], &["team-*"]);
    let rig = Rig::start(&worlds, &place, settings.clone());
    rig.synced().await;
    rig.stop().await;

    spaces.delete("", "team-a");
    maps.delete("team-a", "one");
    let silence = |groups: &[&str]| {
        let silent =
            |group: &&str| Unavailable { group: (*group).into(), version: String::new(), reason: "down".into() };
        worlds.lock().unavailable = groups.iter().map(silent).collect();
    };
    silence(&["broken.example"]);
    let (told, notes) = Told::new();
    let rig = Rig::start_with(&worlds, &place, settings, Some(Box::new(told)));
    let gone = Feed::new(config_maps(), Scope::Namespace("team-a".into())).key();
    let ended = |rig: &Rig| {
        let reader = rig.store.reader().unwrap();
        crate::cluster::store::ended::read(reader.connection()).unwrap().iter().any(|ended| ended.key == gone)
    };
    rig.until("its end is noted", ended).await;
    for groups in [&["broken.example", "another.example"][..], &["broken.example"], &[]] {
        silence(groups);
        rig.trigger.fire();
        let silent = |rig: &Rig| rig.overview.borrow().unavailable.len() == groups.len();
        rig.until("it is known who is silent", silent).await;
        assert!(ended(&rig), "the end stays noted");
    }
    let notes = notes.lock().unwrap().clone();
    let told: Vec<_> = notes.iter().filter(|note| note.ends_with("of configmaps")).collect();
    assert_eq!(told, ["- team-a/one of configmaps"]);
    rig.stop().await;
}
