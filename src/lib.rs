//! `git log -p` for a Kubernetes cluster.
//!
//! The modules are the way of the data; each knows the ones before it and none of the ones after it:
//!
//! ```text
//! cluster::source -> cluster::reflector -> redact -> cluster::store -> diff -> event -> route -> ledger -> sink
//! ```
//!
//! | module | what it owns |
//! |---|---|
//! | [`cluster`] | which resources there are, and the last version of every object: source, discovery, reflector, store, informer |
//! | [`redact`] | the only door into the store: nothing secret passes it, and what is noise stays outside |
//! | [`diff`] | two documents in, an RFC 6902 patch, its inverse and readable changes out |
//! | [`event`] | what is told about a change: who, what kind of change, in one sentence; how it looks as text |
//! | [`route`] | which sinks get an event, and why |
//! | [`ledger`] | what happened and who is still to be told: recorded with the object itself, delivered at least once |
//! | [`sink`] | where events go: stdout, webhook, Slack |
//! | [`history`] | what happened, for those who look: events, objects at any time, blame; readers of the ledger |
//! | [`web`] | the page and its API |
//! | [`ha`] | which of several replicas delivers, and from where it goes on |
//! | [`config`] | the configuration: the file as typed, and the checked plan that the program runs on |
//! | [`metrics`] | what all of them count, for Prometheus |
//! | [`app`] | all of them wired, in one straight function |
//!
//! `redact`, `diff`, `event` and `route` are pure: values in, values out, no clock, no I/O; but for the stopwatch that a
//! route's expression runs against. [`shutdown`] is the word that
//! it is time to finish, for all of them.

pub mod app;
pub mod cluster;
pub mod config;
pub mod diff;
pub mod event;
pub mod failpoint;
pub mod ha;
pub mod histogram;
pub mod history;
pub mod ledger;
pub mod metrics;
pub mod redact;
pub mod route;
pub mod shutdown;
pub mod sink;
pub mod web;
