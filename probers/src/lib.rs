// SPDX-License-Identifier: GPL-2.0-only
//! What a VM can know of itself. Knows nothing of policies, BPF or HTTP.

pub mod hypervisor;
pub mod snapshot;
pub mod vcpus;
