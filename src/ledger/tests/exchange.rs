//! Other sinks in the place of some, while those still have something in hand.

use super::*;

/// Begins to send at once, and is answered when it is let go.
struct Held {
    script: Arc<Script>,
    begun: AtomicUsize,
    open: tokio::sync::Semaphore,
}

impl Held {
    fn new() -> Arc<Self> {
        Arc::new(Self { script: Script::new([]), begun: AtomicUsize::new(0), open: tokio::sync::Semaphore::new(0) })
    }
}

impl Sink for Held {
    fn send<'a>(&'a self, batch: &'a [Arc<Redacted>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.begun.fetch_add(1, SeqCst);
            if let Ok(permit) = self.open.acquire().await {
                permit.forget();
            }
            self.script.send(batch).await
        })
    }

    fn pace(&self) -> Pace {
        self.script.pace()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_waits_for_nobody_and_cuts_nobody_off() {
    let folder = folder();
    let patient = Retry { timeout: Duration::from_secs(120), ..quick() };
    let mut rig = Rig::open(&folder.path().join("k.db"), vec![]).await;
    let old: Vec<Arc<Held>> = (0..3).map(|_| Held::new()).collect();
    let names = ["a", "b", "c"];
    let of = |sinks: &[Arc<Held>]| -> Vec<(sink::Settings, Built)> {
        let named = names.iter().zip(sinks);
        named.map(|(name, sink)| (settings(name, patient), Built::Sink(sink.clone() as Arc<dyn Sink>))).collect()
    };
    let delivery = rig.delivery.as_mut().unwrap();
    delivery.exchange(of(&old), None).await.unwrap();
    rig.append([event("web", 1)]).await;
    until("all have it in hand", || old.iter().all(|sink| sink.begun.load(SeqCst) == 1)).await;

    // `a` and `b` change, `c` goes.
    let new = [Script::new([]), Script::new([])];
    let changed = Retry { timeout: Duration::from_secs(119), ..patient };
    let wanted = |retry: Retry| -> Vec<(sink::Settings, Built)> {
        let named = names.iter().zip(&new);
        named.map(|(name, sink)| (settings(name, retry), Built::Sink(sink.clone() as Arc<dyn Sink>))).collect()
    };
    let delivery = rig.delivery.as_mut().unwrap();
    delivery.exchange(wanted(changed), None).await.unwrap();
    assert!(old.iter().all(|sink| sink.script.taken().is_empty()), "nobody was waited for");
    rig.append([event("web", 2)]).await;
    // Nobody takes a place that is not free.
    let delivery = rig.delivery.as_mut().unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), delivery.next_end()).await.is_err());
    assert!(new.iter().all(|sink| sink.attempts.load(SeqCst) == 0));
    // And once more, before the first ones are gone.
    delivery.exchange(wanted(Retry { timeout: Duration::from_secs(118), ..patient }), None).await.unwrap();
    old.iter().for_each(|sink| sink.open.add_permits(10));
    let taken = async {
        until("the others have what came since", || new.iter().all(|sink| sink.taken().len() == 1)).await;
        until("all have what they had in hand", || old.iter().all(|sink| sink.script.taken().len() == 1)).await;
    };
    tokio::select! {
        () = taken => {}
        ended = delivery.next_end() => panic!("{ended:?}"),
    }
    assert!(new.iter().all(|sink| sink.of("web") == ["2"]), "{:?}", new[0].of("web"));
    assert!(old.iter().all(|sink| sink.script.of("web") == ["1"]), "and nothing twice");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_leading_amid_an_exchange_goes_on_with_the_new_sinks_later() {
    let folder = folder();
    let patient = Retry { timeout: Duration::from_secs(120), ..quick() };
    let mut rig = Rig::open(&folder.path().join("k.db"), vec![]).await;
    let (old, new) = (Held::new(), Script::new([]));
    let delivery = rig.delivery.as_mut().unwrap();
    delivery.exchange(vec![(settings("a", patient), Built::Sink(old.clone() as Arc<dyn Sink>))], None).await.unwrap();
    rig.append([event("web", 1)]).await;
    until("it is in hand", || old.begun.load(SeqCst) == 1).await;
    let delivery = rig.delivery.as_mut().unwrap();
    delivery.exchange(vec![(settings("a", quick()), Built::Sink(new.clone() as Arc<dyn Sink>))], None).await.unwrap();
    delivery.stop_leading().await;
    assert_eq!(new.attempts.load(SeqCst), 0, "a standby sends nothing");
    delivery.lead().unwrap();
    until("the new one has it", || new.taken().len() == 1).await;
    rig.close().await;
}
