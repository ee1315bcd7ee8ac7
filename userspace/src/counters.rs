// SPDX-License-Identifier: GPL-2.0-only
//! The kernel half's counters, for a thread that does not own the scheduler. Holds descriptors of
//! what it reads: they end with this value, and keep no scheduler loaded.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::MapHandle;

use crate::stats::{self, Stats};

/// Where the counters of a loaded scheduler are.
pub struct Counters {
    pub(crate) map: MapHandle,
    pub(crate) nr_vcpus: u32,
    /// The programs by name.
    pub(crate) programs: Vec<(String, OwnedFd)>,
}

impl Counters {
    /// The counters of every possible vCPU, by number.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load.
    pub fn stats(&self) -> anyhow::Result<Stats> {
        stats::read(&self.map, self.nr_vcpus)
    }

    /// Run time and runs of each program, if the kernel measures them (`kernel.bpf_stats_enabled`).
    pub fn programs(&self) -> Vec<(String, Duration, u64)> {
        let enabled = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled");
        if !enabled.is_ok_and(|text| text.trim() != "0") {
            return Vec::new();
        }
        let cost = |(name, fd): &(String, OwnedFd)| {
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
            let time = Duration::from_nanos(field(&info, "run_time_ns:")?);
            Some((name.clone(), time, field(&info, "run_cnt:")?))
        };
        self.programs.iter().filter_map(cost).collect()
    }
}

/// The number behind `key` in text of lines such as `key:  number`.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_key() {
        let info = "prog_type:\t27\nrun_time_ns:\t1234\nrun_cnt:\t5\n";
        assert_eq!((field(info, "run_time_ns:"), field(info, "run_cnt:")), (Some(1234), Some(5)));
        assert_eq!(field(info, "recursion_misses:"), None);
    }
}
