// SPDX-License-Identifier: GPL-2.0-only
//! The simulated kernel and host do what a kernel and a host do.

use intf::VAWARE_POLICY_BVS as BVS;
use sim::costs::Costs;
use sim::guest::GuestConfig;
use sim::guest::task::{NewTask, Policy};
use sim::host::{Host, HostConfig, Load, Thread, ThreadKind};
use sim::sim::{MS, S, Sim, US};
use sim::work::barrier::{self, Phases};
use sim::work::compute::Compute;
use sim::work::requests::{self, Service};
use sim::work::timers;

use crate::{Outcome, compete, compute, finished, pinned};

const BASE: u64 = 0;

fn work_ns(outcome: &Outcome) -> u64 {
    outcome.tasks.iter().map(|(_, counts)| counts.work_ns).sum()
}

#[test]
fn honest_vcpus_are_used_in_whole() {
    let outcome = finished(pinned(4, 4, BASE), compute(4, MS), S);
    let share = work_ns(&outcome) as f64 / (4.0 * S as f64);
    assert!(share > 0.99, "{share}");
    assert!(outcome.truth.iter().all(|(_, stolen, _)| *stolen == 0));
}

#[test]
fn stacked_vcpus_share_a_core_and_lose_the_switches() {
    let outcome = finished(pinned(4, 2, BASE), compute(4, MS), S);
    let share = work_ns(&outcome) as f64 / (2.0 * S as f64);
    assert!(share > 0.95 && share < 1.0, "{share}");
    for (run, stolen, stops) in &outcome.truth {
        assert!(run.abs_diff(S / 2) < 20 * MS, "{run}");
        assert!(stolen.abs_diff(S / 2) < 20 * MS, "{stolen}");
        assert!(*stops > 50);
    }
}

#[test]
fn one_task_more_than_vcpus_is_shared_fairly() {
    let outcome = finished(pinned(1, 1, BASE), compute(3, MS), S);
    for (_, counts) in &outcome.tasks {
        assert!(counts.work_ns.abs_diff(S / 3) < 10 * MS, "{}", counts.work_ns);
    }
}

#[test]
fn best_effort_work_that_is_due_sets_nobody_back_by_what_it_owes() {
    let mut tasks = compute(2, MS);
    let due = NewTask::new("best effort", 2, Compute::new("work", MS));
    tasks.push(NewTask { policy: Policy::Idle, ..due });
    let outcome = finished(pinned(1, 1, BASE), tasks, 5 * S);
    for (name, counts) in &outcome.tasks[..2] {
        assert!(counts.wait_max_ns < 20 * MS, "{name}: {}", counts.wait_max_ns);
    }
    assert!(outcome.tasks[2].1.work_ns > 0, "the wait bound was not kept");
}

/// How late timers are on average, one for each vCPU, on one core that stops its vCPUs for 2 ms in
/// turns and one that does so for 16 ms.
fn timers_late_ns(vcpus: usize, interval_ns: u64, policies: u64) -> u64 {
    let mut s = pinned(vcpus, 2, policies);
    for (pcpu, turn_ns) in [(0, 2 * MS), (1, 16 * MS)] {
        let duty = Load::Duty { on_ns: turn_ns, off_ns: turn_ns, phase_ns: 0 };
        compete(&mut s, pcpu, duty, true);
    }
    let outcome = finished(s, timers::tasks("timer", vcpus, interval_ns, 1), 5 * S);
    let tally = &outcome.tallies["timer"];
    assert!(tally.count > 500, "{}", tally.count);
    tally.sum / tally.count
}

#[test]
fn tasks_that_sleep_by_timers_do_so_where_those_are_on_time() {
    let intervals_us = [2900, 3700, 4000, 4300, 5000, 7000];
    for (vcpus, us) in intervals_us.into_iter().flat_map(|us| [(2, us), (4, us)]) {
        let [with, without] =
            [BASE | u64::from(BVS), BASE].map(|policies| timers_late_ns(vcpus, us * US, policies));
        assert!(with < without * 3 / 4, "{vcpus} vCPUs, {us} us: {with} and {without} ns late");
    }
}

#[test]
fn a_competitor_in_turns_takes_what_it_says() {
    let mut s = pinned(1, 1, BASE);
    compete(&mut s, 0, Load::Duty { on_ns: 5 * MS, off_ns: 15 * MS, phase_ns: 0 }, true);
    let (_, stolen, stops) = finished(s, compute(1, MS), S).truth[0];
    assert!(stolen.abs_diff(S / 4) < 6 * MS, "{stolen}");
    assert!(stops.abs_diff(50) < 2, "{stops}");
}

#[test]
fn a_vcpu_that_ran_alone_gets_its_half_when_another_comes() {
    let mut s = pinned(1, 1, BASE);
    let (on_ns, off_ns) = (200 * MS, 200 * MS);
    compete(&mut s, 0, Load::Duty { on_ns, off_ns, phase_ns: off_ns }, false);
    let (_, stolen, _) = finished(s, compute(1, MS), S).truth[0];
    assert!(stolen.abs_diff(S / 5) < 20 * MS, "{stolen}");
}

#[test]
fn same_seed_same_trace() {
    let once = |seed: u64| {
        let mut s = pinned(4, 2, BASE);
        s.rng = rand_chacha::rand_core::SeedableRng::seed_from_u64(seed);
        let service =
            Service { workers: 4, interval_ns: MS, service_ns: 500 * US, random_service: true };
        let tasks = requests::tasks(&mut s, "requests", service, 1);
        finished(s, tasks, S)
    };
    let (a, b, other) = (once(7), once(7), once(8));
    assert_eq!((a.hash, a.entries), (b.hash, b.entries));
    assert_ne!(a.hash, other.hash);
    assert!(a.tallies["requests"].count > 800);
}

#[test]
fn threads_with_barriers_go_on() {
    let mut s = pinned(4, 4, BASE);
    let phases = Phases { threads: 4, work_ns: MS, jitter_percent: 10, ..Phases::default() };
    let tasks = barrier::tasks(&mut s, "phase", phases, 1);
    let count = finished(s, tasks, S).tallies["phase"].count;
    assert!(count > 850 && count < 1000, "{count}");
}

#[test]
fn threads_that_take_pieces_do_not_wait_long_for_a_slow_one() {
    let phases_of = |work_ns, pieces| {
        let mut s = pinned(4, 3, BASE); // two of the vCPUs share a core
        let phases = Phases { threads: 4, work_ns, pieces, ..Phases::default() };
        let tasks = barrier::tasks(&mut s, "phase", phases, 1);
        finished(s, tasks, S).tallies["phase"].count
    };
    let (own, taken) = (phases_of(4 * MS, None), phases_of(MS, Some(16)));
    assert!(taken * 4 > own * 5 && taken < S / MS * 3 / 16 + 1, "{own} and {taken}");
}

/// How long kernels that take 200 us to schedule spin for locks, for each phase of four threads with
/// barriers on four vCPUs that float over two cores.
fn spins_of_a_slow_kernel_ns(queued_wakeup: bool) -> u64 {
    let mut host = Host::new(HostConfig::default(), 2, 1);
    host.threads.extend((0..4).map(|v| Thread::new(ThreadKind::Vcpu(v), vec![0, 1])));
    let costs = Costs { schedule_ns: 200 * US, ..Costs::default() };
    let config = GuestConfig { queued_wakeup, ..GuestConfig::new(4, BASE) };
    let mut s = Sim::new(1, costs, host, config);
    let phases = Phases { threads: 4, work_ns: 100 * US, jitter_percent: 50, ..Phases::default() };
    let tasks = barrier::tasks(&mut s, "phase", phases, 1);
    let outcome = finished(s, tasks, 2 * S);
    let spin_ns: u64 = outcome.vcpus.iter().map(|counts| counts.spin_ns).sum();
    spin_ns / outcome.tallies["phase"].count
}

#[test]
fn a_waker_does_not_wait_for_a_vcpu_that_activates_the_task_itself() {
    let [queued, direct] = [true, false].map(spins_of_a_slow_kernel_ns);
    assert!(queued < direct / 2, "{queued} and {direct} ns");
}
