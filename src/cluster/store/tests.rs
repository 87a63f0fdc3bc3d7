//! The store by itself, fed by hand.

mod audits;
mod closing;
mod patience;
mod reading;
mod twins;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::{Resource, Scope},
    redact::{self, Door},
};

fn config_maps() -> Feed {
    Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::All)
}

/// Objects as a server would send them.
struct Maker {
    door: Door,
    resource: Arc<Resource>,
}

impl Maker {
    fn new(store: &Store) -> Self {
        let door = Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap();
        Self { door, resource: config_maps().resource }
    }

    fn object(&self, name: &str, version: u64, data: &Value) -> Document {
        self.owned(name, version, &format!("uid-{name}"), data)
    }

    fn owned(&self, name: &str, version: u64, uid: &str, data: &Value) -> Document {
        let raw = json!({"metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
            "labels": {"app": name}}, "data": data});
        self.door.admit(&self.resource, raw.to_string().as_bytes()).unwrap()
    }
}

/// A journal that keeps what it was told, as text.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<(Vec<String>, Vec<String>)>>);

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().0)
    }
}

impl Journal for Notes {
    fn record(&mut self, _: &mut Within<'_>, _: &Feed, delta: &Delta, seen: Seen) -> Result<(), rusqlite::Error> {
        self.0.lock().unwrap().1.push(format!("{seen:?} {}", say(delta)));
        Ok(())
    }

    fn settled(&mut self, committed: bool) {
        let (kept, tried) = &mut *self.0.lock().unwrap();
        if committed {
            kept.append(tried);
        } else {
            tried.clear();
        }
    }
}

fn say(delta: &Delta) -> String {
    let at = |document: &Document| format!("{}@{}", document.meta().name, document.meta().version);
    match delta {
        Delta::Added(new) => format!("+{}", at(new)),
        Delta::Updated { old, new } => format!("~{} {}", at(old), at(new)),
        Delta::Deleted { last, certain, .. } => format!("-{}{}", at(last), if *certain { "" } else { "?" }),
    }
}

fn open(place: &Place) -> (Store, Writing, Notes) {
    let notes = Notes::default();
    let (store, writing) = Store::open(place, Some(Box::new(notes.clone()))).unwrap();
    (store, writing, notes)
}

/// Everything put so far is committed when this returns.
async fn settle(store: &Store) {
    store.write(Box::new(|_| Ok(()))).await.unwrap();
}

async fn list(target: &mut FeedTarget, documents: Vec<Document>, version: u64) {
    target.put(Update::ListBegan).await.unwrap();
    target.put(Update::Listed(documents)).await.unwrap();
    target.put(Update::ListEnded(Version(version.to_string()))).await.unwrap();
}

#[tokio::test]
async fn a_first_list_is_no_news_and_later_changes_are() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    assert!(!*target.synced().borrow());
    list(&mut target, vec![make.object("a", 1, &json!({"k": "1"})), make.object("b", 2, &json!({"k": "1"}))], 5).await;
    settle(&store).await;
    assert!(*target.synced().borrow());
    assert_eq!(notes.take(), [""; 0]);

    target.put(Update::Applied(make.object("a", 6, &json!({"k": "2"})))).await.unwrap();
    target.put(Update::Applied(make.object("c", 7, &json!({})))).await.unwrap();
    target.put(Update::Deleted(make.object("b", 8, &json!({"k": "1"})))).await.unwrap();
    settle(&store).await;
    assert_eq!(notes.take(), ["Live ~a@1 a@6", "Live +c@7", "Live -b@8"]);

    let mut reader = store.reader().unwrap();
    let a = reader.get(target.id(), "shop", "a").unwrap().unwrap();
    assert_eq!(a.value()["data"]["k"], "2");
    assert_eq!(a.meta().version.as_str(), "6");
    assert_eq!(a.meta().labels["app"], "a");
    assert!(reader.get(target.id(), "shop", "b").unwrap().is_none());
}

#[tokio::test]
async fn the_first_list_of_a_new_resource_is_news() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], true).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
    settle(&store).await;
    assert_eq!(notes.take(), ["Late +a@1"]);
}

#[tokio::test]
async fn an_equal_version_is_no_change() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], true).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
    target.put(Update::Applied(make.object("a", 1, &json!({})))).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({}))], 9).await;
    settle(&store).await;
    assert_eq!(notes.take(), ["Late +a@1"]);
}

#[tokio::test]
async fn only_a_finished_list_deletes_what_it_does_not_name() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({})), make.object("b", 2, &json!({}))], 5).await;
    target.put(Update::ListBegan).await.unwrap();
    target.put(Update::Listed(vec![make.object("b", 2, &json!({}))])).await.unwrap();
    settle(&store).await;
    assert_eq!(notes.take(), [""; 0]);

    list(&mut target, vec![make.object("b", 2, &json!({})), make.object("c", 9, &json!({}))], 9).await;
    settle(&store).await;
    assert_eq!(notes.take(), ["Late +c@9", "Late -a@1?"]);
    assert_eq!(target.cursor(), Some(Version::from("9")));
}

#[tokio::test]
async fn a_watch_that_goes_on_from_before_an_unfinished_list_does_not_go_back_in_time() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({"k": "1"})), make.object("b", 2, &json!({}))], 5).await;
    target.put(Update::ListBegan).await.unwrap();
    let anew = make.owned("b", 40, "another", &json!({}));
    target.put(Update::Listed(vec![make.object("a", 30, &json!({"k": "3"})), anew])).await.unwrap();
    store.close(target.id(), Close::Keep).await.unwrap();
    assert_eq!(notes.take(), ["Late ~a@1 a@30", "Late -b@2?", "Late +b@40"]);

    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    assert_eq!(target.cursor(), Some(Version::from("5")));
    for (version, k) in [(20, "2"), (30, "3"), (50, "5")] {
        target.put(Update::Applied(make.object("a", version, &json!({"k": k})))).await.unwrap();
    }
    target.put(Update::Deleted(make.object("b", 35, &json!({})))).await.unwrap();
    settle(&store).await;
    assert_eq!(notes.take(), ["Live ~a@30 a@50"]);
}

#[tokio::test]
async fn the_same_name_with_another_uid_is_a_delete_and_a_create() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
    list(&mut target, vec![make.owned("a", 7, "another", &json!({}))], 9).await;
    settle(&store).await;
    assert_eq!(notes.take(), ["Late -a@1?", "Late +a@7"]);
}

#[tokio::test]
async fn an_unreadable_object_keeps_its_last_known_state() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
    let unreadable = |version: &str, deleted| Update::Unreadable {
        namespace: "shop".into(),
        name: "a".into(),
        version: version.into(),
        deleted,
    };
    target.put(Update::ListBegan).await.unwrap();
    target.put(unreadable("7", false)).await.unwrap();
    target.put(Update::ListEnded("8".into())).await.unwrap();
    settle(&store).await;
    assert_eq!(notes.take(), [""; 0]);
    target.put(unreadable("9", true)).await.unwrap();
    settle(&store).await;
    assert_eq!(notes.take(), ["Live -a@1?"]);
    assert_eq!(target.cursor(), Some(Version::from("9")));
}

#[tokio::test]
async fn a_restart_finds_objects_and_cursor_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let (store, writing, _) = open(&place);
    let make = Maker::new(&store);
    let key = store.redaction_key();
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({"k": "1"}))], 5).await;
    target.put(Update::Bookmark("12".into())).await.unwrap();
    drop((target, store));
    writing.join();

    let (store, _writing, notes) = open(&place);
    assert_eq!(store.redaction_key(), key, "equal secrets must stay equal over a restart");
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    assert_eq!(target.cursor(), Some(Version::from("12")));
    assert!(*target.synced().borrow());
    target.put(Update::Applied(make.object("a", 13, &json!({"k": "2"})))).await.unwrap();
    settle(&store).await;
    assert_eq!(notes.take(), ["Live ~a@1 a@13"]);
}

#[tokio::test]
async fn a_second_process_on_the_same_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let (_store, _writing, _) = open(&place);
    let error = Store::open(&place, None).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn a_newer_file_is_refused_and_a_corrupt_one_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubediff.db");
    let place = Place::File(path.clone());
    let (store, writing, _) = open(&place);
    drop(store);
    writing.join();
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Store::open(&place, None).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");

    std::fs::write(&path, b"this is not a database, it is a sentence that is long enough to be read as one").unwrap();
    let (store, _writing, _) = open(&place);
    settle(&store).await;
    let aside = std::fs::read_dir(folder.path()).unwrap().filter_map(Result::ok);
    assert!(aside.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("corrupt-")));
}

/// The newest of what is kept may stand in the log alone: it belongs to the file that is set aside.
#[tokio::test]
async fn a_file_is_set_aside_with_the_log_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copied) = (folder.path().join("live.db"), folder.path().join("kubediff.db"));
    let (store, _writing, _) = open(&Place::File(path.clone()));
    store.write(Box::new(|t| t.execute("INSERT INTO meta VALUES ('newest', 'x')", []).map(drop))).await.unwrap();
    // As a process leaves them that is killed.
    for suffix in ["", "-wal"] {
        std::fs::copy(format!("{}{suffix}", path.display()), format!("{}{suffix}", copied.display())).unwrap();
    }
    file::mark_damaged(&copied, &rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(11), None));
    let (fresh, _writing, _) = open(&Place::File(copied.clone()));
    let newest = "SELECT count(*) FROM meta WHERE key = 'newest'";
    let count = |connection: &rusqlite::Connection| connection.query_row(newest, [], |row| row.get::<_, i64>(0));
    assert_eq!(count(fresh.reader().unwrap().connection()).unwrap(), 0, "a fresh start, without the old log");
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let aside = names.into_iter().find(|path| {
        let name = path.to_string_lossy();
        name.contains(".corrupt-") && name.ends_with('Z')
    });
    assert_eq!(count(&rusqlite::Connection::open(aside.unwrap()).unwrap()).unwrap(), 1, "all of it is in the old one");
}

#[tokio::test]
async fn a_place_where_nothing_may_be_written_is_named() {
    // Nobody may make a file there, root included.
    let error = Store::open(&Place::File("/sys/kubediff.db".into()), None).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("/sys/kubediff.db") && said.contains("writable for this user"), "{said}");
}

#[tokio::test]
async fn a_folder_that_does_not_exist_is_named() {
    let error = Store::open(&Place::File("/does/not/exist/kubediff.db".into()), None).unwrap_err().to_string();
    assert!(error.contains("/does/not/exist/kubediff.db") && error.contains("state.path"), "{error}");
}

#[tokio::test]
async fn a_subscriber_gets_what_there_is_and_then_every_change() {
    let (store, _writing, _) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, (0..450).map(|n| make.object(&format!("o{n}"), n, &json!({"n": n.to_string()}))).collect(), 1000)
        .await;
    let mut subscription = store.subscribe(target.id(), 10).await.unwrap();
    target.put(Update::Applied(make.object("o0", 1001, &json!({"n": "x"})))).await.unwrap();
    target.put(Update::Deleted(make.object("o1", 1002, &json!({"n": "1"})))).await.unwrap();
    let mut first = BTreeMap::new();
    for _ in 0..450 {
        let Some(Delta::Added(object)) = subscription.next().await else { panic!("the present comes first") };
        first.insert(object.meta().name.clone(), object.meta().version.to_string());
    }
    assert_eq!(first.len(), 450);
    assert_eq!(first["o0"], "0", "the state of the moment when the subscription began");
    assert_eq!(say(&subscription.next().await.unwrap()), "~o0@0 o0@1001");
    assert_eq!(say(&subscription.next().await.unwrap()), "-o1@1002");
    store.close(target.id(), Close::Forget).await.unwrap();
    assert!(subscription.next().await.is_none());
}

#[tokio::test]
async fn a_slow_subscriber_skips_states_between_and_never_the_last() {
    let (store, _writing, _) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
    let mut subscription = store.subscribe(target.id(), 3).await.unwrap();
    for version in 10..60 {
        target.put(Update::Applied(make.object("a", version, &json!({"v": version.to_string()})))).await.unwrap();
    }
    target.put(Update::Applied(make.object("b", 60, &json!({})))).await.unwrap();
    target.put(Update::Deleted(make.object("b", 61, &json!({})))).await.unwrap();
    target.put(Update::Applied(make.object("c", 62, &json!({})))).await.unwrap();
    settle(&store).await;
    assert!(subscription.waiting() <= 5, "{}", subscription.waiting());
    assert_eq!(say(&subscription.next().await.unwrap()), "+a@1");
    let mut at = "1".to_owned();
    loop {
        let delta = subscription.next().await.unwrap();
        let Delta::Updated { old, new } = &delta else {
            assert_eq!(say(&delta), "+c@62", "b came and went unseen");
            break;
        };
        assert_eq!(old.meta().version.to_string(), at, "every step begins where the last one ended");
        at = new.meta().version.to_string();
    }
    assert_eq!(at, "59");
}

#[tokio::test]
async fn objects_are_found_by_index_and_by_label_and_a_later_index_is_built_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let (store, writing, _) = open(&place);
    let make = Maker::new(&store);
    let color = || Index::by_pointers("color", &["/data/color"]);
    let mut target = store.feed(config_maps(), vec![color()], false).await.unwrap();
    list(
        &mut target,
        vec![make.object("a", 1, &json!({"color": "red"})), make.object("b", 2, &json!({"color": "red"}))],
        5,
    )
    .await;
    target.put(Update::Applied(make.object("b", 6, &json!({"color": "blue"})))).await.unwrap();
    settle(&store).await;
    let names = |documents: Vec<Document>| documents.iter().map(|d| d.meta().name.clone()).collect::<Vec<_>>();
    let mut reader = store.reader().unwrap();
    assert_eq!(names(reader.by_index(target.id(), "color", "red").unwrap()), ["a"]);
    assert_eq!(names(reader.by_index(target.id(), "color", "blue").unwrap()), ["b"]);
    assert_eq!(names(reader.list(target.id(), &"app in (b)".parse().unwrap()).unwrap()), ["b"]);
    drop((target, reader, store));
    writing.join();

    let (store, _writing, _) = open(&place);
    let target = store.feed(config_maps(), vec![color(), Index::by_label()], false).await.unwrap();
    let mut reader = store.reader().unwrap();
    assert_eq!(names(reader.by_index(target.id(), "label", "app=a").unwrap()), ["a"]);
    assert_eq!(names(reader.by_index(target.id(), "color", "blue").unwrap()), ["b"]);
}

#[tokio::test]
async fn objects_are_found_by_each_of_their_owners() {
    let (store, _writing, _) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let owned = |name: &str, version: u64, owners: &[&str]| {
        let owner = |uid: &&str| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid});
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        let raw = json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version.to_string(),
            "ownerReferences": owners}});
        make.door.admit(&make.resource, raw.to_string().as_bytes()).unwrap()
    };
    let mut target = store.feed(config_maps(), vec![Index::by_owner()], false).await.unwrap();
    list(&mut target, vec![owned("a", 1, &["u1"]), owned("b", 2, &["u1", "u2"]), owned("c", 3, &[])], 5).await;
    settle(&store).await;
    let mut reader = store.reader().unwrap();
    let mut of = |uid: &str| {
        let found = reader.by_index(target.id(), "owner", uid).unwrap();
        found.iter().map(|document| document.meta().name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("u1"), ["a", "b"]);
    assert_eq!(of("u2"), ["b"]);
    assert_eq!(of("u3"), [""; 0]);
}

#[tokio::test]
async fn thousands_of_objects_are_read_back_equal_over_dictionaries_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let (store, writing, _) = open(&place);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    let object = |n: u64| {
        make.object(
            &format!("o{n}"),
            n,
            &json!({"text": format!("{n:x} lorem ipsum {}", n * 7919), "n": n.to_string()}),
        )
    };
    target.put(Update::ListBegan).await.unwrap();
    for page in 0..15 {
        target.put(Update::Listed((page * 100..page * 100 + 100).map(object).collect())).await.unwrap();
        settle(&store).await;
        // Trained at 100 objects, and again at 1000, beside the writing.
        let expected = match page {
            2 => 1,
            11 => 2,
            _ => continue,
        };
        let reader = store.reader().unwrap();
        let dictionaries = || -> i64 {
            reader.connection().query_row("SELECT count(*) FROM dictionaries", [], |row| row.get(0)).unwrap()
        };
        let trained = async {
            while dictionaries() < expected {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), trained).await.expect("a dictionary");
    }
    target.put(Update::ListEnded("9999".into())).await.unwrap();
    let id = target.id();
    drop((target, store));
    writing.join();
    let (store, _writing, _) = open(&place);
    let mut reader = store.reader().unwrap();
    let mut count = 0;
    reader
        .for_each(id, |read| {
            let n: u64 = read.meta().version.as_str().parse().unwrap();
            assert_eq!(read.value(), object(n).value());
            count += 1;
        })
        .unwrap();
    assert_eq!(count, 1500);
}

#[tokio::test]
async fn a_dictionary_is_made_of_what_all_feeds_of_a_resource_hold_together() {
    let (store, _writing, _) = open(&Place::Temporary);
    let make = Maker::new(&store);
    for n in 0..5 {
        let feed = Feed::new(config_maps().resource, Scope::Namespace(format!("team-{n}")));
        let mut target = store.feed(feed, vec![], false).await.unwrap();
        let object =
            |m: u64| make.object(&format!("o{m}"), n * 100 + m, &json!({"text": format!("{m:x} lorem ipsum")}));
        list(&mut target, (1..=30).map(object).collect(), 1000).await;
    }
    let reader = store.reader().unwrap();
    let trained = async || loop {
        let sql = "SELECT trained_on FROM dictionaries WHERE resource = 'configmaps'";
        match reader.connection().query_row(sql, [], |row| row.get::<_, i64>(0)) {
            Ok(objects) => return objects,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let objects = tokio::time::timeout(Duration::from_secs(60), trained()).await.expect("a dictionary");
    assert!(objects >= 100, "{objects}");
}

#[tokio::test]
async fn a_full_disk_drops_nothing_and_heals() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _writing, notes) = open(&Place::File(folder.path().join("kubediff.db")));
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![], 5).await;
    settle(&store).await;
    // SQLite's own limit makes the same error as a full disk. It is lifted at the third attempt at the same batch.
    let attempts = Arc::new(Mutex::new(0));
    let counted = attempts.clone();
    let fill: Write = Box::new(move |transaction| {
        let mut attempt = counted.lock().unwrap();
        *attempt += 1;
        let pages = if *attempt < 3 { 1 } else { 1 << 30 };
        transaction.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, i64>(0))?;
        transaction.execute("INSERT INTO meta (key, value) VALUES ('filler', randomblob(1000000))", []).map(drop)
    });
    let mut health = store.health();
    let (filled, failing) = tokio::join!(store.write(fill), async {
        let failing = health.wait_for(|health| health.failing.is_some()).await.unwrap().failing.clone();
        target.put(Update::Applied(make.object("a", 6, &json!({})))).await.unwrap();
        failing.unwrap()
    });
    filled.unwrap();
    assert!(failing.contains("full"), "{failing}");
    settle(&store).await;
    assert_eq!(*attempts.lock().unwrap(), 3);
    assert_eq!(notes.take(), ["Live +a@6"], "told once, when it is stored");
    assert_eq!(store.health().borrow().failing, None);
    assert!(store.reader().unwrap().get(target.id(), "shop", "a").unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_turns_out_to_be_damaged_ends_the_store_and_is_set_aside_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubediff.db");
    let place = Place::File(path.clone());
    let (store, writing, _) = open(&place);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({"k": "1"}))], 5).await;
    // A frame that no decoder takes: what a torn page looks like from above.
    store
        .write(Box::new(|t| {
            t.execute("UPDATE objects SET body = x'28b52ffd00', metadata = x'28b52ffd00'", []).map(drop)
        }))
        .await
        .unwrap();
    target.put(Update::Applied(make.object("a", 6, &json!({"k": "2"})))).await.unwrap();
    assert_eq!(store.write(Box::new(|_| Ok(()))).await, Err(Closed), "it ends instead of trying for ever");
    writing.join();
    drop((store, target));

    let (store, _writing, _) = open(&place);
    assert_eq!(store.feed(config_maps(), vec![], false).await.unwrap().cursor(), None, "a fresh start");
    let names = std::fs::read_dir(folder.path()).unwrap().filter_map(Result::ok).map(|entry| entry.file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name.contains("corrupt-")), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with("damaged")), "{names:?}");
}

#[tokio::test]
async fn a_commit_that_fails_between_two_lists_deletes_nothing_that_is_there() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    target.put(Update::ListBegan).await.unwrap();
    target.put(Update::Listed(vec![make.object("a", 1, &json!({}))])).await.unwrap();
    settle(&store).await;
    // The rest of this list and the begin of the next one are in a batch that is tried twice.
    let mut attempts = 0;
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    let once: Write = Box::new(move |_| {
        attempts += 1;
        if attempts == 1 { Err(rusqlite::Error::SqliteFailure(busy, None)) } else { Ok(()) }
    });
    let (written, ()) = tokio::join!(biased; async {
        target.put(Update::Listed(vec![make.object("b", 2, &json!({}))])).await.unwrap();
        target.put(Update::ListEnded("5".into())).await.unwrap();
        target.put(Update::ListBegan).await.unwrap();
        store.write(once).await
    }, async {});
    written.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({})), make.object("b", 2, &json!({}))], 9).await;
    settle(&store).await;
    assert_eq!(notes.take(), [""; 0]);
}
