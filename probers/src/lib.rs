// SPDX-License-Identifier: GPL-2.0-only
//! What a VM can know of itself. Knows nothing of policies, BPF or HTTP.

mod budget;
pub mod claims;
pub mod hypervisor;
pub mod pulse;
pub mod service;
pub mod snapshot;
pub mod thread;
pub mod vcap;
pub mod vcpus;
pub mod vtop;
