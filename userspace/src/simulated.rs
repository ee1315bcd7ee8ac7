// SPDX-License-Identifier: GPL-2.0-only
//! A VM that does not exist, of any size: for tests, and to see what metrics cost with many vCPUs.

use std::sync::Arc;
use std::time::Duration;

use probers::hypervisor::{Announced, Hypervisor};
use probers::snapshot::{Estimate, Group, Topology, Vcpu, VcpuSnapshot, Verdict};
use probers::vcpus::Vcpus;

use crate::activity::Activity;
use crate::bans::Ban;
use crate::cgroups::Cgroup;
use crate::config::Config;
use crate::health::{Report, State};
use crate::metrics::{Cost, Sample};
use crate::probing::PROBERS;
use crate::stats::{Stats, VcpuStats};
use crate::trials::{Outcome, Trial};
use intf::OUTCOMES;

/// A sample of a VM with so many vCPUs that has run for an hour, every series in it.
pub fn sample(nr_vcpus: u32) -> Sample {
    let all: Vec<u32> = (0..nr_vcpus).collect();
    Sample {
        config: Config::default(),
        vcpus: Vcpus { possible: all.clone(), online: all.clone() },
        announced: Announced { hypervisor: Hypervisor::Kvm, kvm_steal_clock: true },
        health: Report {
            state: State::Running,
            enabled_as_us: true,
            last_reload_ok: true,
            loop_at: Duration::from_millis(1_800_003_600_400),
            snapshot_at: Duration::from_millis(1_800_003_599_700),
            probe_restarts: PROBERS.map(|prober| (prober, 0)).into(),
            lines_lost: vec![("stdout", 0), ("stderr", 0)],
            open_vcpus: nr_vcpus as usize,
            gather_factors: Some((1.0, 0.5)),
            halt_poll: Some(Duration::from_micros(100)),
            ..Report::default()
        },
        stats: Some(Stats { vcpus: all.iter().copied().map(stats).collect() }),
        trials: trials(),
        cgroups: vec![Cgroup {
            path: "/kubepods/pod1".into(),
            waited: Duration::from_secs(3),
            held: Duration::from_secs(2),
            stolen: Duration::from_secs(1),
        }],
        activity: all.iter().copied().map(activity).collect(),
        bans: all.into_iter().map(|vcpu| (vcpu, ban(vcpu))).collect(),
        snapshot: Some(Arc::new(snapshot(nr_vcpus))),
        kernel_events: vec![("SCX_EV_SELECT_CPU_FALLBACK".into(), 3)],
        cost: Cost {
            cpu: Duration::from_secs(5),
            started: Duration::from_secs(1_800_000_000),
            resident_bytes: 20 << 20,
            last_scrape: Duration::from_millis(2),
            programs: vec![("vaware_enqueue".into(), Duration::from_secs(9), 1_000_000)],
        },
    }
}

/// Let `time` pass for the VM of a sample: vCPU n is busy for n hundredths of it (of n the rest by
/// 61), and stolen from for half as long.
pub fn pass(sample: &mut Sample, time: Duration) {
    let seconds = time.as_secs_f64();
    let events = |per_second: f64| (per_second * seconds) as u64;
    let vcpus = sample.stats.iter_mut().flat_map(|stats| &mut stats.vcpus);
    for ((number, vcpu), activity) in (0..).zip(vcpus).zip(&mut sample.activity) {
        let busy = time.mul_f64(f64::from(number % 61) / 100.0);
        vcpu.run_ns[0] += busy.as_nanos() as u64;
        vcpu.stolen_ns += (busy / 2).as_nanos() as u64;
        vcpu.switches += events(100.0);
        vcpu.wait_ns[0] += events(2e6);
        vcpu.wait_hist[0][7] += events(98.0);
        vcpu.wait_hist[0][11] += events(2.0);
        vcpu.counters[intf::VAWARE_KICKS as usize] += events(10.0);
        activity.idle += time.saturating_sub(busy * 3 / 2);
        activity.preemptions += events(f64::from(number % 61));
    }
}

fn stats(vcpu: u32) -> VcpuStats {
    let number = u64::from(vcpu);
    let mut stats = VcpuStats::default();
    stats.counters.fill(1000 + number);
    for (class, waits) in stats.wait_hist.iter_mut().enumerate() {
        waits.fill(10 + number);
        stats.wait_ns[class] = 5_000_000_000;
        stats.wait_max_ns[class] = 40_000_000 + number;
        stats.run_ns[class] = 700_000_000_000 + number;
    }
    stats.wakes.fill(3_000_000 + number);
    stats.wake_wait_ns.fill(90_000_000_000);
    stats.wakes_together.fill(1_000_000 + number);
    (stats.sleeps, stats.slept_burst_ns) = (9_000_000, 600_000_000_000);
    (stats.stolen_ns, stats.switches) = (300_000_000_000 + number, 9_000_000 + number);
    stats
}

fn trials() -> Vec<Trial> {
    let outcome = Outcome { epochs: [7, 19], gain_ratio: Some(1.25) };
    let verdicts = intf::VERDICTS.iter().cycle();
    let trial = |(policy, verdict)| Trial { policy, verdict, outcomes: [outcome; OUTCOMES.len()] };
    intf::POLICIES.into_iter().zip(verdicts.copied()).map(trial).collect()
}

fn activity(vcpu: u32) -> Activity {
    Activity {
        idle: Duration::from_secs(800),
        stolen_waking: Duration::from_secs(20),
        stolen_by_beats: Duration::from_secs(310),
        stolen_by_clock: Duration::from_secs(300),
        preemptions: 40_000 + u64::from(vcpu),
        idle_periods: 8_000_000 + u64::from(vcpu),
        active_typical: Some(Duration::from_millis(20)),
        inactive_typical: Some(Duration::from_millis(16)),
    }
}

fn ban(vcpu: u32) -> Ban {
    let now = is_straggler(vcpu);
    Ban { now, total: Duration::from_secs(if now { 600 } else { 0 }) }
}

fn is_straggler(vcpu: u32) -> bool {
    vcpu % 8 == 7
}

/// A snapshot of that VM: vCPUs in pairs on cores, one in eight a straggler.
pub fn snapshot(nr_vcpus: u32) -> VcpuSnapshot {
    let sure = |value: f64| Some(Estimate { value, age_s: 0.5, confidence: 0.9 });
    let vcpu = |id: u32| {
        let straggler = is_straggler(id);
        Vcpu {
            id,
            online: true,
            verdict: if straggler { Verdict::Straggler } else { Verdict::Good },
            capacity: sure(if straggler { 200.0 } else { 1000.0 }),
            share_ratio: sure(if straggler { 0.2 } else { 0.98 }),
            speed_ratio: sure(1.0),
            stolen_ratio: sure(0.02),
            wakeup_latency_ns: sure(60_000.0),
            active_p50_ns: sure(20e6),
            active_p95_ns: sure(40e6),
            inactive_p50_ns: sure(4e6),
            inactive_p95_ns: sure(12e6),
            ..Vcpu::default()
        }
    };
    let pairs = (0..nr_vcpus / 2).map(|pair| vec![2 * pair, 2 * pair + 1]);
    VcpuSnapshot {
        vcpus: (0..nr_vcpus).map(vcpu).collect(),
        topology: Topology {
            cores: pairs.map(|members| Group { members, confidence: 0.9 }).collect(),
            ..Topology::default()
        },
        effective_vcpus: sure(f64::from(nr_vcpus) * 0.9),
        source: "simulated".into(),
        ..VcpuSnapshot::default()
    }
}
