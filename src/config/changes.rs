//! What differs between two plans, and which keys a running program cannot change.

use super::Plan;

impl Plan {
    /// What differs from the plan that ran before.
    pub fn changes(&self, old: &Self) -> Changes {
        let mut changes = Changes {
            at_start: self.changed_at_start(old),
            watch: self.file.watch != old.file.watch,
            routes: self.file.routes != old.file.routes
                || self.file.silences != old.file.silences
                || self.file.default_sinks != old.file.default_sinks
                || self.file.annotations != old.file.annotations,
            ..Changes::default()
        };
        let find = |plan: &Self, name: &str| plan.sinks.iter().find(|sink| sink.name == name).cloned();
        for sink in &self.sinks {
            match find(old, &sink.name) {
                None => changes.sinks_added.push(sink.name.clone()),
                Some(before) if before != *sink => changes.sinks_changed.push(sink.name.clone()),
                Some(_) => {}
            }
        }
        let gone = old.sinks.iter().filter(|sink| find(self, &sink.name).is_none());
        changes.sinks_removed = gone.map(|sink| sink.name.clone()).collect();
        changes
    }

    /// Of [`AT_START`], those whose values differ.
    fn changed_at_start(&self, old: &Self) -> Vec<&'static str> {
        let written = |plan: &Self| serde_json::to_value(&plan.file).unwrap_or_default();
        let (new, old_file) = (written(self), written(old));
        let differs = |key: &&str| {
            let pointer = format!("/{}", key.replace('.', "/"));
            // Secrets are not written, so what they hold is compared.
            let rotated = *key == "redact.key" && self.redaction_key != old.redaction_key;
            rotated || new.pointer(&pointer) != old_file.pointer(&pointer)
        };
        AT_START.iter().copied().filter(differs).collect()
    }
}

/// The keys that a running program keeps as they were when it began; all others change at a reload.
///
/// What documents look like (`redact`, `noise`, `watch.secrets`) must not change under those that are stored, which would
/// all seem to have changed; informers keep how they read; files, addresses and the Lease are opened once.
pub const AT_START: &[&str] = &[
    "cluster",
    "watch.secrets",
    "watch.audit_interval_secs",
    "watch.concurrent_lists",
    "watch.page_size",
    "watch.watch_timeout_secs",
    "redact.patterns",
    "redact.max_object_bytes",
    "redact.key",
    "noise.profile",
    "noise.ignore",
    "state.path",
    "state.retention_days",
    "state.max_bytes",
    "server.probes",
    "server.page",
    "server.auth",
    "server.page_url",
    "ha.enabled",
    "ha.lease",
    "ha.create_lease",
    "ha.namespace",
    "ha.identity",
    "ha.lease_secs",
    "ha.renew_secs",
    "ha.retry_secs",
];

/// What differs between two plans, so that what stays is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys that are taken up at the next start alone.
    pub at_start: Vec<&'static str>,
    /// Feeds may come and go. Those that both plans have go on.
    pub watch: bool,
    pub sinks_added: Vec<String>,
    pub sinks_changed: Vec<String>,
    pub sinks_removed: Vec<String>,
    /// Routes, silences, the default: the table is swapped.
    pub routes: bool,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
