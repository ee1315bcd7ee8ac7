// SPDX-License-Identifier: GPL-2.0-only
//! What happened between two pages of metrics: the VM as a whole, and each vCPU. Rates are those of
//! the time between the pages.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use userspace::scrape::{Labels, Scrape};

/// Grows when a field changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// A VM in the time between two pages. The fields are the keys of `--format json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Vm {
    pub schema_version: u32,
    /// When the newer page was read, since the epoch.
    pub taken_at_unix_s: f64,
    /// Time between the two pages.
    pub interval_s: f64,
    pub state: String,
    pub hypervisor: String,
    /// Time since the daemon was started.
    pub daemon_age_s: f64,
    pub online_vcpus: f64,
    pub effective_vcpus: Option<f64>,
    pub banned_vcpus: f64,
    pub straggler_vcpus: f64,
    pub stacked_vcpus: f64,
    /// vCPUs' worth of time: 1 is one vCPU all of the time.
    pub busy_vcpus: f64,
    pub stolen_vcpus: f64,
    pub switches_per_s: f64,
    pub kicks_per_s: f64,
    /// Upper bounds of the buckets in which the quantiles of the runqueue wait lie.
    pub wait_p50_s: Option<f64>,
    pub wait_p99_s: Option<f64>,
    /// The policies that are on, with the verdict of those that have a trial.
    pub policies: Vec<Policy>,
    pub restarts: f64,
    pub ejections: f64,
    pub pauses: f64,
    pub vcpus: Vec<Vcpu>,
}

/// A policy that is on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    pub name: String,
    pub verdict: Option<String>,
}

/// One vCPU. The fields are the keys of `--format json` and the columns of `--format csv`. What is
/// not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Vcpu {
    /// The kernel's number.
    pub cpu: u32,
    /// Parts of the time: running tasks; stolen from them; stolen while it woke up; idle.
    pub busy_ratio: f64,
    pub stolen_ratio: f64,
    pub waking_stolen_ratio: f64,
    pub idle_ratio: f64,
    pub preemptions_per_s: f64,
    /// Median lengths of its preempted and active periods.
    pub inactive_typical_s: Option<f64>,
    pub active_typical_s: Option<f64>,
    pub switches_per_s: f64,
    /// Mean wait of the tasks that it has run; `None` if it has run none.
    pub wait_s: Option<f64>,
    pub capacity_ratio: Option<f64>,
    pub share_ratio: Option<f64>,
    pub speed_ratio: Option<f64>,
    pub wakeup_latency_s: Option<f64>,
    pub banned: bool,
    pub straggler: bool,
    /// Groups, each named by its lowest vCPU.
    pub stack: Option<u32>,
    pub core: Option<u32>,
    pub llc: Option<u32>,
    pub socket: Option<u32>,
}

impl Vm {
    /// What happened from `before` to `now`.
    pub fn between(before: &Scrape, now: &Scrape) -> Self {
        let seconds = (now.at - before.at).as_secs_f64().max(1e-9);
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64();
        // Counters begin anew when the scheduler is loaded again.
        let rate = |name: &str, labels: &[(&str, &str)]| {
            ((now.sum(name, labels) - before.sum(name, labels)) / seconds).max(0.0)
        };
        let gauge = |name: &str| now.value(name, &[]);
        let started = gauge("process_start_time_seconds").unwrap_or(since_epoch);
        let info = now.family("scx_vaware_vm_info").first();
        let waits = Waits::between(before, now);
        Self {
            schema_version: SCHEMA_VERSION,
            taken_at_unix_s: since_epoch - now.at.elapsed().as_secs_f64(),
            interval_s: seconds,
            state: label_of_the_present(now.family("scx_vaware_state"), "state")
                .unwrap_or_else(|| "unknown".into()),
            hypervisor: info
                .and_then(|(labels, _)| labels.get("hypervisor"))
                .map_or_else(|| "unknown".into(), Clone::clone),
            daemon_age_s: (since_epoch - started).max(0.0),
            online_vcpus: now.sum("scx_vaware_vcpus", &[("state", "online")]),
            effective_vcpus: gauge("scx_vaware_effective_vcpus"),
            banned_vcpus: gauge("scx_vaware_banned_vcpus").unwrap_or(0.0),
            straggler_vcpus: gauge("scx_vaware_straggler_vcpus").unwrap_or(0.0),
            stacked_vcpus: gauge("scx_vaware_stacked_vcpus").unwrap_or(0.0),
            busy_vcpus: rate("scx_vaware_vcpu_run_seconds_total", &[]),
            stolen_vcpus: rate("scx_vaware_vcpu_steal_seconds_total", &[("state", "running")]),
            switches_per_s: rate("scx_vaware_switches_total", &[]),
            kicks_per_s: rate("scx_vaware_kicks_total", &[]),
            wait_p50_s: waits.quantile(0.5),
            wait_p99_s: waits.quantile(0.99),
            policies: policies(now),
            restarts: now.sum("scx_vaware_restarts_total", &[]),
            ejections: now.sum("scx_vaware_ejections_total", &[]),
            pauses: now.sum("scx_vaware_vm_pauses_total", &[]),
            vcpus: vcpus(before, now, seconds),
        }
    }
}

/// The value of a label in the series that is 1.
fn label_of_the_present(family: &[(Labels, f64)], label: &str) -> Option<String> {
    family.iter().find(|(_, value)| *value == 1.0)?.0.get(label).cloned()
}

fn policies(now: &Scrape) -> Vec<Policy> {
    let verdicts = now.family("scx_vaware_policy_verdict");
    let on = now.family("scx_vaware_policy_enabled").iter().filter(|(_, value)| *value == 1.0);
    let policy = |labels: &Labels| {
        let name = labels.get("policy")?;
        let ours = verdicts.iter().filter(|(labels, _)| labels.get("policy") == Some(name));
        let verdict = label_of_the_present(&ours.cloned().collect::<Vec<_>>(), "verdict");
        Some(Policy { name: name.clone(), verdict })
    };
    on.filter_map(|(labels, _)| policy(labels)).collect()
}

/// Waits that ended between two pages, of all classes: how many were at most so long, by that bound.
struct Waits(Vec<(f64, f64)>);

impl Waits {
    fn between(before: &Scrape, now: &Scrape) -> Self {
        let by_bound = |scrape: &Scrape| {
            let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
            for (labels, count) in scrape.family("scx_vaware_runqueue_wait_seconds_bucket") {
                let bound = labels.get("le").and_then(|bound| bound.parse::<f64>().ok());
                // Bounds are not negative: their bits are in the order of their values.
                let Some(bound) = bound.filter(|bound| *bound >= 0.0) else { continue };
                *counts.entry(bound.to_bits()).or_default() += count;
            }
            counts
        };
        let before = by_bound(before);
        let ended = by_bound(now).into_iter().map(|(bound, count)| {
            let old = before.get(&bound).copied().unwrap_or(0.0);
            (f64::from_bits(bound), (count - old).max(0.0))
        });
        Self(ended.collect())
    }

    fn quantile(&self, quantile: f64) -> Option<f64> {
        let (_, all) = self.0.last().filter(|(_, all)| *all > 0.0)?;
        self.0.iter().find(|(_, count)| *count >= all * quantile).map(|(bound, _)| *bound)
    }
}

/// The series of a family by vCPU.
type ByVcpu = BTreeMap<u32, f64>;

fn by_vcpu(scrape: &Scrape, name: &str, state: Option<&str>) -> ByVcpu {
    let wanted =
        |labels: &Labels| state.is_none_or(|s| labels.get("state").is_some_and(|l| l == s));
    let family = scrape.family(name).iter().filter(|(labels, _)| wanted(labels));
    family.filter_map(|(labels, value)| Some((labels.get("cpu")?.parse().ok()?, *value))).collect()
}

fn vcpus(before: &Scrape, now: &Scrape, seconds: f64) -> Vec<Vcpu> {
    let rates = |name: &str, state: Option<&str>| {
        let old = by_vcpu(before, name, state);
        let mut rates = by_vcpu(now, name, state);
        for (cpu, value) in &mut rates {
            *value = ((*value - old.get(cpu).copied().unwrap_or(0.0)) / seconds).max(0.0);
        }
        rates
    };
    let seconds_of = |what: &str| rates(&format!("scx_vaware_vcpu_{what}_seconds_total"), None);
    let steal = |state: &str| rates("scx_vaware_vcpu_steal_seconds_total", Some(state));
    let gauges = |what: &str| by_vcpu(now, &format!("scx_vaware_vcpu_{what}"), None);
    let (run, wait, idle) = (seconds_of("run"), seconds_of("wait"), seconds_of("idle"));
    let (stolen, waking) = (steal("running"), steal("waking"));
    let preemptions = rates("scx_vaware_vcpu_preemptions_total", None);
    let switches = rates("scx_vaware_vcpu_switches_total", None);
    let (inactive, active) = (gauges("inactive_typical_seconds"), gauges("active_typical_seconds"));
    let (capacity, share) = (gauges("capacity_ratio"), gauges("share_ratio"));
    let (speed, wakeup) = (gauges("speed_ratio"), gauges("wakeup_latency_seconds"));
    let (banned, straggler) = (gauges("banned"), gauges("straggler"));
    let groups: BTreeMap<u32, &Labels> = now
        .family("scx_vaware_vcpu_info")
        .iter()
        .filter_map(|(labels, _)| Some((labels.get("cpu")?.parse().ok()?, labels)))
        .collect();
    let vcpu = |&cpu: &u32| {
        let rate = |rates: &ByVcpu| rates.get(&cpu).copied().unwrap_or(0.0);
        let gauge = |gauges: &ByVcpu| gauges.get(&cpu).copied();
        let group = |level: &str| groups.get(&cpu)?.get(level)?.parse().ok();
        let switches_per_s = rate(&switches);
        Vcpu {
            cpu,
            busy_ratio: rate(&run),
            stolen_ratio: rate(&stolen),
            waking_stolen_ratio: rate(&waking),
            idle_ratio: rate(&idle),
            preemptions_per_s: rate(&preemptions),
            inactive_typical_s: gauge(&inactive),
            active_typical_s: gauge(&active),
            switches_per_s,
            wait_s: (switches_per_s > 0.0).then(|| rate(&wait) / switches_per_s),
            capacity_ratio: gauge(&capacity),
            share_ratio: gauge(&share),
            speed_ratio: gauge(&speed),
            wakeup_latency_s: gauge(&wakeup),
            banned: gauge(&banned) == Some(1.0),
            straggler: gauge(&straggler) == Some(1.0),
            stack: group("stack"),
            core: group("core"),
            llc: group("llc"),
            socket: group("socket"),
        }
    };
    // A vCPU that was never online has no switches, and no series on small pages.
    let known = by_vcpu(now, "scx_vaware_vcpu_switches_total", None);
    known.keys().map(vcpu).collect()
}

/// A time for people, such as `2h 05m`.
pub fn age(seconds: f64) -> String {
    let minutes = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs() / 60;
    match minutes {
        0..60 => format!("{minutes}m"),
        60..1440 => format!("{}h {:02}m", minutes / 60, minutes % 60),
        _ => format!("{}d {:02}h", minutes / 1440, minutes / 60 % 24),
    }
}

#[cfg(test)]
pub mod tests {
    use userspace::metrics::{Format, Sample, render};
    use userspace::simulated::{pass, sample};

    use super::*;

    /// A simulated VM over one second.
    pub fn simulated(nr_vcpus: u32) -> Vm {
        let before = sample(nr_vcpus);
        let mut now = before.clone();
        pass(&mut now, Duration::from_secs(1));
        between(before, now, Duration::from_secs(1))
    }

    fn between(before: Sample, now: Sample, apart: Duration) -> Vm {
        let before = Scrape::parse(&render(before, Format::Classic));
        let mut now = Scrape::parse(&render(now, Format::Classic));
        now.at = before.at + apart;
        Vm::between(&before, &now)
    }

    #[test]
    fn rates_are_those_of_the_time_between_the_pages() {
        let vm = simulated(4);
        assert_eq!((vm.state.as_str(), vm.hypervisor.as_str()), ("running", "KVM"));
        assert_eq!((vm.online_vcpus, vm.effective_vcpus), (4.0, Some(3.6)));
        assert!((vm.busy_vcpus - 0.06).abs() < 1e-6, "{}", vm.busy_vcpus);
        let third = &vm.vcpus[2];
        assert!((third.busy_ratio - 0.02).abs() < 1e-6 && third.switches_per_s == 100.0);
        assert!((third.stolen_ratio - 0.01).abs() < 1e-6, "{third:?}");
        assert!(third.wait_s.is_some_and(|wait| (wait - 20e-6).abs() < 1e-9), "{third:?}");
        assert_eq!((third.core, third.stack), (Some(2), Some(2)));
        assert_eq!((vm.wait_p50_s, vm.wait_p99_s), (Some(128e-6), Some(2048e-6)));
        let trial = vm.policies.iter().find(|policy| policy.name == "ivh");
        assert_eq!(trial.and_then(|policy| policy.verdict.as_deref()), Some("wins"));
    }

    #[test]
    fn a_scheduler_that_was_loaded_again_has_no_negative_rates() {
        let mut before = sample(4);
        pass(&mut before, Duration::from_secs(1));
        let vm = between(before, sample(4), Duration::from_secs(1));
        assert_eq!((vm.busy_vcpus, vm.stolen_vcpus, vm.switches_per_s), (0.0, 0.0, 0.0));
        assert!(vm.vcpus.iter().all(|vcpu| vcpu.busy_ratio == 0.0 && vcpu.wait_s.is_none()));
        assert_eq!(vm.wait_p50_s, None);
    }

    #[test]
    fn a_daemon_without_a_scheduler_has_no_vcpus_to_show() {
        let mut stopped = sample(4);
        (stopped.stats, stopped.activity, stopped.snapshot) = (None, Vec::new(), None);
        let vm = between(stopped.clone(), stopped, Duration::from_secs(1));
        assert_eq!(vm.vcpus, []);
        assert_eq!(vm.effective_vcpus, None);
    }

    #[test]
    fn ages_are_for_people() {
        assert_eq!([59.0, 3660.0, 90_000.0, f64::NAN].map(age), ["0m", "1h 01m", "1d 01h", "0m"]);
    }
}
