// SPDX-License-Identifier: GPL-2.0-only
//! A simulation from beginning to end: loads the scheduler as the daemon does, starts the tasks, runs,
//! and hands back what was seen.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::bpf::call::{self, Callback, CallbackCounts};
use crate::bpf::shim;
use crate::exec;
use crate::guest::core;
use crate::guest::task::{NewTask, TaskCounts};
use crate::guest::timer::Expiry;
use crate::guest::vcpu::VcpuCounts;
use crate::record::Entry;
use crate::sim::{Event, Ns, Sim, Violation, install, run_until, sim};
use crate::work::Tally;

/// The scheduler's variables are there once in a process: one simulation at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a simulation showed.
#[derive(Debug, Default)]
pub struct Outcome {
    pub violation: Option<Violation>,
    /// The end of the trace, oldest first.
    pub last: Vec<Entry>,
    /// The whole trace, if it was kept.
    pub all: Option<Vec<Entry>>,
    /// A hash over the whole trace.
    pub hash: u64,
    pub entries: u64,
    pub events: u64,
    pub length_ns: Ns,
    pub tallies: BTreeMap<String, Tally>,
    pub vcpus: Vec<VcpuCounts>,
    /// Of each vCPU, what the host knows: ns run, ns stolen, stops.
    pub truth: Vec<(Ns, Ns, u64)>,
    pub tasks: Vec<(String, TaskCounts)>,
    /// Of each vCPU, what the scheduler shows its daemon.
    pub activity: Vec<intf::vaware_activity>,
    pub stats: Vec<intf::vaware_stats>,
    pub callbacks: BTreeMap<Callback, CallbackCounts>,
}

/// Run the simulation `s` with `tasks`, for `length_ns`.
///
/// # Errors
/// If there is no memory for the vCPUs' stacks or the scheduler's variables cannot be reset.
pub fn run(s: Sim, tasks: Vec<NewTask>, length_ns: Ns) -> anyhow::Result<Outcome> {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let nr = s.vcpus.len();
    install(Some(s));
    exec::start(nr, core::vcpu_main)?;
    load()?;
    sim(|s| {
        for (index, new) in tasks.into_iter().enumerate() {
            let t = s.add_task(new, index % nr);
            let v = s.tasks[t].cpu;
            s.arm_timer(v, 0, Expiry::Begin(t));
        }
        s.start_host();
        s.at(s.guest.stall_ns / 2, Event::Watchdog);
    });
    run_until(length_ns);
    exec::stop_all();
    let outcome = install(None).map(outcome).unwrap_or_default();
    Ok(outcome)
}

/// Load the scheduler as the daemon does (userspace/src/scheduler.rs).
fn load() -> anyhow::Result<()> {
    let config = sim(|s| s.guest.config.clone());
    // SAFETY: the process runs one simulation at a time, and none of its vCPUs runs yet.
    unsafe {
        anyhow::ensure!(shim::sim_state_reset() == 0, "the scheduler's variables are read-only");
        shim::nr_vcpus = config.nr_vcpus as u32;
        shim::wait_bound_ns = config.wait_bound_ns;
        shim::queued_wakeup = config.queued_wakeup;
        shim::steal_source =
            if config.steal_clock { intf::VAWARE_STEAL_KVM } else { intf::VAWARE_STEAL_BEATS };
        shim::tick_ns = config.tick_ns;
        shim::policies = config.policies;
        shim::hints_flags = config.hints_flags;
        shim::reserve_vcpu = config.reserve_vcpu;
        shim::confined = [config.confined, 0, 0, 0];
        shim::hints_until_jiffies = u64::MAX;
    }
    let error = call::call(Callback::Init, &[]) as i32;
    anyhow::ensure!(error == 0, "ops.init returned {error}");
    Ok(())
}

fn outcome(mut s: Sim) -> Outcome {
    Outcome {
        activity: s.values((&raw const shim::vcpu_activity) as usize),
        stats: s.values((&raw const shim::vcpu_stats) as usize),
        last: s.record.last(400).copied().collect(),
        hash: s.record.hash,
        entries: s.record.entries,
        all: s.record.all,
        violation: s.violation,
        events: s.events_done,
        length_ns: s.now,
        tallies: s.world.tallies,
        truth: (0..s.vcpus.len())
            .map(|v| {
                let thread = &s.host.threads[v];
                (thread.run_ns, thread.wait_ns, thread.stops)
            })
            .collect(),
        vcpus: s.vcpus.iter().map(|vcpu| vcpu.counts).collect(),
        tasks: s.tasks.iter().map(|task| (task.name.clone(), task.counts)).collect(),
        callbacks: s.bpf.counts,
    }
}
