// SPDX-License-Identifier: GPL-2.0-only
//! vtop: how the vCPUs lie to each other, found from the latency of cache lines between them.
//!
//! [`readings`] come from a [`readings::LatencySource`]: the vCPUs of this VM ([`live`]) or a recorded
//! [`matrix`]. [`structure`] finds the nested groups that explain them, [`label`] names the levels.
//! [`plan`] chooses the few pairs to probe, [`validate`] those to probe again, [`prober`] holds it all,
//! and [`watch`] keeps it up to date in the background.

mod idle;
pub mod label;
pub mod live;
pub mod matrix;
pub mod partition;
pub mod pingpong;
pub mod plan;
pub mod prober;
pub mod readings;
pub mod stacking;
pub mod structure;
pub mod validate;
pub mod watch;
