//! The parts of the service that nobody waits for, by name, and how one hears of a loop that no longer turns.

use std::{collections::HashMap, future::poll_fn, time::Duration};

use tokio::{
    sync::watch,
    task::{Id, JoinSet},
    time::Instant,
};

/// When a loop last came round.
pub(super) type Turned = watch::Receiver<Instant>;

/// Tasks that may end when their work is done, and that must not panic.
#[derive(Default)]
pub(super) struct Parts {
    tasks: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl Parts {
    pub(super) fn spawn(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(part).id();
        self.names.insert(id, name);
    }

    /// Waits until one has panicked, and says which, and what of. Never comes while all is well, also when all have ended.
    /// It may be dropped and called again.
    pub(super) async fn broken(&mut self) -> String {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id);
            let name = self.names.remove(&id).unwrap_or("a part");
            if let Err(why) = ended {
                return format!("{name} ended: {why}");
            }
        }
        std::future::pending().await
    }

    /// Ends all that still run.
    pub(super) async fn shut_down(&mut self) {
        self.tasks.shutdown().await;
    }
}

/// `task`, and when it was last polled. A loop that waits with a timer is polled when that is due; one that is stuck in
/// the middle is not.
pub(super) fn listen_to<T>(task: impl Future<Output = T> + Send + 'static) -> (impl Future<Output = T> + Send, Turned) {
    let (turns, turned) = watch::channel(Instant::now());
    let mut task = Box::pin(task);
    let heard = poll_fn(move |context| {
        turns.send_replace(Instant::now());
        task.as_mut().poll(context)
    });
    (heard, turned)
}

/// How long ago it last came round.
pub(super) fn silence(turned: &Turned) -> Duration {
    turned.borrow().elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_part_that_panics_is_named_with_its_reason_and_one_that_is_done_is_not() {
        let mut parts = Parts::default();
        let week = Duration::from_secs(7 * 24 * 3600);
        assert!(tokio::time::timeout(week, parts.broken()).await.is_err(), "without any part");
        parts.spawn("the first", async {});
        parts.spawn("the second", std::future::pending());
        assert!(tokio::time::timeout(week, parts.broken()).await.is_err(), "done, or at work");
        parts.spawn("the third", async { panic!("at the disco") });
        let said = parts.broken().await;
        assert!(said.starts_with("the third ended: ") && said.contains("at the disco"), "{said}");
        parts.shut_down().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_is_heard_each_time_it_wakes_and_no_more_when_it_is_stuck() {
        let (task, turned) = listen_to(async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            std::future::pending::<()>().await;
        });
        let task = tokio::spawn(task);
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(silence(&turned).as_secs(), 30);
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert_eq!(silence(&turned).as_secs(), 970);
        task.abort();
    }
}
