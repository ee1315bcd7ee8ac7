// SPDX-License-Identifier: GPL-2.0-only
//! The kernel half's counters, for a thread that does not own the scheduler. Holds descriptors of
//! what it reads: they end with this value, and keep no scheduler loaded.

use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::Context;
use libbpf_rs::{MapHandle, libbpf_sys};

use crate::activity::{self, Activity};
use crate::cgroups::{self, Cgroup};
use crate::stats::{self, Stats};
use crate::trials::{self, Trial};

/// The program that [`read_clocks`] runs.
const CLOCKS: &str = "vaware_read_clocks";

/// Where the counters of a loaded scheduler are.
pub struct Counters {
    pub(crate) stats: MapHandle,
    pub(crate) activity: MapHandle,
    pub(crate) trials: MapHandle,
    pub(crate) cgroups: MapHandle,
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
        stats::read(&self.stats, self.nr_vcpus)
    }

    /// What every possible vCPU has been doing, by number.
    ///
    /// # Errors
    /// What the kernel said of a map or a program that was there at load.
    pub fn activity(&self) -> anyhow::Result<Vec<Activity>> {
        let clocks = self.programs.iter().find(|(name, _)| name == CLOCKS);
        let (_, program) = clocks.context("no program reads the clocks: a fault of this build")?;
        activity::read(&self.activity, self.nr_vcpus, read_clocks(program.as_fd())?.sched_ns)
    }

    /// What was found out about each policy.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load.
    pub fn trials(&self) -> anyhow::Result<Vec<Trial>> {
        trials::read(&self.trials)
    }

    /// What the tasks of the cgroups met that waited longest.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load.
    pub fn cgroups(&self) -> anyhow::Result<Vec<Cgroup>> {
        cgroups::read(&self.cgroups)
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

/// Read the kernel's clocks, with the program of the kernel half that does it.
///
/// # Errors
/// What the kernel said of a program that was there at load.
pub(crate) fn read_clocks(program: BorrowedFd<'_>) -> anyhow::Result<intf::vaware_clock> {
    let mut clock = intf::vaware_clock { jiffies: 0, sched_ns: 0 };
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        ctx_in: (&raw mut clock).cast(),
        ctx_size_in: size_of::<intf::vaware_clock>() as u32,
        ..Default::default()
    };
    // SAFETY: the kernel writes to `clock` alone, up to the size given, before this returns.
    let ran = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if ran < 0 {
        return Err(io::Error::from_raw_os_error(-ran)).context("reading the kernel's clocks");
    }
    Ok(clock)
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
