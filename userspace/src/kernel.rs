// SPDX-License-Identifier: GPL-2.0-only
//! What this kernel can do, and what its sched_ext says of itself.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::Failure;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// How the kernel half names itself; scx_utils may append versions.
const OPS_NAME: &str = "scx_vaware";
const BTF: &str = "/sys/kernel/btf/vmlinux";
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

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
    state().as_deref() == Some("enabled")
        && loaded_name().is_some_and(|name| name.starts_with(OPS_NAME))
}

/// The kernel's counts of events that the loaded scheduler met, by name; none on kernels before 6.15.
pub fn events() -> Vec<(String, u64)> {
    let text = read(&format!("{SCHED_EXT}/root/events")).unwrap_or_default();
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

/// Check that the scheduler can be loaded here and now. Changes nothing.
///
/// # Errors
/// [`Failure::Unavailable`], [`Failure::Permission`] or [`Failure::Busy`], in this order.
pub fn check() -> Result<(), Failure> {
    let release = release();
    if !Path::new(SCHED_EXT).is_dir() {
        return Err(Failure::Unavailable(format!(
            "kernel {release} has no sched_ext (there is no {SCHED_EXT}); boot a kernel from 6.12 \
             on with CONFIG_SCHED_CLASS_EXT=y"
        )));
    }
    if !Path::new(BTF).is_file() {
        return Err(Failure::Unavailable(format!(
            "kernel {release} has no type information (there is no {BTF}); boot one with \
             CONFIG_DEBUG_INFO_BTF=y"
        )));
    }
    let malformed = scx_utils::compat::malformed_scx_kfuncs();
    if !malformed.is_empty() {
        return Err(Failure::Unavailable(format!(
            "kernel {release} describes {} of its sched_ext functions wrongly (such as {}), as \
             kernels built with pahole before 1.26 do, and would refuse any scheduler; boot \
             another build of it",
            malformed.len(),
            malformed[0]
        )));
    }
    if !may_load(&read("/proc/self/status").unwrap_or_default()) {
        return Err(Failure::Permission(
            "loading a scheduler needs root, or the capabilities CAP_BPF and CAP_PERFMON; run it \
             with sudo"
                .into(),
        ));
    }
    match state().as_deref() {
        Some("disabled") => Ok(()),
        found => Err(Failure::Busy(format!(
            "sched_ext is {} with scheduler {}; stop that one first",
            found.unwrap_or("in an unknown state"),
            loaded_name().unwrap_or_else(|| "unknown".into())
        ))),
    }
}

/// Return whether a process with this `/proc/PID/status` has the rights to load a scheduler.
fn may_load(status: &str) -> bool {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| effective & (1 << capability) != 0;
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
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
    use super::*;

    #[test]
    fn two_capabilities_are_enough() {
        assert!(may_load("Name:\tx\nCapEff:\t000000c000000000\n"));
        assert!(may_load("CapEff:\t000001ffffffffff\n"));
    }

    #[test]
    fn one_or_none_is_not() {
        assert!(!may_load("CapEff:\t0000008000000000\n"));
        assert!(!may_load("CapEff:\t0000000000000000\n"));
        assert!(!may_load("nothing"));
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
