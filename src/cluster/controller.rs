//! The controller pattern whole: informers, a [`Queue`] of keys, and workers that bring about what a key stands for.
//!
//! - Workers start only when every informer is in sync and has caught up with what happened before the start, so that
//!   what a lister does not have was not there then.
//! - Each object there is, and each change, is work on the keys that it has to do with. A key is never worked on twice at
//!   the same time; changes meanwhile lead to one more turn.
//! - Work that fails is tried again after a pause that doubles each time.
//! - At the end nothing new is taken: what waits is worked on, what waits for another try is let go, and [`Controller::run`]
//!   returns when the last worker is done.

use std::{fmt, hash::Hash, sync::Arc};

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    informer::{Delta, Informer, Subscription},
    queue::Queue,
    reflector::Closed,
};

type KeysOf<K> = Arc<dyn Fn(&Delta) -> Vec<K> + Send + Sync>;

/// Informers whose changes are work on keys.
pub struct Controller<K> {
    queue: Queue<K>,
    watched: Vec<(Informer, KeysOf<K>)>,
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Controller<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Controller<K> {
    pub fn new() -> Self {
        Self { queue: Queue::new(), watched: Vec::new() }
    }

    /// Changes of this informer's objects are work on `keys`. Its factory has to be started by the caller.
    #[must_use]
    pub fn watch(mut self, informer: &Informer, keys: impl Fn(&Delta) -> Vec<K> + Send + Sync + 'static) -> Self {
        self.watched.push((informer.clone(), Arc::new(keys)));
        self
    }

    /// For keys that come from elsewhere: what should be there and is not, or what is due again later.
    pub fn queue(&self) -> Queue<K> {
        self.queue.clone()
    }

    /// Runs until it is told to stop, or all informers have ended. Fails when one ends before it is in sync; panics when a
    /// worker does.
    pub async fn run<W, F, E>(self, workers: usize, stop: CancellationToken, work: W) -> Result<(), Closed>
    where
        W: Fn(K) -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let Some(subscriptions) = stop.run_until_cancelled(self.subscribe()).await else { return Ok(()) };
        let mut feeding = JoinSet::new();
        for (subscription, keys) in subscriptions? {
            feeding.spawn(feed(subscription, keys, self.queue.clone()));
        }
        let mut working = JoinSet::new();
        for _ in 0..workers.max(1) {
            working.spawn(take_turns(self.queue.clone(), work.clone()));
        }
        // No worker ends before the queue is shut down, unless it panics.
        stop.run_until_cancelled(async {
            loop {
                tokio::select! {
                    Some(ended) = working.join_next() => pass_on_panic(ended),
                    ended = feeding.join_next() => match ended {
                        Some(ended) => pass_on_panic(ended),
                        None => break,
                    },
                }
            }
        })
        .await;
        feeding.shutdown().await;
        self.queue.shut_down();
        while let Some(ended) = working.join_next().await {
            pass_on_panic(ended);
        }
        Ok(())
    }

    async fn subscribe(&self) -> Result<Vec<(Subscription, KeysOf<K>)>, Closed> {
        for (informer, _) in &self.watched {
            informer.wait_for_sync().await?;
        }
        // What was listed in this run is new; what is from an earlier one may be hours behind.
        let old = self.watched.iter().filter(|(informer, _)| informer.status().borrow().lists.ok == 0);
        futures::future::try_join_all(old.map(|(informer, _)| informer.caught_up())).await?;
        let mut subscriptions = Vec::new();
        for (informer, keys) in &self.watched {
            subscriptions.push((informer.subscribe().await?, keys.clone()));
        }
        Ok(subscriptions)
    }
}

async fn feed<K: Clone + Eq + Hash>(mut subscription: Subscription, keys: KeysOf<K>, queue: Queue<K>) {
    while let Some(delta) = subscription.next().await {
        keys(&delta).into_iter().for_each(|key| queue.add(key));
    }
}

async fn take_turns<K, W, F, E>(queue: Queue<K>, work: W)
where
    K: Clone + Eq + Hash,
    W: Fn(K) -> F,
    F: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    while let Some(turn) = queue.next().await {
        match work(turn.key().clone()).await {
            Ok(()) => queue.forget(turn.key()),
            Err(error) => {
                tracing::warn!(%error, retries = queue.retries(turn.key()), "work failed and is tried again");
                queue.retry(turn.key().clone());
            }
        }
    }
}

/// A worker that panics is a bug of its own, and nobody is to go on as if nothing had happened.
fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use serde_json::json;

    use super::*;
    use crate::{
        cluster::{
            Feed, Resource, Scope,
            informer::{Factory, Settings},
            source::script::world::{Fault, World},
            store::{Place, Store},
        },
        redact::Door,
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn workers_start_after_sync_see_every_key_retry_and_are_drained_at_the_end() {
        let resource = Resource::core("v1", "configmaps", "ConfigMap");
        let world = World::new(resource.clone(), true);
        for n in 0..20 {
            world.apply("shop", &format!("c{n}"), &json!({"n": n}));
        }
        let (store, writing) = Store::open(&Place::Temporary, None).unwrap();
        let door = Door::new(&crate::redact::Settings::default(), &store.redaction_key()).unwrap();
        let factory = Factory::new(Arc::new(world.clone()), Arc::new(door), store.clone(), Settings::default(), None);
        let informer = factory.informer(Feed::new(resource, Scope::All));
        let controller = Controller::new().watch(&informer, |delta| vec![delta.object().meta().name.clone()]);
        let queue = controller.queue();
        let (seen, tries) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let stop = CancellationToken::new();
        let running = {
            let (seen, tries, informer) = (seen.clone(), tries.clone(), informer.clone());
            tokio::spawn(controller.run(3, stop.clone(), move |name: String| {
                let (seen, tries, informer) = (seen.clone(), tries.clone(), informer.clone());
                async move {
                    assert!(informer.has_synced(), "a worker before its time");
                    if name == "c7" && tries.fetch_add(1, Ordering::SeqCst) < 2 {
                        return Err("not yet");
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    seen.lock().unwrap().push(name);
                    Ok(())
                }
            }))
        };
        queue.add("from elsewhere".to_owned());
        factory.start();
        let distinct = || seen.lock().unwrap().iter().cloned().collect::<std::collections::BTreeSet<_>>().len();
        tokio::time::timeout(Duration::from_secs(20), async {
            while distinct() < 21 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("all keys are worked on");
        assert_eq!(tries.load(Ordering::SeqCst), 3, "two failures, then it went well");

        for n in 0..50 {
            queue.add(format!("last {n}"));
        }
        stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(distinct(), 71, "what waited at the end is worked on");
        factory.shut_down().await;
        drop((factory, informer, store));
        writing.join();
    }

    #[tokio::test]
    async fn a_worker_that_panics_ends_the_controller_at_once() {
        let resource = Resource::core("v1", "configmaps", "ConfigMap");
        let world = World::new(resource.clone(), true);
        let (store, writing) = Store::open(&Place::Temporary, None).unwrap();
        let door = Door::new(&crate::redact::Settings::default(), &store.redaction_key()).unwrap();
        let factory = Factory::new(Arc::new(world), Arc::new(door), store.clone(), Settings::default(), None);
        let informer = factory.informer(Feed::new(resource, Scope::All));
        let controller = Controller::new().watch(&informer, |_| vec![]);
        factory.start();
        controller.queue().add("bad");
        let work = |key: &'static str| async move {
            assert_ne!(key, "bad");
            Ok::<(), String>(())
        };
        let running = tokio::spawn(controller.run(2, CancellationToken::new(), work));
        let ended = tokio::time::timeout(Duration::from_secs(20), running).await.expect("it does not go on without");
        assert!(ended.unwrap_err().is_panic());
        factory.shut_down().await;
        drop((factory, informer, store));
        writing.join();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_warm_start_no_worker_begins_before_what_happened_meanwhile_is_there() {
        let resource = Resource::core("v1", "configmaps", "ConfigMap");
        let world = World::new(resource.clone(), true);
        world.apply("shop", "old", &json!({}));
        let folder = tempfile::tempdir().unwrap();
        let place = Place::File(folder.path().join("kubediff.db"));
        for warm in [false, true] {
            if warm {
                world.apply("shop", "meanwhile", &json!({}));
                // The watch is open, and nothing has come yet.
                world.fault(Fault::Mute);
            }
            let (store, writing) = Store::open(&place, None).unwrap();
            let door = Door::new(&crate::redact::Settings::default(), &store.redaction_key()).unwrap();
            let (source, door) = (Arc::new(world.clone()), Arc::new(door));
            let factory = Factory::new(source, door, store.clone(), Settings::default(), None);
            let informer = factory.informer(Feed::new(resource.clone(), Scope::All));
            let controller = Controller::new().watch(&informer, |delta| vec![delta.object().meta().name.clone()]);
            factory.start();
            let (stop, found) = (CancellationToken::new(), Arc::new(Mutex::new(None)));
            let work = {
                let (stop, found, informer) = (stop.clone(), found.clone(), informer.clone());
                move |_: String| {
                    let (stop, found, informer) = (stop.clone(), found.clone(), informer.clone());
                    async move {
                        let there = informer.lister().await.unwrap().get("shop", "meanwhile").unwrap().is_some();
                        found.lock().unwrap().get_or_insert(there);
                        stop.cancel();
                        Ok::<(), String>(())
                    }
                }
            };
            controller.run(1, stop, work).await.unwrap();
            assert_eq!(*found.lock().unwrap(), Some(warm), "what the first worker finds");
            factory.shut_down().await;
            drop((factory, informer, store));
            writing.join();
        }
    }
}
