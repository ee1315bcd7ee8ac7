// SPDX-License-Identifier: GPL-2.0-only
//! vtop's own plan (probers) on the twin's hosts: which groups it finds, and with how many probes. What a
//! probe of two vCPUs shows follows from where the host lets them run; no time passes.

use std::collections::HashMap;
use std::fmt::Write;

use probers::snapshot::Group;
use probers::vtop::plan::Cost;
use probers::vtop::prober::Prober;
use probers::vtop::readings::{LatencySource, Pair, Patience, Reading};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::guest::vcpu::VcpuId;
use crate::host::{Distance, Host, HostConfig, PcpuId, Thread, ThreadKind};

/// One-way latencies of a cache line in ns, of the 10th and the 90th percentile of pairs.
type Range = (f64, f64);

/// What the latencies are taken from: a machine in probers/tests/data/core-to-core.
#[derive(Debug)]
pub struct Machine {
    pub name: &'static str,
    sockets_min: usize,
    /// Cores of a socket and of a last-level cache, at most.
    socket_cores: usize,
    llc_cores: usize,
    core_ns: Range,
    llc_ns: Range,
    far_ns: Range,
}

pub const MACHINES: [Machine; 2] = [
    // amd-epyc-7r13: one socket, as its two lie no farther apart than the caches of one.
    Machine {
        name: "EPYC 7R13",
        sockets_min: 1,
        socket_cores: usize::MAX,
        llc_cores: 8,
        core_ns: (9.8, 9.8),
        llc_ns: (20.8, 24.9),
        far_ns: (98.2, 203.2),
    },
    // intel-r-xeon-r-platinum-8375c, with as many sockets as it takes, of up to twice its cores.
    Machine {
        name: "Xeon 8375C",
        sockets_min: 2,
        socket_cores: 64,
        llc_cores: usize::MAX,
        core_ns: (8.0, 8.2),
        llc_ns: (46.0, 56.4),
        far_ns: (103.3, 112.0),
    },
];

/// How vCPUs lie on hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One on each, in order.
    Pinned,
    /// Two on each: n, and n plus half of their number.
    Stacked,
    /// One on each in any order, but one in eight on that of another.
    Strewn,
    /// All on all.
    Floating,
    /// As strewn, but one in eight floats over the cores of a cache.
    Mixed,
}

impl Placement {
    pub const ALL: [Self; 5] =
        [Self::Pinned, Self::Stacked, Self::Strewn, Self::Floating, Self::Mixed];
}

/// What two passes found, the first without any knowledge, the second with the first one's.
#[derive(Debug)]
pub struct Found {
    pub first: Cost,
    pub second: Cost,
    /// After both, by level.
    pub wrong: [Wrong; 4],
}

/// How many vCPUs are in another group than in truth.
#[derive(Debug)]
pub struct Wrong {
    pub level: &'static str,
    pub vcpus: usize,
    /// Those of them in a group that is sure enough for the daemon to act on.
    pub sure: usize,
}

/// Probe as the daemon does.
pub fn probe(machine: &Machine, vcpus: usize, placement: Placement, seed: u64) -> Found {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let host = host(machine, vcpus, placement, &mut random);
    let truth = truth(&host);
    let mut prober = Prober::new(Source { host, machine, random }, (0..vcpus as u32).collect());
    let (first, second) = (prober.validate(), prober.validate());
    let [stack, core, llc, socket] = second.topology.levels();
    let wrong = [(stack, truth.0), (core, truth.1), (llc, truth.2), (socket, truth.3)]
        .map(|((level, groups), truth)| wrong(level, groups, &truth));
    Found { first: first.cost, second: second.cost, wrong }
}

fn below(random: &mut ChaCha8Rng, n: usize) -> usize {
    (random.next_u64() % n.max(1) as u64) as usize
}

/// A host that is as large as the vCPUs need, and they as its threads.
fn host(machine: &Machine, vcpus: usize, placement: Placement, random: &mut ChaCha8Rng) -> Host {
    let threads = if placement == Placement::Stacked { vcpus / 2 } else { vcpus };
    let cores = threads.div_ceil(2);
    let sockets = cores.div_ceil(machine.socket_cores).max(machine.sockets_min);
    // No host is so small that it has but one of what is largest.
    let llc_cores = cores.div_ceil(sockets.max(2)).min(machine.llc_cores);
    let llcs = cores.div_ceil(sockets * llc_cores);
    let mut host = Host::new(HostConfig::default(), sockets, llcs, llc_cores, 2);
    let mut places: Vec<PcpuId> = (0..vcpus).map(|v| v % threads).collect();
    if matches!(placement, Placement::Strewn | Placement::Mixed) {
        for v in (1..vcpus).rev() {
            places.swap(v, below(random, v + 1));
        }
        for v in (0..vcpus).step_by(8) {
            places[v] = places[below(random, vcpus)];
        }
    }
    let one_llc = |p: &PcpuId, q: &PcpuId| host.pcpus[*p].llc == host.pcpus[*q].llc;
    for (v, place) in places.into_iter().enumerate() {
        let all = 0..host.pcpus.len();
        let allowed = match placement {
            Placement::Floating => all.collect(),
            Placement::Mixed if v % 8 == 4 => all.filter(|p| one_llc(p, &place)).collect(),
            _ => vec![place],
        };
        host.threads.push(Thread::new(ThreadKind::Vcpu(v), allowed));
    }
    host
}

/// By level, from the closest: for each vCPU a number that it shares with those that never leave the same
/// place. One that does has a number of its own.
fn truth(host: &Host) -> (Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>) {
    let core = |p: PcpuId| host.pcpus[p].sibling.map_or(p, |sibling| sibling.min(p));
    let by = |unit: &dyn Fn(PcpuId) -> usize| {
        let of = |(v, thread): (VcpuId, &Thread)| {
            let home = unit(thread.allowed[0]);
            let stays = thread.allowed.iter().all(|p| unit(*p) == home);
            if stays { home } else { host.pcpus.len() + v }
        };
        host.threads.iter().enumerate().map(of).collect()
    };
    (by(&|p| p), by(&core), by(&|p| host.pcpus[p].llc), by(&|p| host.pcpus[p].socket))
}

/// How many vCPUs are not with just those that they are with in truth.
fn wrong(name: &'static str, groups: &[Group], truth: &[usize]) -> Wrong {
    let mut found: Vec<usize> = (groups.len()..groups.len() + truth.len()).collect();
    for (number, group) in groups.iter().enumerate() {
        group.members.iter().for_each(|v| found[*v as usize] = number);
    }
    // A vCPU is right if its group, its true one and what both have in common are of one size.
    let mut sizes = HashMap::new();
    let keys = |v: usize| {
        [(Some(found[v]), None), (None, Some(truth[v])), (Some(found[v]), Some(truth[v]))]
    };
    for key in (0..truth.len()).flat_map(keys) {
        *sizes.entry(key).or_insert(0) += 1;
    }
    let is_wrong = |v: &usize| keys(*v).iter().any(|key| sizes[key] != sizes[&keys(*v)[2]]);
    let is_sure = |v: &usize| groups.get(found[*v]).is_some_and(Group::is_trusted);
    let vcpus: Vec<usize> = (0..truth.len()).filter(is_wrong).collect();
    Wrong { level: name, vcpus: vcpus.len(), sure: vcpus.into_iter().filter(is_sure).count() }
}

/// What two vCPUs that play against each other see.
struct Source<'a> {
    host: Host,
    machine: &'a Machine,
    random: ChaCha8Rng,
}

impl Source<'_> {
    /// Let these vCPUs run, and no others. Returns where, without those that take turns with another.
    fn wake(&mut self, vcpus: &[VcpuId]) -> HashMap<VcpuId, PcpuId> {
        for pcpu in &mut self.host.pcpus {
            pcpu.curr = None;
            pcpu.queue.clear();
        }
        let mut at = HashMap::new();
        for v in vcpus {
            let p = self.host.choose_pcpu(*v);
            let pcpu = &mut self.host.pcpus[p];
            match pcpu.curr {
                None => pcpu.curr = Some(*v),
                Some(_) => pcpu.queue.push(*v),
            }
            at.insert(*v, p);
        }
        at.retain(|_, p| self.host.pcpus[*p].queue.is_empty());
        at
    }

    /// The latency of a pair, if both run.
    fn latency(&mut self, at: &HashMap<VcpuId, PcpuId>, (a, b): Pair) -> Option<Reading> {
        let (low, high) = match self.host.distance(*at.get(&a)?, *at.get(&b)?) {
            Distance::Same => self.machine.core_ns,
            Distance::Llc => self.machine.llc_ns,
            Distance::Far => self.machine.far_ns,
        };
        let part = below(&mut self.random, 1 << 20) as f64 / f64::from(1 << 20);
        Some(Reading::Latency { ns: low + (high - low) * part })
    }
}

impl LatencySource for Source<'_> {
    fn probe(&mut self, pairs: &[Pair], _: Patience) -> Vec<Reading> {
        let vcpus: Vec<VcpuId> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
        for v in &vcpus {
            // Where a vCPU that floats was last is the host's business.
            let thread = &mut self.host.threads[*v];
            thread.last_pcpu = thread.allowed[below(&mut self.random, thread.allowed.len())];
        }
        let together = self.wake(&vcpus);
        let reading = |pair: &Pair| {
            self.latency(&together, *pair).or_else(|| {
                let alone = self.wake(&[pair.0, pair.1]);
                self.latency(&alone, *pair)
            })
        };
        // How sure a stack is grows with time, of which there is none here.
        let stacked = Reading::NeverTogether { confidence: 1.0 };
        pairs.iter().map(reading).map(|reading| reading.unwrap_or(stacked)).collect()
    }
}

/// A table in Markdown.
pub fn table() -> String {
    let mut out = String::from(
        "| latencies of | vCPUs | placement | first pass: probes, a vCPU, rounds | second pass: probes, \
         a vCPU, rounds | vCPUs in a wrong group (sure of it) |\n|---|---|---|---|---|---|\n",
    );
    for machine in &MACHINES {
        for placement in Placement::ALL {
            for vcpus in [12, 32, 128, 512, 1024] {
                let Found { first, second, wrong } = probe(machine, vcpus, placement, 1);
                let a_vcpu = |cost: Cost| cost.probes as f64 / vcpus as f64;
                let wrong: Vec<String> = wrong
                    .iter()
                    .filter(|wrong| wrong.vcpus > 0)
                    .map(|wrong| format!("{} {} ({})", wrong.level, wrong.vcpus, wrong.sure))
                    .collect();
                let _ = writeln!(
                    out,
                    "| {} | {vcpus} | {placement:?} | {}, {:.1}, {} | {}, {:.1}, {} | {} |",
                    machine.name,
                    first.probes,
                    a_vcpu(first),
                    first.rounds,
                    second.probes,
                    a_vcpu(second),
                    second.rounds,
                    if wrong.is_empty() { "none".into() } else { wrong.join(", ") },
                );
            }
        }
    }
    out
}
