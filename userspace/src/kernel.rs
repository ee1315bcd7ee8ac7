// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel, and what its sched_ext says of itself.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// How the kernel half names itself; scx_utils may append versions.
const OPS_NAME: &str = "scx_vaware";

/// The release of the running kernel, such as `6.12.1-amd64`.
pub fn release() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into())
}

/// The state of sched_ext: `enabled`, `disabled`, or one between; `None` without sched_ext.
pub fn state() -> Option<String> {
    read(&format!("{SCHED_EXT}/state"))
}

/// The name of the scheduler that is loaded.
pub fn loaded_name() -> Option<String> {
    read(&format!("{SCHED_EXT}/root/ops"))
}

/// Whether sched_ext is enabled, and the scheduler is ours.
pub fn enabled_as_us() -> bool {
    state().as_deref() == Some("enabled") && loaded_name().as_deref().is_some_and(is_ours)
}

/// Whether a loaded scheduler of this name is this one, of any version.
pub fn is_ours(name: &str) -> bool {
    name.starts_with(OPS_NAME)
}

/// The kernel's counts of events that the loaded scheduler met, by name; none on kernels before 6.15.
pub fn events() -> Vec<(String, u64)> {
    parse_events(&read(&format!("{SCHED_EXT}/root/events")).unwrap_or_default())
}

fn parse_events(text: &str) -> Vec<(String, u64)> {
    let event = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_string(), count.trim().parse().ok()?))
    };
    text.lines().filter_map(event).collect()
}

/// Wait until sched_ext is in the state `wanted` or `given_up`, at most `limit`. Return whether it is.
pub fn wait_for_state(wanted: &str, limit: Duration, given_up: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if state().as_deref() == Some(wanted) {
            return true;
        }
        if given_up() || Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
}

/// The kernel's tick in ns: the resolution of its coarse clocks (kernel: `KTIME_LOW_RES`).
pub fn tick_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours, and the clock is one that exists on every Linux.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_events_are_read_or_left_out(text in prop_oneof!["(SCX_[A-Z]{1,4}( |)[0-9]{0,21}\n?){0,4}", any::<String>()]) {
            prop_assert!(parse_events(&text).len() <= text.lines().count());
        }
    }

    #[test]
    fn coarse_clocks_move_by_ticks() {
        let coarse = || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `time` is ours.
            unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
            time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
        };
        let began_ns = coarse();
        let mut moved_ns = 0.0;
        while moved_ns == 0.0 {
            moved_ns = coarse() - began_ns;
        }
        let ticks = moved_ns / tick_ns() as f64;
        assert!(ticks > 0.9 && (ticks - ticks.round()).abs() < 0.1, "{ticks} ticks");
    }
}
