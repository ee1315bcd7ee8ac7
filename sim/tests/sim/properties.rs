// SPDX-License-Identifier: GPL-2.0-only
//! What must hold of the scheduler, whatever comes.

use intf::ALL_POLICIES;
use sim::bpf::call::Callback;
use sim::fuzz::case::What;
use sim::fuzz::{Case, generate};
use sim::guest::task::{NewTask, Policy};
use sim::host::Load;
use sim::scale;
use sim::sim::{MS, S, US};
use sim::work::barrier::{self, Phases};
use sim::work::compute::Compute;
use sim::work::timers;

use crate::{compete, compute, finished, pinned};

/// Enough to see what is often wrong; `sim fuzz` tries as many as one has time for.
const SEEDS: u64 = 12;

/// Assert that a case violates nothing and repeats itself.
fn assert_passes(case: &Case, name: &str) {
    let failure = case.check().map(|(failure, _)| failure);
    assert!(matches!(failure, Ok(None)), "{name}: {failure:?}; see `sim fuzz` and `sim replay`");
}

#[test]
fn random_cases_violate_nothing_and_repeat_themselves() {
    for seed in 1..=SEEDS {
        assert_passes(&generate(seed), &format!("seed {seed}"));
    }
}

#[test]
fn cases_that_failed_once_do_not_any_more() -> anyhow::Result<()> {
    let cases: Vec<_> = std::fs::read_dir("tests/cases")?.collect::<Result<_, _>>()?;
    assert!(!cases.is_empty(), "tests/cases is empty");
    for path in cases.iter().map(std::fs::DirEntry::path) {
        let case = toml::from_str(&std::fs::read_to_string(&path)?)?;
        assert_passes(&case, &path.display().to_string());
    }
    Ok(())
}

#[test]
fn with_all_policies_off_the_daemons_word_changes_nothing() {
    for seed in 1..=4 {
        let mut quiet = generate(seed);
        quiet.policies = 0;
        quiet.events.retain(|e| !matches!(e.what, What::Policies { .. } | What::Inputs { .. }));
        let mut told = quiet.clone();
        told.absurd_inputs = true;
        let hash = |case: &Case| case.run(false).unwrap_or_default().hash;
        assert_ne!(hash(&quiet), 0);
        assert_eq!(hash(&quiet), hash(&told), "seed {seed}");
    }
}

#[test]
fn equal_tasks_get_equal_shares() {
    for (vcpus, tasks) in [(1, 2), (1, 5), (2, 4), (4, 8), (4, 12)] {
        let seen = finished(pinned(vcpus, vcpus, ALL_POLICIES), compute(tasks, MS), S);
        let fair = S as f64 * vcpus as f64 / tasks as f64;
        for (name, counts) in &seen.tasks {
            let error = counts.work_ns as f64 / fair - 1.0;
            assert!(error.abs() < 0.05, "{name} of {tasks} on {vcpus}: {error:+.3}");
        }
    }
}

#[test]
fn a_task_that_runs_alone_is_harvested_for() {
    let work_ns = |policies| {
        let mut s = pinned(4, 4, policies);
        s.guest.config.steal_clock = true;
        s.world.warm_up_ns = 100 * MS;
        (0..4).for_each(|pcpu| compete(&mut s, pcpu, Load::Always, false));
        finished(s, compute(1, 100 * US), S).tallies["work"].sum
    };
    // Each vCPU has half of a core; a task that changes in time finds one that runs.
    assert!(work_ns(ALL_POLICIES) > work_ns(0) * 4 / 3);
}

#[test]
fn threads_are_not_doubled_up_to_spare_a_slow_vcpu() {
    let phases = |policies| {
        let mut s = pinned(8, 8, policies);
        s.world.warm_up_ns = 200 * MS;
        compete(&mut s, 7, Load::Always, false);
        s.tell(&[1024, 1024, 1024, 1024, 1024, 1024, 1024, 512]);
        let own = Phases { threads: 8, work_ns: MS, jitter_percent: 20, ..Phases::default() };
        let tasks = barrier::tasks(&mut s, "phase", own, 1);
        finished(s, tasks, S).tallies["phase"].count
    };
    let [with, without] = [ALL_POLICIES, 0].map(phases);
    assert!(with > without * 95 / 100, "{with} and {without}");
}

#[test]
fn best_effort_work_delays_normal_work_by_a_switch_at_most() {
    let late_max_ns = |background: usize| {
        let mut s = pinned(4, 4, ALL_POLICIES);
        s.world.warm_up_ns = 100 * MS;
        let mut tasks = timers::tasks("late", 3, 1700 * US, 0);
        tasks.extend((0..background).map(|_| NewTask {
            policy: Policy::Idle,
            ..NewTask::new("background", 1, Compute::new("background", MS))
        }));
        let tally = &finished(s, tasks, S).tallies["late"];
        assert!(tally.count > 1000);
        tally.max
    };
    let (alone, beside) = (late_max_ns(0), late_max_ns(8));
    // A switch, the IPI that asks for it, and the callbacks: below 30 us with the default costs.
    assert!(beside < alone + 30_000, "alone {alone} ns, beside best-effort work {beside} ns");
}

#[test]
fn a_wake_up_does_not_cost_more_on_a_large_machine() {
    let most = |vcpus| {
        let outcome = scale::measure(vcpus, 100, true);
        assert!(outcome.is_ok(), "{:?}", outcome.err());
        let outcome = outcome.unwrap_or_default();
        [Callback::SelectCpu, Callback::Enqueue].map(|callback| {
            let counts = scale::counts(&outcome, callback);
            (counts.calls > 0, [counts.kfuncs_max, counts.iterations_max, counts.lines_max])
        })
    };
    // At most 16 vCPUs near by are looked at, twice each, whatever the number of others, and in no
    // more than four lines each.
    for vcpus in [32, 256] {
        for (called, seen) in most(vcpus) {
            let within = seen.iter().zip([48, 17, 4 * 17 + 12]).all(|(most, bound)| *most <= bound);
            assert!(called && within, "{vcpus} vCPUs: {seen:?}");
        }
    }
}
