// SPDX-License-Identifier: GPL-2.0-only
//! Metrics for Prometheus: a [`Sample`] in, a page of text out. Nothing here reads a map or a file.
//!
//! Names and units follow <https://prometheus.io/docs/practices/naming/>. No label has more values
//! than there are vCPUs, or than cgroups are shown, and a page never has more than [`MAX_SERIES`] series.

mod cgroups;
mod cost;
mod health;
mod page;
mod policies;
mod scheduling;
mod vcpus;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::activity::Activity;
use crate::bans::Bans;
use crate::cgroups::Cgroup;
use crate::config::Config;
use crate::health::Report;
use crate::stats::Stats;
use crate::trials::Trial;
use page::Page;
use probers::hypervisor::Announced;
use probers::snapshot::VcpuSnapshot;
use probers::vcpus::Vcpus;

/// The most series that a page may have: those of 1024 vCPUs. Where all families do not fit, those of single vCPUs are
/// left out whole, the least important first, so that no series comes and goes.
pub const MAX_SERIES: usize = 18_000;

const PREFIX: &str = "scx_vaware";

const NS_PER_S: f64 = 1e9;

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, for those who ask for it.
    OpenMetrics,
    /// The text format that all versions of Prometheus and its tools read.
    Classic,
}

impl Format {
    /// The better one of those that an HTTP `Accept` header names.
    pub fn accepted(header: &str) -> Self {
        if header.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// The HTTP content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What is known at the time of a scrape.
#[derive(Clone, Debug)]
pub struct Sample {
    pub config: Config,
    pub vcpus: Vcpus,
    pub announced: Announced,
    /// The daemon and sched_ext.
    pub health: Report,
    /// The kernel half's counters; `None` while it is not loaded.
    pub stats: Option<Stats>,
    /// What was found out about each policy; empty while the kernel half is not loaded.
    pub trials: Vec<Trial>,
    /// The cgroups whose tasks waited longest; empty where no cgroup has a weight, limit or `cpu.idle`.
    pub cgroups: Vec<Cgroup>,
    /// What the vCPUs have been doing, by number; empty while the kernel half is not loaded.
    pub activity: Vec<Activity>,
    pub bans: Bans,
    /// What probing has found, unless that is stale.
    pub snapshot: Option<Arc<VcpuSnapshot>>,
    /// The kernel's own counts of events that sched_ext handled, by the kernel's names.
    pub kernel_events: Vec<(String, u64)>,
    pub cost: Cost,
}

/// What the daemon and the kernel half use themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Processor time of the daemon.
    pub cpu: Duration,
    /// When the daemon was started, since the epoch.
    pub started: Duration,
    pub resident_bytes: u64,
    /// How long the last scrape took.
    pub last_scrape: Duration,
    /// Run time and runs of each program of the kernel half, where `kernel.bpf_stats_enabled` is set.
    pub programs: Vec<(String, Duration, u64)>,
}

/// Write `sample` as a page.
pub fn render(sample: Sample, format: Format) -> String {
    let mut registry = Registry::default();
    let sample = Arc::new(sample);
    registry
        .sub_registry_with_prefix(PREFIX)
        .register_collector(Box::new(Own(Arc::clone(&sample))));
    registry.register_collector(Box::new(Process(sample)));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut text, &registry);
    match format {
        Format::OpenMetrics => text,
        Format::Classic => classic(&text),
    }
}

/// Everything whose name begins with the project's.
#[derive(Debug)]
struct Own(Arc<Sample>);

impl Collector for Own {
    fn encode(&self, encoder: DescriptorEncoder) -> std::fmt::Result {
        let Self(sample) = self;
        let mut page = Page::new(encoder, MAX_SERIES);
        health::encode(sample, &mut page)?;
        scheduling::encode(sample, &mut page)?;
        policies::encode(sample, &mut page)?;
        cgroups::encode(sample, &mut page)?;
        cost::encode(sample, &mut page)?;
        vcpus::encode(sample, &mut page)?;
        page.finish()
    }
}

/// What every program's client library exports, under the names that dashboards know.
#[derive(Debug)]
struct Process(Arc<Sample>);

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder) -> std::fmt::Result {
        cost::encode_process(&self.0, &mut Page::new(encoder, MAX_SERIES))
    }
}

/// The text format from before OpenMetrics, in which counters are declared with their suffix, and
/// which knows neither infos nor units nor an end.
fn classic(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            help = line;
            continue;
        }
        let Some(declared) = line.strip_prefix("# TYPE ") else {
            if !line.starts_with('#') {
                page.push_str(line);
                page.push('\n');
            }
            continue;
        };
        let (name, kind) = declared.split_once(' ').unwrap_or((declared, "untyped"));
        let (suffix, kind) = match kind {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            other => ("", other),
        };
        let described = help.strip_prefix("# HELP ").unwrap_or_default();
        let described = described.strip_prefix(name).unwrap_or_default();
        page.push_str(&format!("# HELP {name}{suffix}{described}\n# TYPE {name}{suffix} {kind}\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scrape::Scrape;
    use crate::simulated::sample;

    #[test]
    fn a_page_has_what_its_sample_says() {
        let page = render(sample(4), Format::OpenMetrics);
        for line in [
            "scx_vaware_state{state=\"running\"} 1.0",
            "scx_vaware_state{state=\"starting\"} 0.0",
            "scx_vaware_vcpus{state=\"online\"} 4.0",
            "scx_vaware_vcpus{state=\"offline\"} 0.0",
            "scx_vaware_policy_verdict{policy=\"ivh\",verdict=\"wins\"} 1.0",
            "scx_vaware_policy_verdict{policy=\"ivh\",verdict=\"open\"} 0.0",
            "scx_vaware_kicks_total 4006.0",
            "scx_vaware_cgroup_held_seconds_total{cgroup=\"/kubepods/pod1\"} 2.0",
            "# UNIT scx_vaware_vcpu_steal_seconds seconds",
            "scx_vaware_vcpu_steal_seconds_total{cpu=\"2\",state=\"waking\"} 20.0",
            "scx_vaware_vcpu_preemptions_total{cpu=\"2\"} 40002.0",
            "scx_vaware_vcpu_banned{cpu=\"0\"} 0.0",
            "scx_vaware_stolen_by_clock_seconds_total 1200.0",
            "# EOF",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn typical_periods_are_those_that_the_scheduler_saw_and_else_those_of_the_probes() {
        let mut seen = sample(2);
        seen.activity[1].inactive_typical = None;
        let page = render(seen, Format::Classic);
        for line in [
            "scx_vaware_vcpu_inactive_typical_seconds{cpu=\"0\"} 0.016",
            "scx_vaware_vcpu_inactive_typical_seconds{cpu=\"1\"} 0.004",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn the_older_format_declares_counters_by_the_names_that_follow() {
        let page = render(sample(2), Format::Classic);
        let mut declared = String::new();
        for line in page.lines() {
            assert!(!line.starts_with("# UNIT") && line != "# EOF", "{line}");
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                declared = rest.split(' ').next().unwrap_or_default().into();
            } else if !line.starts_with('#') {
                assert!(line.starts_with(&declared), "{line} after the type of {declared}");
            }
        }
        assert!(page.contains("# TYPE scx_vaware_vcpu_switches_total counter\n"));
    }

    #[test]
    fn the_number_of_series_is_bounded_and_told() {
        for vcpus in [1, 64, 1024, 4096] {
            let page = render(sample(vcpus), Format::Classic);
            let series = page.lines().filter(|line| !line.starts_with('#')).count();
            assert!(series <= MAX_SERIES + 2, "{series} at {vcpus} vCPUs");
            let told = page.lines().find_map(|l| l.strip_prefix("scx_vaware_series_left_out "));
            let left_out: f64 = told.and_then(|text| text.parse().ok()).unwrap_or(-1.0);
            assert_eq!(left_out > 0.0, vcpus > 1024, "{left_out} left out at {vcpus} vCPUs");
        }
    }

    proptest! {
        #[test]
        fn any_counters_of_the_kernel_half_give_a_page(
            words in proptest::collection::vec(
                prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), any::<u64>()], 8),
            seconds in prop_oneof![Just(u64::MAX / 1_000_000_000), 0..1u64 << 40],
            event in any::<String>(), count: u64,
        ) {
            let mut extreme = sample(2);
            let mut words = words.into_iter().cycle();
            for vcpu in extreme.stats.iter_mut().flat_map(|stats| &mut stats.vcpus) {
                vcpu.counters.fill_with(|| words.next().unwrap_or(0));
                vcpu.wait_hist.iter_mut().for_each(|w| w.fill_with(|| words.next().unwrap_or(0)));
                vcpu.wait_ns.fill_with(|| words.next().unwrap_or(0));
                vcpu.run_ns.fill_with(|| words.next().unwrap_or(0));
                (vcpu.stolen_ns, vcpu.switches) = (u64::MAX, words.next().unwrap_or(0));
            }
            for activity in &mut extreme.activity {
                activity.idle = Duration::from_secs(seconds);
                activity.stolen_by_beats = Duration::from_secs(seconds);
            }
            extreme.kernel_events = vec![(event, count)];
            let page = render(extreme, Format::Classic);
            let read = Scrape::parse(&page);
            prop_assert_eq!(read.family("scx_vaware_kernel_events_total").len(), 1);
            prop_assert_eq!(read.family("scx_vaware_vcpu_run_seconds_total").len(), 2);
            prop_assert!(!page.contains("NaN"));
        }
    }

    #[test]
    fn no_series_is_written_twice() {
        let page = render(sample(8), Format::Classic);
        let mut names: Vec<_> = page
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' ').map(|(name, _)| name))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn without_a_scheduler_the_page_still_tells_the_state() {
        let mut stopped = sample(2);
        (stopped.stats, stopped.activity) = (None, Vec::new());
        stopped.snapshot = None;
        let page = render(stopped, Format::Classic);
        assert!(page.contains("scx_vaware_state{") && !page.contains("decisions_total"));
    }
}
