// SPDX-License-Identifier: GPL-2.0-only
//! What belongs to the scheduler's programs: maps, storage, timers, and how dear its callbacks were.

use std::collections::BTreeMap;

use super::call::{Callback, CallbackCounts};
use super::maps::{Buffer, Map};
use super::timers::BpfTimer;
use crate::guest::task::TaskId;

#[derive(Default)]
pub struct BpfState {
    /// By the address of the map's definition.
    pub maps: BTreeMap<usize, Map>,
    pub storage: BTreeMap<(usize, TaskId), Buffer>,
    /// Per-CPU symbols, by address.
    pub per_cpu: BTreeMap<usize, Vec<Buffer>>,
    /// By address.
    pub timers: BTreeMap<usize, BpfTimer>,
    pub iterators: BTreeMap<u64, super::kfuncs_queue::Iterator>,
    pub next_iterator: u64,
    /// Ring buffer records that were submitted, and those that are being written.
    pub records: Vec<Vec<u8>>,
    pub reserved: BTreeMap<usize, (Buffer, usize)>,
    pub counts: BTreeMap<Callback, CallbackCounts>,
}

/// The number of a vCPU, and 1, that the daemon has told: 0 is none, and there may be no such vCPU.
pub fn absurd_vcpu(seed: u64) -> u32 {
    (seed % 32) as u32
}

/// A process that may not exist, by its number.
pub fn absurd_process(seed: u64) -> u32 {
    (seed / 32 % 8) as u32
}

impl crate::sim::Sim {
    /// Let the daemon's word on a vCPU be nonsense that counts for now.
    pub fn absurd_inputs(&mut self, v: usize, seed: u64) {
        use rand_core::{RngCore, SeedableRng};
        let size = size_of::<intf::vaware_hints>();
        let jiffies = self.guest.jiffies(self.now);
        let Some(inputs) = self.inputs_of(v) else { return };
        let mut bytes = vec![0u8; size];
        rand_chacha::ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
        // SAFETY: a value of the map is of this size; all bytes mean something in this type.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), inputs.cast::<u8>(), bytes.len());
            (*inputs).valid_until_jiffies = jiffies + seed % 1000;
        }
    }
}

impl BpfState {
    pub fn forget_task(&mut self, t: TaskId) {
        self.storage.retain(|(_, task), _| *task != t);
    }
}
