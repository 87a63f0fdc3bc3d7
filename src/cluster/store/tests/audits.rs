//! What an audit tells of, and what not.

use serde_json::json;

use super::*;

/// Audits with a list of these objects at a version: what it found.
pub(super) async fn audit(
    target: &FeedTarget,
    documents: Vec<Document>,
    version: u64,
    absent_before: &[String],
) -> Audited {
    let mut listed = AuditList::default();
    let reader = target.store.reader().unwrap();
    for document in documents {
        let (namespace, name) = (&document.meta().namespace, &document.meta().name);
        let stored = reader.version(target.id(), namespace, name).unwrap();
        listed.note(document, stored.as_ref());
    }
    let absent_before = absent_before.iter().cloned().collect();
    let audit = Arc::new(Audit { version: Version(version.to_string()), listed, absent_before });
    target.store.audit(target.id(), audit).await.unwrap().expect("the watch is that far")
}

#[tokio::test]
async fn an_audit_tells_of_what_was_missed_and_not_of_what_the_watch_is_ahead_with() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let object = |name: &str, version| make.object(name, version, &json!({"v": version}));
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    let first = ["same", "changed", "missed-delete", "deleted-later"];
    list(&mut target, first.iter().zip(1..).map(|(name, version)| object(name, version)).collect(), 5).await;
    // The watch is past the list that the audit compares, which is of version 15.
    target.put(Update::Applied(object("made-later", 16))).await.unwrap();
    target.put(Update::Deleted(object("deleted-later", 18))).await.unwrap();
    target.put(Update::Bookmark("20".into())).await.unwrap();
    settle(&store).await;
    notes.take();

    let listed =
        || vec![object("same", 1), object("changed", 9), object("deleted-later", 4), object("missed-create", 12)];
    let found = audit(&target, listed(), 15, &[]).await;
    assert_eq!(found.missed, 2);
    assert_eq!(found.absent, ["uid-deleted-later", "uid-missed-create"], "either may be true of each");
    assert_eq!(notes.take(), ["Audit ~changed@2 changed@9", "Audit -missed-delete@3?"]);

    // What was deleted meanwhile is not in a later list; what was missed is.
    let later = vec![object("same", 1), object("changed", 9), object("made-later", 16), object("missed-create", 12)];
    let found = audit(&target, later, 20, &found.absent).await;
    assert_eq!((found.missed, found.absent), (1, vec![]));
    assert_eq!(notes.take(), ["Audit +missed-create@12"]);
}
