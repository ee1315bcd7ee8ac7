// SPDX-License-Identifier: GPL-2.0-only
//! What a probing thread asks of the kernel about itself: its vCPU, its priority, the time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How a thread competes with the others on its vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// `SCHED_IDLE`: runs when nothing else does. sched_ext schedulers know it as best effort.
    BestEffort,
    /// The lowest real-time priority: runs before everything under `SCHED_NORMAL`.
    Realtime,
}

/// `CLOCK_MONOTONIC` in ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Run time of this thread in ns: without a steal clock, with what was stolen meanwhile.
pub fn run_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A clock that exists on every Linux.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleep until `CLOCK_MONOTONIC` reaches `at_ns`, or a signal comes.
pub fn sleep_until(at_ns: u64) {
    let time = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `time` is ours; the kernel writes nothing back for an absolute sleep.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        );
    }
}

/// Let this thread run on one vCPU only.
///
/// # Errors
/// The kernel's: `EINVAL` if the vCPU is offline or not in the process's cpuset.
pub fn pin(vcpu: u32) -> io::Result<()> {
    let mut mask = vec![0u64; vcpu as usize / 64 + 1];
    mask[vcpu as usize / 64] = 1 << (vcpu % 64);
    // SAFETY: the kernel reads as many bytes as the mask has.
    let failed =
        unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The vCPU on which this thread runs now. Another than it was pinned to if that one went offline.
pub fn current_vcpu() -> Option<u32> {
    // SAFETY: takes nothing and changes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Set this thread's priority, and let its timers expire on time.
///
/// # Errors
/// The kernel's: `EPERM` for [`Priority::Realtime`] without `CAP_SYS_NICE` or in a cgroup without
/// real-time bandwidth.
pub fn set_priority(priority: Priority) -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes a number.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
    match priority {
        Priority::BestEffort => set_policy(libc::SCHED_IDLE, 0),
        Priority::Realtime => set_policy(libc::SCHED_FIFO, 1),
    }
}

fn set_policy(policy: libc::c_int, level: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: level };
    // SAFETY: `parameters` is ours.
    let failed = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Let those begin that were sent to this vCPU while it woke up for this real-time thread. They would stay
/// behind it, out of reach of others, for as long as it runs: sched_ext tells a scheduler only when a task
/// that has begun loses its vCPU, and then all that wait there can be sent elsewhere.
pub fn let_others_begin() {
    if set_policy(libc::SCHED_OTHER, 0).is_ok() {
        std::thread::yield_now();
        let _ = set_priority(Priority::Realtime); // it was granted before
    }
}

/// How long a thread has waited in the guest's own runqueues.
pub struct GuestWait(Option<File>);

impl GuestWait {
    /// Of the thread that calls.
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// In ns since the thread started; 0 if this kernel does not tell.
    pub fn total_ns(&self) -> u64 {
        let mut bytes = [0; 96];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        parse_wait_ns(&bytes[..read]).unwrap_or(0)
    }
}

/// The second of the three numbers in a schedstat file (kernel: `Documentation/scheduler/sched-stats`).
fn parse_wait_ns(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_where_it_is_pinned() {
        let vcpus = crate::vcpus::Vcpus::read().map(|vcpus| vcpus.online).unwrap_or_default();
        for vcpu in vcpus {
            let told = std::thread::spawn(move || (pin(vcpu).is_ok(), current_vcpu())).join();
            if let Ok((true, seen)) = told {
                assert_eq!(seen, Some(vcpu));
            }
        }
    }

    #[test]
    fn pinning_to_a_vcpu_that_is_not_there_fails() {
        assert!(pin(100_000).is_err());
    }

    #[test]
    fn sleeping_ends_after_the_given_time() {
        let at_ns = monotonic_ns() + 2_000_000;
        sleep_until(at_ns);
        assert!(monotonic_ns() >= at_ns);
    }

    #[test]
    fn the_wait_is_the_second_number() {
        assert_eq!(parse_wait_ns(b"12 345 6\n"), Some(345));
        assert_eq!(parse_wait_ns(b""), None);
        assert_eq!(parse_wait_ns(b"12 x 6"), None);
    }
}
