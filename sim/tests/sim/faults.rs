// SPDX-License-Identifier: GPL-2.0-only
//! Faults that small VMs hide: each was one once.

use intf::ALL_POLICIES;
use sim::guest::attrs::Change;
use sim::guest::task::NewTask;
use sim::script::Action;
use sim::sim::{MS, Ns, S, Sim, US};
use sim::work::compute::Compute;
use sim::work::{Op, Program};

use crate::{compute, finished, pinned};

/// Runs for a while and sleeps for a while, without end.
struct Bursts {
    run_ns: Ns,
    sleep_ns: Ns,
    ran: bool,
}

impl Program for Bursts {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.ran = !self.ran;
        if self.ran { Op::Compute(self.run_ns) } else { Op::SleepUntil(s.now + self.sleep_ns) }
    }
}

#[test]
fn a_kernel_thread_that_hardly_sleeps_does_not_take_all() {
    let housekeeping = NewTask {
        kthread: true,
        allowed: Some(vec![0]),
        ..NewTask::new("kworker", 1, Bursts { run_ns: 2900 * US, sleep_ns: 10 * US, ran: false })
    };
    let mut tasks = compute(1, 100 * US);
    tasks.push(housekeeping);
    let work_ns = finished(pinned(1, 1, ALL_POLICIES), tasks, S).tallies["work"].sum;
    assert!(work_ns > 2 * S / 5, "the normal task got {work_ns} ns of a second");
}

#[test]
fn an_idle_vcpu_is_found_beyond_the_nearest_sixteen() {
    let mut s = pinned(40, 40, ALL_POLICIES);
    s.world.warm_up_ns = 100 * MS;
    let mut capacities = [1024; 40];
    capacities[39] = 512; // so that there is something to choose
    s.tell(&capacities);
    let mut tasks: Vec<NewTask> = (0..20)
        .map(|v| NewTask {
            allowed: Some(vec![v]),
            ..NewTask::new("hog", v, Compute::new("work", MS))
        })
        .collect();
    let bursts = Bursts { run_ns: 3 * MS, sleep_ns: 3 * MS, ran: false };
    let allowed = Some(vec![0]);
    let free = Change::Affinity { task: tasks.len(), allowed: (0..40).collect() };
    s.plan(50 * MS, Action::Change { by: 1, change: free });
    tasks.push(NewTask { allowed, ..NewTask::new("burst", 100, bursts) });
    let seen = finished(s, tasks, S);
    let ran_ns = seen.tasks.iter().find(|(name, _)| name == "burst").map(|(_, c)| c.work_ns);
    // Beside a task that computes it would wait for as long as it runs.
    assert!(ran_ns > Some(S * 9 / 20), "{ran_ns:?} ns of a second");
}

#[test]
fn room_for_more_vcpus_does_not_keep_work_from_those_there_are() {
    let mut s = pinned(64, 64, ALL_POLICIES);
    s.world.warm_up_ns = 300 * MS;
    for vcpu in 4..64 {
        s.plan(
            vcpu as Ns * MS,
            Action::Change { by: 0, change: Change::Online { vcpu, online: false } },
        );
    }
    let tasks = compute(6, MS);
    let seen = finished(s, tasks, 3 * S);
    let all_ns = seen.tallies["work"].sum as f64;
    assert!(all_ns > 0.97 * 4.0 * 2.7e9, "four vCPUs did {all_ns} ns of work in 2.7 s");
    for (name, counts) in &seen.tasks {
        let share =
            counts.work_ns as f64 / seen.tasks.iter().map(|(_, c)| c.work_ns as f64).sum::<f64>();
        assert!(share > 0.13, "{name} got {share:.3} of the work of six");
    }
}
