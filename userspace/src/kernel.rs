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

/// Wait until sched_ext is in `wanted`, at most `limit`. Return whether it is.
pub fn wait_for_state(wanted: &str, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if state().as_deref() == Some(wanted) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
}

/// The tick rates that Linux can be built with, in Hz.
const TICK_RATES: [u64; 4] = [100, 250, 300, 1000];

/// Return the kernel's tick in ns, from its tick counter and its monotonic clock read together.
///
/// The counter starts at 2^32 - 300 s worth of ticks (kernel: `INITIAL_JIFFIES`) when the clock
/// starts at 0, so the rate that explains both is the right one. Late ticks do not matter.
pub fn tick_ns(jiffies: u64, monotonic_ns: u64) -> u64 {
    let error_s = |hz: u64| {
        let ticks = jiffies as f64 - ((1u64 << 32) - 300 * hz) as f64;
        (ticks / hz as f64 - monotonic_ns as f64 / 1e9).abs()
    };
    let hz = TICK_RATES.into_iter().min_by(|a, b| error_s(*a).total_cmp(&error_s(*b)));
    1_000_000_000 / hz.unwrap_or(TICK_RATES[0])
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

        #[test]
        fn any_clocks_give_a_tick_rate_of_linux(jiffies: u64, monotonic_ns: u64) {
            let ns = tick_ns(jiffies, monotonic_ns);
            prop_assert!(TICK_RATES.iter().any(|hz| 1_000_000_000 / hz == ns));
        }
    }

    #[test]
    fn tick_follows_from_the_two_clocks() {
        for hz in TICK_RATES {
            for uptime_s in [3, 60, 86_400, 31_536_000u64] {
                let jiffies = (1u64 << 32) - 300 * hz + uptime_s * hz;
                let late_by_3_ticks = jiffies - 3;
                assert_eq!(tick_ns(late_by_3_ticks, uptime_s * 1_000_000_000), 1_000_000_000 / hz);
            }
        }
    }
}
