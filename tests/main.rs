//! The promises that kubediff makes, one module each, shown against a real control plane.
#![allow(unreachable_pub, reason = "nothing of a test binary is reachable from outside")]

mod attribution;

mod chart;
mod command_line;
mod control_plane;
mod delivery;
mod faults;
mod first_run;
#[allow(dead_code, reason = "each promise uses the part of it that it needs")]
mod harness;
mod informers;
mod leaks;
mod left_behind;
mod openapi_keys;
mod receivers;
mod reflector;
mod rollout;
mod sinks;
mod watch;
