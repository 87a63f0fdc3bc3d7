//! What has to be true after every fault: the store equals a fresh list, and no change was told twice or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use glob_match::glob_match;
use kubediff::{
    cluster::{Feed, informer::Informer},
    redact::Document,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    hand::{Hand, name},
    rig::{Agreed, Rig},
};
use crate::harness::{self, Access, Fault, Matching, PATIENCE, Proxy, poll};

/// What the hand writes last, so that all before it can be waited for.
pub const LAST: &str = "the-last-one";

/// By namespace and name.
type Objects = BTreeMap<String, Document>;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

impl Rig {
    /// Every feed is in sync, and what is stored of it is what a fresh list has: the same objects at the same versions,
    /// with the same content to the byte.
    pub async fn equals_a_fresh_list(&self, access: &Access) {
        let informers = self.factory.informers();
        assert!(!informers.is_empty(), "nothing is read");
        for informer in informers {
            let began = Instant::now();
            let feed = informer.feed();
            let differs = poll(PATIENCE * 2, format!("a comparison of {feed} with a fresh list"), async || {
                let compared = self.compare(access, &informer).await;
                match compared {
                    Some(differs) if differs.is_empty() => Some(differs),
                    Some(differs) if began.elapsed() > PATIENCE => Some(differs),
                    _ => None,
                }
            })
            .await;
            assert!(differs.is_empty(), "of {feed} the store and a fresh list differ in {differs:?}");
        }
        // What could be read is told by now.
        self.store.write(Box::new(|_| Ok(()))).await.unwrap();
    }

    /// The names of what differs; `None` when that cannot be said yet.
    async fn compare(&self, access: &Access, informer: &Informer) -> Option<BTreeSet<String>> {
        let feed = informer.feed();
        let there = || self.factory.informers().iter().any(|other| other.feed().key() == feed.key());
        let answer = fresh(access, feed).await?;
        // Another test's CRD may be gone meanwhile, and its informer with it.
        let Some(answer) = answer.filter(|_| there()) else { return Some(BTreeSet::new()) };
        if !informer.has_synced() {
            return None;
        }
        let list: List<'_> = serde_json::from_str(&answer).ok()?;
        let fresh: Objects = list.items.iter().filter_map(|item| self.document(feed, item)).collect();
        let mut stored = Objects::new();
        let mut lister = informer.lister().await.ok()?;
        lister.for_each(|document| drop(stored.insert(key(&document), document))).ok()?;
        let names: BTreeSet<&String> = fresh.keys().chain(stored.keys()).collect();
        Some(names.into_iter().filter(|name| fresh.get(*name) != stored.get(*name)).cloned().collect())
    }

    fn document(&self, feed: &Feed, item: &RawValue) -> Option<(String, Document)> {
        let document = self.door.admit(&feed.resource, item.get().as_bytes()).ok()?;
        let namespace = &document.meta().namespace;
        let left_out = feed.not_namespaces.iter().any(|pattern| glob_match(pattern, namespace));
        (namespace.is_empty() || !left_out).then(|| (key(&document), document))
    }

    /// The oracle whole: the store equals a fresh list, and every change that the hand made was told once and in order.
    /// Where a list had to be read since it was last asked, it tells in one step what became of an object, and nothing of
    /// one that came and went.
    pub async fn agrees_with(&self, hand: &Hand) {
        // Changes of one informer are told in order: with the last one all of them are.
        let last = hand.write(LAST).await;
        let told = || self.notes.steps_in(hand.namespace());
        poll(PATIENCE * 3, format!("{last} to be told"), async || {
            told().iter().any(|(_, step)| *step == last).then_some(())
        })
        .await;
        self.equals_a_fresh_list(hand.access()).await;
        let (known, made) = hand.news();
        let mut told = told();
        // What controllers put into every namespace is not the hand's.
        told.retain(|(_, step)| made.iter().any(|made| name(made) == name(step)) || known.contains(name(step)));
        let steps: Vec<String> = told.iter().map(|(_, step)| step.clone()).collect();
        let (before, relisted) = (*self.agreed.lock().unwrap(), self.relisted("configmaps"));
        *self.agreed.lock().unwrap() = Agreed { relisted, made: made.len(), told: told.len() };
        if relisted == before.relisted {
            assert_eq!(steps[before.told..], made[before.made..], "each once and in order");
            let live = told[before.told..].iter().all(|(seen, _)| seen == "Live");
            assert!(live, "as it happened: {told:?}");
            return;
        }
        for object in made.iter().chain(&steps).map(|step| name(step)).collect::<BTreeSet<_>>() {
            let of = |steps: &[String]| steps.iter().filter(|step| name(step) == object).cloned().collect::<Vec<_>>();
            let (made, told) = (of(&made), of(&steps));
            let mut rest = made.iter();
            let in_order = told.iter().all(|step| rest.any(|made| made == step));
            assert!(in_order, "of {object} none twice and none out of order: told {told:?} of {made:?}");
            let passed_by =
                told.is_empty() && !known.contains(object) && made.last().is_some_and(|s| s.starts_with('-'));
            assert!(passed_by || told.last() == made.last(), "the last of {object}: told {told:?} of {made:?}");
        }
    }
}

fn key(document: &Document) -> String {
    format!("{}/{}", document.meta().namespace, document.meta().name)
}

/// A list of a feed's collection; an inner `None` when it is not served. No more than a GET, without a line of kubediff.
async fn fresh(access: &Access, feed: &Feed) -> Option<Option<String>> {
    let selectors = [("labelSelector", &feed.labels), ("fieldSelector", &feed.fields)];
    let selectors = selectors.into_iter().filter(|(_, selector)| !selector.is_empty());
    let path = format!("{}{}", access.url, feed.resource.path(&feed.scope));
    let url = reqwest::Url::parse_with_params(&path, selectors).ok()?;
    let kind = if feed.metadata_only { ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" } else { "" };
    let request = access.http().get(url).bearer_auth(&access.token);
    let answer = request.header("accept", format!("application/json{kind}")).send().await.ok()?;
    match answer.status().as_u16() {
        200 => Some(Some(answer.text().await.ok()?)),
        404 => Some(None),
        _ => None,
    }
}

#[tokio::test]
#[should_panic(expected = "each once and in order")]
async fn a_change_that_got_lost_does_not_pass_though_the_next_one_makes_up_for_it() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("oracle").await;
    let hand = Hand::new(cluster.access(), namespace.name());
    hand.create("a").await;
    let rig = Rig::bare(cluster.access()).await;
    rig.read(hand.feed()).wait_for_sync().await.unwrap();
    hand.rest_is_news();
    rig.forget_next_change("a");
    hand.change("a").await;
    hand.change("a").await;
    rig.agrees_with(&hand).await;
}

#[tokio::test]
#[should_panic(expected = "each once and in order")]
async fn a_change_that_got_lost_does_not_pass_after_a_list_either() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("oracle").await;
    let hand = Hand::new(cluster.access(), namespace.name());
    hand.create("a").await;
    let proxy = Proxy::start(cluster.access());
    let rig = Rig::bare(proxy.access()).await;
    rig.read(hand.feed()).wait_for_sync().await.unwrap();
    hand.rest_is_news();
    proxy.fault_next(1, Matching::watches("configmaps"), Fault::answer(410));
    proxy.cut(&Matching::watches("configmaps"));
    hand.change("a").await;
    poll(PATIENCE, "the list", async || (rig.relisted("configmaps") == 1).then_some(())).await;
    rig.agrees_with(&hand).await;
    rig.forget_next_change("a");
    hand.change("a").await;
    hand.change("a").await;
    rig.agrees_with(&hand).await;
}
