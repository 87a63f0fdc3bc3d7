//! Lists that break in the middle: only a whole one counts, nothing of it is told twice, and half of one deletes nothing.

use kubediff::cluster::reflector::Status;

use super::{
    hand::Hand,
    oracle::LAST,
    rig::{Parts, Rig},
};
use crate::harness::{self, Fault, Matching, Namespace, Proxy};

/// Through a proxy that serves no streaming lists, ten objects a page.
struct Paged {
    hand: Hand,
    proxy: Proxy,
    rig: Rig,
    _namespace: Namespace,
}

impl Paged {
    async fn start() -> Self {
        let cluster = harness::cluster().await;
        let namespace = cluster.namespace("pages").await;
        let hand = Hand::new(cluster.access(), namespace.name());
        for number in 0..80 {
            hand.create(&format!("map-{number:02}")).await;
        }
        let proxy = Proxy::start(cluster.access());
        proxy.fault(Matching::watches("configmaps").query("sendInitialEvents=true"), Fault::answer(422));
        let mut parts = Parts::default();
        parts.informers.reflector.page = 10;
        let rig = Rig::of(proxy.access().config().await, parts);
        Self { hand, proxy, rig, _namespace: namespace }
    }

    fn status(&self) -> Status {
        self.rig.informer("configmaps").unwrap().status().borrow().clone()
    }

    /// A list is due again, and on its first pages and its last ones there is something to tell: [`LATE`].
    async fn lose_the_cursor(&self) {
        self.proxy.fault_next(1, Matching::watches("configmaps"), Fault::answer(410));
        self.proxy.refuse(true);
        for name in ["map-03", "map-75"] {
            self.hand.change(name).await;
        }
        for name in ["map-04", "map-76"] {
            self.hand.delete(name).await;
        }
        for name in ["made", "zoe"] {
            self.hand.create(name).await;
        }
        self.proxy.refuse(false);
    }

    /// What lists told.
    fn late(&self) -> Vec<String> {
        let steps = self.rig.notes.steps_in(self.hand.namespace()).into_iter();
        let late = steps.filter(|(seen, step)| seen == "Late" && !step.starts_with(LAST)).map(|(_, step)| step);
        let mut late: Vec<String> = late.collect();
        late.sort();
        late
    }
}

const LATE: [&str; 6] = ["-map-04", "-map-76", "made@1", "map-03@2", "map-75@2", "zoe@1"];

fn fail_on_page_seven(proxy: &Proxy) {
    let page = Matching::lists("configmaps").query("limit=10");
    proxy.fault_nth(7, page.clone(), Fault::answer(500));
    proxy.fault_nth(8, page, Fault::Drop);
}

#[tokio::test]
async fn a_first_list_that_fails_on_page_seven_goes_on_there_and_nothing_of_it_is_news() {
    let paged = Paged::start().await;
    let Paged { hand, proxy, rig, .. } = &paged;
    fail_on_page_seven(proxy);
    rig.read(hand.feed()).wait_for_sync().await.unwrap();
    hand.rest_is_news();
    hand.change("map-07").await;
    rig.agrees_with(hand).await;
    let status = paged.status();
    assert_eq!((status.lists.ok, status.lists.failed), (1, 2), "it went on where it failed: {status:?}");
    paged.rig.stop().await;
}

#[tokio::test]
async fn a_later_list_that_fails_on_page_seven_goes_on_there_and_tells_once_what_became_of_everything() {
    let paged = Paged::start().await;
    let Paged { hand, proxy, rig, .. } = &paged;
    rig.read(hand.feed()).wait_for_sync().await.unwrap();
    hand.rest_is_news();
    fail_on_page_seven(proxy);
    paged.lose_the_cursor().await;
    rig.agrees_with(hand).await;
    let status = paged.status();
    assert_eq!((status.lists.ok, status.lists.failed), (2, 2), "it went on where it failed: {status:?}");
    assert_eq!(rig.relisted("configmaps"), 1);
    assert_eq!(paged.late(), LATE);
    paged.rig.stop().await;
}

#[tokio::test]
async fn a_continue_token_that_expires_leads_to_one_full_list() {
    let paged = Paged::start().await;
    let Paged { hand, proxy, rig, .. } = &paged;
    let expire = || {
        proxy.forget();
        proxy.fault_nth(1, Matching::lists("configmaps").query("continue="), Fault::answer(410));
    };
    expire();
    rig.read(hand.feed()).wait_for_sync().await.unwrap();
    assert_eq!(proxy.count(&Matching::lists("configmaps")), 3, "a page, a refused page, all");
    hand.rest_is_news();
    rig.agrees_with(hand).await;

    expire();
    paged.lose_the_cursor().await;
    rig.agrees_with(hand).await;
    assert_eq!(proxy.count(&Matching::lists("configmaps")), 3, "a page, a refused page, all");
    assert_eq!(rig.relisted("configmaps"), 1);
    assert_eq!(paged.late(), LATE);
    paged.rig.stop().await;
}
