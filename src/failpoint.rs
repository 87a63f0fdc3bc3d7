//! Places where a test can make the program die as `kill -9` would. Nothing of this is in a release build.
//!
//! `KUBEDIFF_FAILPOINT=after-ack:3` aborts the process when it comes to `after-ack` for the third time.

/// The names, so that tests can go through all of them.
pub const ALL: &[&str] = &["before-commit", "after-commit", "before-send", "before-ack", "after-ack"];

/// Aborts when the environment asks for it here.
#[inline]
pub fn hit(name: &'static str) {
    #[cfg(debug_assertions)]
    armed::hit(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering},
    };

    static ARMED: LazyLock<Option<(String, AtomicI64)>> = LazyLock::new(|| {
        let text = std::env::var("KUBEDIFF_FAILPOINT").ok()?;
        let (name, times) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), AtomicI64::new(times.parse().ok()?)))
    });

    pub(super) fn hit(name: &str) {
        if let Some((armed, left)) = &*ARMED
            && armed == name
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            std::process::abort();
        }
    }
}
