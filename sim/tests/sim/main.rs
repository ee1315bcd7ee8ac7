// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the simulation, and by it of the scheduler.

mod faults;
mod model;
mod properties;

use sim::costs::Costs;
use sim::guest::GuestConfig;
use sim::guest::task::NewTask;
use sim::host::{Host, HostConfig, Load, Thread, ThreadKind};
use sim::run::{Outcome, run};
use sim::sim::{Ns, Sim};
use sim::work::compute::Compute;

/// A host with `pcpus` cores on which vCPU n is pinned to core n modulo their number.
fn pinned(nr_vcpus: usize, pcpus: usize, policies: u64) -> Sim {
    let mut host = Host::new(HostConfig::default(), pcpus, 1);
    for v in 0..nr_vcpus {
        host.threads.push(Thread::new(ThreadKind::Vcpu(v), vec![v % pcpus]));
    }
    Sim::new(1, Costs::default(), host, GuestConfig::new(nr_vcpus, policies))
}

/// Let a thread of the host take time from what runs on `pcpu`.
fn compete(s: &mut Sim, pcpu: usize, load: Load, realtime: bool) {
    let thread = Thread::new(ThreadKind::Competitor(load), vec![pcpu]);
    s.host.threads.push(Thread { realtime, ..thread });
}

/// CPU-bound tasks; each chunk of work that is done counts as "work".
fn compute(tasks: usize, chunk_ns: Ns) -> Vec<NewTask> {
    (0..tasks).map(|n| NewTask::new("cpu", n, Compute::new("work", chunk_ns))).collect()
}

/// Run it to the end without a violation.
fn finished(s: Sim, tasks: Vec<NewTask>, length_ns: Ns) -> Outcome {
    let outcome = run(s, tasks, length_ns).unwrap_or_default();
    assert!(outcome.length_ns > 0, "the run did not start");
    assert_eq!(outcome.violation, None, "{}", sim::report::violation(&outcome).unwrap_or_default());
    outcome
}
