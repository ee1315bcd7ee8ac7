// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios: what host, which vCPUs, who competes, what the guest does. Read from TOML, checked, and
//! made into a simulation.

use serde::Deserialize;

use crate::costs::Costs;
use crate::guest::task::NewTask;
use crate::guest::{Class, GuestConfig};
use crate::host::{Group, Host, HostConfig, Load, Thread, ThreadKind};
use crate::script::Action;
use crate::sim::{MS, Ns, Sim, US};
use crate::work::spec::Work;

pub const MAX_VCPUS: usize = 1024;

/// A scenario file. Durations carry their unit in the name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it stands for, for people.
    #[serde(default)]
    pub about: String,
    pub length_ms: u64,
    /// What happens before is not counted.
    #[serde(default)]
    pub warm_up_ms: u64,
    pub guest: GuestSpec,
    #[serde(default)]
    pub host: HostSpec,
    #[serde(default)]
    pub costs: Costs,
    #[serde(default)]
    pub competitor: Vec<Competitor>,
    #[serde(default)]
    pub quota: Vec<Quota>,
    /// vCPUs that the host moves.
    #[serde(default, rename = "move")]
    pub moves: Vec<Move>,
    pub work: Vec<Work>,
    /// What runs of it are compared by; the first is the main one.
    #[serde(default)]
    pub metric: Vec<Metric>,
    /// What others measured, to put beside.
    pub reference: Option<Reference>,
}

/// A figure from a paper or from a lab VM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Where it is from.
    pub source: String,
    /// The schedulers compared there.
    pub arms: String,
    /// How much better the new one was than the old one: more than 1 is better. None: the source
    /// gives no single number.
    pub ratio: Option<f64>,
    /// Its interval, if one was given.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Which of the twin's schedulers stands for the old one; `eevdf` if not given.
    #[serde(default = "eevdf")]
    pub baseline: String,
    /// The policy of ours that does what the source measured: compared with the same without it.
    pub policy: Option<String>,
    #[serde(default)]
    pub note: String,
}

fn eevdf() -> String {
    "eevdf".into()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSpec {
    pub vcpus: usize,
    #[serde(default = "hz")]
    pub hz: u64,
    /// The hypervisor announces KVM's steal clock.
    #[serde(default)]
    pub steal_clock: bool,
    /// The kernel has CONFIG_PARAVIRT_TIME_ACCOUNTING.
    #[serde(default)]
    pub paravirt_time: bool,
    /// None, here and below: as [`GuestConfig`](crate::guest::GuestConfig) has it.
    pub wait_bound_ms: Option<u64>,
    /// The kernel can leave it to idle vCPUs to activate what wakes on them, under sched_ext as well.
    pub queued_wakeup: Option<bool>,
    /// An ideal daemon tells the scheduler what the vCPUs are.
    #[serde(default)]
    pub told: bool,
}

fn hz() -> u64 {
    250
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostSpec {
    pub sockets: usize,
    /// LLC domains of a socket.
    pub llcs: usize,
    /// Cores of an LLC domain.
    pub cores: usize,
    pub smt: usize,
    /// Let all vCPUs run anywhere; otherwise vCPU n is pinned to pCPU n, in turns.
    pub floating: bool,
    /// Which pCPUs each vCPU may run on, instead.
    pub pins: Vec<Vec<usize>>,
    pub slice_us: u64,
    pub wakeup_granularity_us: u64,
    /// Host weight of each vCPU thread; 1024, nice 0, if none are given.
    pub vcpu_weights: Vec<u64>,
    /// Speed of single pCPUs, in percent of the nominal one.
    pub speed_percent: Vec<Speed>,
    pub smt_percent: u64,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            sockets: 1,
            llcs: 1,
            cores: 1,
            smt: 1,
            floating: false,
            pins: Vec::new(),
            slice_us: 3000,
            wakeup_granularity_us: 1000,
            vcpu_weights: Vec::new(),
            speed_percent: Vec::new(),
            smt_percent: 62,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    pub pcpus: Vec<usize>,
    pub percent: u64,
}

/// A thread of the host that takes time from vCPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Competitor {
    /// One such thread on each of these pCPUs.
    pub pcpus: Vec<usize>,
    /// It may run on all of them, and there is one of it only.
    #[serde(default)]
    pub floating: bool,
    /// Together with `off_us`: it runs and sleeps in turns. Without: it always wants to run.
    pub on_us: Option<u64>,
    pub off_us: Option<u64>,
    /// When its first turn begins; each further thread that much later.
    #[serde(default)]
    pub phase_us: u64,
    /// Lengths are exponentially distributed.
    #[serde(default)]
    pub random: bool,
    #[serde(default)]
    pub realtime: bool,
    #[serde(default = "weight")]
    pub weight: u64,
}

fn weight() -> u64 {
    1024
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    pub vcpus: Vec<usize>,
    pub quota_us: u64,
    pub period_us: u64,
    /// One quota for all of them, instead of one each.
    #[serde(default)]
    pub shared: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    pub at_ms: u64,
    pub vcpu: usize,
    pub pcpus: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Stat {
    /// Sum per second: of a computing tally, the work done per second.
    Rate,
    /// Events per second.
    Count,
    Mean,
    P50,
    P95,
    P99,
    Max,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The name of a [[work]] entry.
    pub of: String,
    pub stat: Stat,
}

impl Metric {
    pub fn higher_is_better(&self) -> bool {
        matches!(self.stat, Stat::Rate | Stat::Count)
    }
}

/// Read a scenario.
///
/// # Errors
/// What is wrong with it, with line and field.
pub fn parse(text: &str) -> Result<Scenario, String> {
    let scenario: Scenario = toml::from_str(text).map_err(|error| error.to_string())?;
    check(&scenario).map_err(|(field, what)| match line_of(text, field) {
        Some(line) => format!("line {line}, field {field:?}: {what}"),
        None => format!("field {field:?}: {what}"),
    })?;
    Ok(scenario)
}

/// The first line that sets `field`.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let sets = |line: &str| {
        line.trim_start().strip_prefix(field).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().position(sets).map(|line| line + 1)
}

/// Refuse what no machine can be. Return the field and what is wrong with it.
fn check(scenario: &Scenario) -> Result<(), (&'static str, String)> {
    let (guest, host) = (&scenario.guest, &scenario.host);
    let pcpus = host.sockets * host.llcs * host.cores * host.smt;
    let positive = [
        ("length_ms", scenario.length_ms),
        ("sockets", host.sockets as u64),
        ("llcs", host.llcs as u64),
        ("cores", host.cores as u64),
        ("slice_us", host.slice_us),
    ];
    if let Some((field, _)) = positive.iter().find(|(_, value)| *value == 0) {
        return Err((field, "must be at least 1".into()));
    }
    if guest.vcpus == 0 || guest.vcpus > MAX_VCPUS {
        return Err(("vcpus", format!("{} is not from 1 to {MAX_VCPUS}", guest.vcpus)));
    }
    if !(100..=1000).contains(&guest.hz) {
        return Err(("hz", format!("{} is not from 100 to 1000", guest.hz)));
    }
    if !(1..=2).contains(&host.smt) {
        return Err(("smt", format!("a core has 1 or 2 hardware threads, not {}", host.smt)));
    }
    if pcpus > 4096 {
        return Err(("cores", format!("{pcpus} pCPUs in all; at most 4096")));
    }
    if !host.pins.is_empty() && host.pins.len() != guest.vcpus {
        return Err((
            "pins",
            format!("{} lists for {} vCPUs; give one for each", host.pins.len(), guest.vcpus),
        ));
    }
    if !host.vcpu_weights.is_empty() && host.vcpu_weights.len() != guest.vcpus {
        return Err((
            "vcpu_weights",
            format!("{} for {} vCPUs; give one for each", host.vcpu_weights.len(), guest.vcpus),
        ));
    }
    if host.vcpu_weights.contains(&0) {
        return Err(("vcpu_weights", "must be at least 1".into()));
    }
    if host.pins.iter().any(Vec::is_empty) {
        return Err(("pins", "a vCPU must be allowed at least one pCPU".into()));
    }
    let mentioned = host.pins.iter().chain(scenario.competitor.iter().map(|c| &c.pcpus));
    let mentioned = mentioned.chain(scenario.moves.iter().map(|m| &m.pcpus));
    let mentioned = mentioned.chain(host.speed_percent.iter().map(|s| &s.pcpus)).flatten();
    if let Some(p) = mentioned.copied().find(|p| *p >= pcpus) {
        return Err(("pcpus", format!("there is no pCPU {p}: the host has {pcpus}, from 0")));
    }
    let mut vcpus = scenario.quota.iter().flat_map(|quota| &quota.vcpus);
    if let Some(v) = vcpus.find(|v| **v >= guest.vcpus) {
        return Err(("vcpus", format!("a quota is for vCPU {v}, but there are {}", guest.vcpus)));
    }
    if scenario.quota.iter().any(|q| q.quota_us == 0 || q.period_us == 0) {
        return Err(("quota_us", "quota and period must be at least 1 us".into()));
    }
    if scenario.competitor.iter().any(|c| c.on_us.is_some() != c.off_us.is_some()) {
        return Err(("on_us", "on_us and off_us go together".into()));
    }
    if scenario.moves.iter().any(|m| m.vcpu >= guest.vcpus || m.pcpus.is_empty()) {
        return Err(("vcpu", format!("a move is of a vCPU from 0 to {}", guest.vcpus - 1)));
    }
    for metric in &scenario.metric {
        if !scenario.work.iter().any(|work| work.name == metric.of) {
            return Err(("of", format!("there is no [[work]] named {:?}", metric.of)));
        }
    }
    scenario.work.iter().try_for_each(|work| work.check(guest.vcpus))
}

impl Scenario {
    pub fn length_ns(&self) -> Ns {
        self.length_ms * MS
    }

    /// The simulation and its tasks.
    pub fn build(&self, class: Class, seed: u64) -> (Sim, Vec<NewTask>) {
        let mut config = GuestConfig::new(self.guest.vcpus, class);
        config.tick_ns = 1000 * MS / self.guest.hz;
        config.steal_clock = self.guest.steal_clock;
        config.paravirt_time = self.guest.paravirt_time;
        config.wait_bound_ns = self.guest.wait_bound_ms.map_or(config.wait_bound_ns, |ms| ms * MS);
        config.queued_wakeup = self.guest.queued_wakeup.unwrap_or(config.queued_wakeup);
        let mut sim = Sim::new(seed, self.costs, self.build_host(), config);
        sim.world.warm_up_ns = self.warm_up_ms * MS;
        if self.guest.told {
            sim.tell();
        }
        for change in &self.moves {
            let action = Action::Pin { thread: change.vcpu, pcpus: change.pcpus.clone() };
            sim.plan(change.at_ms * MS, action);
        }
        let mut tasks = Vec::new();
        for (process, work) in self.work.iter().enumerate() {
            tasks.extend(work.tasks(&mut sim, process));
        }
        (sim, tasks)
    }

    fn build_host(&self) -> Host {
        let spec = &self.host;
        let config = HostConfig {
            slice_ns: spec.slice_us * US,
            wakeup_granularity_ns: spec.wakeup_granularity_us * US,
            sleeper_bonus_ns: spec.slice_us * US / 2,
            smt_1024: spec.smt_percent * 1024 / 100,
            ..HostConfig::default()
        };
        let mut host = Host::new(config, spec.sockets, spec.llcs, spec.cores, spec.smt);
        let all: Vec<usize> = (0..host.pcpus.len()).collect();
        for speed in &spec.speed_percent {
            for p in &speed.pcpus {
                host.pcpus[*p].speed_1024 = speed.percent * 1024 / 100;
            }
        }
        for v in 0..self.guest.vcpus {
            let allowed = match spec.pins.get(v) {
                Some(pins) => pins.clone(),
                None if spec.floating => all.clone(),
                None => vec![v % all.len()],
            };
            let mut thread = Thread::new(ThreadKind::Vcpu(v), allowed);
            thread.weight = spec.vcpu_weights.get(v).copied().unwrap_or(weight());
            host.threads.push(thread);
        }
        for quota in &self.quota {
            for (index, v) in quota.vcpus.iter().enumerate() {
                if index == 0 || !quota.shared {
                    host.groups.push(Group {
                        quota_ns: quota.quota_us * US,
                        period_ns: quota.period_us * US,
                        left_ns: 0,
                        throttled: false,
                        r#gen: 0,
                    });
                }
                host.threads[*v].group = Some(host.groups.len() - 1);
            }
        }
        for competitor in &self.competitor {
            let places = if competitor.floating {
                vec![competitor.pcpus.clone()]
            } else {
                competitor.pcpus.iter().map(|p| vec![*p]).collect()
            };
            for (index, allowed) in places.into_iter().enumerate() {
                let phase_ns = competitor.phase_us * US * index as u64;
                let load = match (competitor.on_us, competitor.off_us) {
                    (Some(on), Some(off)) if competitor.random => {
                        Load::Random { on_ns: on * US, off_ns: off * US }
                    }
                    (Some(on), Some(off)) => {
                        Load::Duty { on_ns: on * US, off_ns: off * US, phase_ns }
                    }
                    _ => Load::Always,
                };
                let mut thread = Thread::new(ThreadKind::Competitor(load), allowed);
                thread.weight = competitor.weight;
                thread.realtime = competitor.realtime;
                host.threads.push(thread);
            }
        }
        host
    }
}
