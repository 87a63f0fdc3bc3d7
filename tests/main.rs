//! The promises that kubediff makes, one module each, shown against a real control plane.
#![allow(unreachable_pub, reason = "nothing of a test binary is reachable from outside")]

mod attribution;
mod chaos;
mod chart;
mod command_line;
mod control_plane;
mod delivery;
mod demo;
mod discovery;
mod faults;
mod first_run;
#[allow(dead_code, reason = "each promise uses the part of it that it needs")]
mod harness;
mod history;
mod history_cli;
mod informers;
mod leaks;
mod left_behind;
mod metrics;
mod openapi_keys;
mod page;
mod permissions;
mod receivers;
mod record;
mod rollout;
mod routes;
mod sinks;
mod takeover;
mod watch;
mod who_may_look;
