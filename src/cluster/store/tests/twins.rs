//! Two names that share a hash.

use serde_json::json;

use super::*;
use crate::cluster::store::keys::TWIN;

fn twins() -> (String, String) {
    (format!("{TWIN}a"), format!("{TWIN}b"))
}

#[tokio::test]
async fn names_that_share_a_hash_are_told_apart() {
    let (a, b) = twins();
    let (store, writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let object = |name: &str, version: u64| make.object(name, version, &json!({"v": version.to_string()}));
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![object(&a, 1), object(&b, 2)], 5).await;
    // The same again is no change of either.
    list(&mut target, vec![object(&a, 1), object(&b, 2)], 6).await;
    target.put(Update::Applied(object(&a, 7))).await.unwrap();
    target.put(Update::Applied(object(&b, 8))).await.unwrap();
    target.put(Update::Deleted(object(&a, 9))).await.unwrap();
    target.put(Update::Applied(object(&b, 10))).await.unwrap();
    target.put(Update::Applied(object(&a, 11))).await.unwrap();
    settle(&store).await;
    let expected = [
        format!("Live ~{a}@1 {a}@7"),
        format!("Live ~{b}@2 {b}@8"),
        format!("Live -{a}@9"),
        format!("Live ~{b}@8 {b}@10"),
        format!("Live +{a}@11"),
    ];
    assert_eq!(notes.take(), expected);

    // Each by its absence, and one that cannot be read.
    list(&mut target, vec![object(&b, 10)], 12).await;
    list(&mut target, vec![object(&a, 13), object(&b, 10)], 14).await;
    list(&mut target, vec![object(&a, 13)], 15).await;
    target.put(Update::Applied(object(&b, 16))).await.unwrap();
    let unreadable =
        Update::Unreadable { namespace: "shop".into(), name: b.clone(), version: Version::from("17"), deleted: true };
    target.put(unreadable).await.unwrap();
    settle(&store).await;
    let expected = [
        format!("Late -{a}@11?"),
        format!("Late +{a}@13"),
        format!("Late -{b}@10?"),
        format!("Live +{b}@16"),
        format!("Live -{b}@16?"),
    ];
    assert_eq!(notes.take(), expected);
    let mut reader = store.reader().unwrap();
    assert_eq!(reader.get(target.id(), "shop", &a).unwrap().unwrap().meta().version.as_str(), "13");
    assert!(reader.get(target.id(), "shop", &b).unwrap().is_none());
    assert!(!writing.ended());
}

#[tokio::test]
async fn names_that_share_a_hash_are_told_apart_after_a_restart_and_by_audits() {
    let (a, b) = twins();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let (store, writing, _) = open(&place);
    let make = Maker::new(&store);
    let object = |name: &str, version: u64| make.object(name, version, &json!({}));
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![object(&a, 1), object(&b, 2)], 5).await;
    settle(&store).await;
    drop((target, store));
    writing.join();

    let (store, _writing, notes) = open(&place);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    let found = audits::audit(&target, vec![object(&a, 1), object(&b, 2)], 5, &[]).await;
    assert_eq!(found, Audited::default());
    for name in [&a, &b] {
        target.put(Update::Deleted(object(name, 7))).await.unwrap();
    }
    settle(&store).await;
    assert_eq!(notes.take(), [format!("Live -{a}@7"), format!("Live -{b}@7")]);
}
