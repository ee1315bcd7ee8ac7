// SPDX-License-Identifier: GPL-2.0-only
//! The user half: what the kernel can do, the scheduler's life from load to detach, the control
//! loop's round, what it finds out of the vCPUs' activity, and what is told of it all: counters, health, metrics.

pub mod activity;
pub mod backoff;
pub mod bans;
pub mod cgroups;
pub mod config;
pub mod control;
pub mod counters;
pub mod ejections;
pub mod events;
pub mod failure;
pub mod health;
pub mod http;
pub mod interrupts;
pub mod kernel;
mod kernel_map;
mod libbpf_log;
pub mod metrics;
pub mod obstacles;
pub mod pace;
pub mod pauses;
pub mod policy;
pub mod probing;
pub mod reload;
pub mod restore;
pub mod retain;
pub mod scheduler;
pub mod scrape;
pub mod service;
mod shootdowns;
pub mod simulated;
pub mod standby;
pub mod stats;
pub mod supervise;
pub mod telemetry;
pub mod text_file;
pub mod trials;
pub mod verdicts;
pub mod worth;

#[allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}
