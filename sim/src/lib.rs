// SPDX-License-Identifier: GPL-2.0-only
//! The simulator: the scheduler's own source, compiled for this machine, on a simulated kernel and host in
//! virtual time. Same seed, same trace, on every machine. See README.md.

pub mod bpf;
pub mod costs;
pub mod daemon;
pub mod exec;
pub mod fuzz;
pub mod guest;
pub mod host;
pub mod record;
pub mod report;
pub mod run;
pub mod scale;
pub mod script;
pub mod sim;
pub mod work;
