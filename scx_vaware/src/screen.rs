// SPDX-License-Identifier: GPL-2.0-only
//! What people see on the terminal, as text.

use std::fmt::Write;
use std::time::Duration;

use intf::{CLASSES, COUNTERS, OUTCOMES};
use probers::snapshot::VcpuSnapshot;
use userspace::config::Config;
use userspace::kernel;
use userspace::policy::POLICIES;
use userspace::scheduler::Scheduler;
use userspace::stats::{Stats, VcpuStats, wait_quantile_us, waits_of_all_classes};
use userspace::trials::Trial;

/// Add a line to a text, which cannot fail.
macro_rules! line {
    ($text:ident, $($arguments:tt)*) => {
        let _ = writeln!($text, $($arguments)*);
    };
}

/// One screen: what was found, and what is on.
pub fn start(scheduler: &Scheduler, config: &Config) -> String {
    let mut text = String::new();
    let vcpus = scheduler.vcpus();
    let announced = scheduler.announced();
    line!(text, "scx_vaware: enabled");
    line!(text, "  kernel      {}, tick {} ms", kernel::release(), kernel::tick_ns() / 1_000_000);
    line!(text, "  hypervisor  {}", announced.hypervisor.name());
    line!(text, "  vCPUs       {} online of {}", vcpus.online.len(), vcpus.possible.len());
    line!(text, "  stolen time {}", scheduler.steal_source());
    line!(text, "  wait bound  {} ms", config.wait_bound.as_millis());
    let tasks = if config.partial { "those that ask for SCHED_EXT" } else { "all normal ones" };
    line!(text, "  tasks       {tasks}");
    for policy in POLICIES {
        let state = if config.policies.has(&policy) { "on " } else { "off" };
        line!(text, "  {:<11} {state}  {}", policy.name, policy.purpose);
    }
    line!(text, "Ctrl-C ends it and brings the kernel's own scheduler back.");
    text
}

/// What the vCPUs are worth; nothing if probing does not tell.
pub fn worth(found: &VcpuSnapshot) -> String {
    let Some(effective) = found.effective_vcpus else { return String::new() };
    let online = found.vcpus.iter().filter(|vcpu| vcpu.online).count();
    let stragglers: Vec<_> = found.stragglers().collect();
    format!("worth {:.1} of {online} vCPUs  stragglers {stragglers:?}\n", effective.value)
}

/// What happened within `elapsed`: one line, and one for each vCPU on request.
pub fn stats(delta: &Stats, elapsed: Duration, per_vcpu: bool) -> String {
    let mut text = String::new();
    let total = delta.total();
    let vcpus = delta.vcpus.len().max(1) as f64;
    line!(
        text,
        "busy {:3.0} %  stolen {:3.0} %  switches {:7.0}/s  kicks {:6.0}/s  wait p50 {} p99 {}  \
         lock waits over 1 ms {}",
        percent(total.run_ns.iter().sum(), elapsed) / vcpus,
        percent(total.stolen_ns, elapsed) / vcpus,
        rate(total.switches, elapsed),
        rate(total.counters[intf::VAWARE_KICKS as usize], elapsed),
        wait(&total, 0.5),
        wait(&total, 0.99),
        total.counters[intf::VAWARE_LOCK_WAITS_LONG as usize],
    );
    if !per_vcpu {
        return text;
    }
    line!(
        text,
        "  {:>4} {:>6} {:>7} {:>10} {:>9} {:>9} {:>8} {:>8} {:>8}",
        "vCPU",
        "busy",
        "stolen",
        "switches/s",
        "wait p50",
        "wait p99",
        "stolen<",
        "preempt",
        "keep"
    );
    for (number, vcpu) in delta.vcpus.iter().enumerate() {
        line!(
            text,
            "  {number:>4} {:>4.0} % {:>5.0} % {:>10.0} {:>9} {:>9} {:>8} {:>8} {:>8}",
            percent(vcpu.run_ns.iter().sum(), elapsed),
            percent(vcpu.stolen_ns, elapsed),
            rate(vcpu.switches, elapsed),
            wait(vcpu, 0.5),
            wait(vcpu, 0.99),
            vcpu.counters[intf::VAWARE_DISPATCH_STEAL as usize]
                + vcpu.counters[intf::VAWARE_DISPATCH_BALANCE as usize],
            vcpu.counters[intf::VAWARE_PREEMPT_HERE as usize]
                + vcpu.counters[intf::VAWARE_PREEMPT_REMOTE as usize],
            vcpu.counters[intf::VAWARE_DISPATCH_KEEP as usize],
        );
    }
    text
}

/// The sums since load: the counters that moved, and the waits by class.
pub fn end(total: &VcpuStats, trials: &[Trial]) -> String {
    let mut text = String::new();
    line!(text, "scx_vaware: disabled, the kernel's own scheduler is back");
    for (name, value) in COUNTERS.iter().zip(total.counters).filter(|(_, value)| *value > 0) {
        line!(text, "  {name:<17} {value:>12}");
    }
    for (class, name) in CLASSES.iter().enumerate() {
        let histogram = &total.wait_hist[class];
        let (Some(p50), Some(p99)) =
            (wait_quantile_us(histogram, 0.5), wait_quantile_us(histogram, 0.99))
        else {
            continue;
        };
        line!(
            text,
            "  waits of class {name}: {} of them, p50 {}, p99 {}, longest {}",
            histogram.iter().sum::<u64>(),
            micros(p50),
            micros(p99),
            micros(total.wait_max_ns[class] / 1000),
        );
    }
    line!(
        text,
        "  waits of tasks that bvs placed: {} foreseen, {} in fact",
        micros(total.bvs_predicted_ns / 1000),
        micros(total.bvs_actual_ns / 1000),
    );
    for trial in trials {
        let gains = OUTCOMES.iter().zip(trial.outcomes).filter_map(|(outcome, seen)| {
            Some(format!(", {outcome} {:.2} times as good", seen.gain_ratio?))
        });
        let gains: String = gains.collect();
        if !gains.is_empty() {
            line!(
                text,
                "  {}, in epochs with and without it: {}{gains}",
                trial.policy,
                trial.verdict
            );
        }
    }
    line!(text, "  longest spinlock wait over 1 ms: {}", micros(total.lock_wait_max_ns / 1000));
    text
}

fn percent(ns: u64, elapsed: Duration) -> f64 {
    ns as f64 * 100.0 / elapsed.as_nanos().max(1) as f64
}

fn rate(events: u64, elapsed: Duration) -> f64 {
    events as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// The quantile of a wait histogram, for people: its bucket's upper bound.
fn wait(stats: &VcpuStats, quantile: f64) -> String {
    wait_quantile_us(&waits_of_all_classes(stats), quantile)
        .map_or("-".into(), |us| format!("<{}", micros(us)))
}

fn micros(us: u64) -> String {
    match us {
        0..10_000 => format!("{us}us"),
        10_000..10_000_000 => format!("{}ms", us / 1000),
        _ => format!("{}s", us / 1_000_000),
    }
}
