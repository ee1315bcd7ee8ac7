// SPDX-License-Identifier: GPL-2.0-only
//! The twin: the scheduler's own source, compiled for this machine, on a simulated kernel and host in
//! virtual time. Same seed, same trace, on every machine. See README.md.

pub mod bpf;
pub mod costs;
pub mod daemon;
pub mod exec;
pub mod fuzz;
pub mod guest;
pub mod host;
/// The daemon's decisions (userspace), as they are.
#[path = "../../../userspace/src/inputs.rs"]
pub mod inputs;
pub mod record;
pub mod report;
pub mod run;
pub mod scale;
pub mod script;
pub mod sim;
pub mod work;

/// The name by which the daemon's source knows what crosses the boundary.
pub use bpf::shim as intf;
