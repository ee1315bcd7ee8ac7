// SPDX-License-Identifier: GPL-2.0-only
//! What people see on the terminal.

use std::time::Duration;

use probers::snapshot::VcpuSnapshot;
use userspace::cgroups::{CpuCgroups, first_of};
use userspace::config::Config;
use userspace::kernel;
use userspace::obstacles::KernelFacts;
use userspace::policy::POLICIES;
use userspace::scheduler::Scheduler;
use userspace::stats::{
    CLASSES, COUNTERS, Stats, VcpuStats, wait_quantile_us, waits_of_all_classes,
};

/// Print one screen: what was found, and what is on.
pub fn print_start(scheduler: &Scheduler, config: &Config) {
    let vcpus = scheduler.vcpus();
    let announced = scheduler.announced();
    println!("scx_vaware: enabled");
    println!("  kernel      {}, tick {} ms", kernel::release(), scheduler.tick_ns() / 1_000_000);
    println!("  hypervisor  {}", announced.hypervisor.name());
    println!("  vCPUs       {} online of {}", vcpus.online.len(), vcpus.possible.len());
    println!("  stolen time {}", scheduler.steal_source());
    println!("  wait bound  {} ms", config.wait_bound.as_millis());
    let tasks = if config.partial { "those that ask for SCHED_EXT" } else { "all normal ones" };
    println!("  tasks       {tasks}");
    for policy in POLICIES {
        let state = if config.policies.has(&policy) { "on " } else { "off" };
        println!("  {:<11} {state}  {}", policy.name, policy.purpose);
    }
    println!("Ctrl-C ends it and brings the kernel's own scheduler back.");
}

/// Say which of the operator's wishes sched_ext schedulers do not honour.
pub fn print_cgroups(cgroups: &CpuCgroups) {
    for (names, control) in [(&cgroups.limited, "cpu.max"), (&cgroups.weighted, "cpu.weight")] {
        if !names.is_empty() {
            eprintln!(
                "scx_vaware: note: {control} of cgroups does not hold under sched_ext: {}",
                first_of(names)
            );
        }
    }
}

/// Say what a kernel booted with `nohz_full=` loses.
pub fn print_tickless(facts: &KernelFacts) {
    if let Some(note) = facts.tickless() {
        eprintln!("scx_vaware: note: {note}");
    }
}

/// Print what the vCPUs are worth, as far as probing tells.
pub fn print_worth(found: Option<&VcpuSnapshot>) {
    let Some(found) = found else { return };
    let Some(effective) = found.effective_vcpus else { return };
    let online = found.vcpus.iter().filter(|vcpu| vcpu.online).count();
    let stragglers: Vec<_> = found.stragglers().collect();
    println!("worth {:.1} of {online} vCPUs  stragglers {stragglers:?}", effective.value);
}

/// Print what happened within `elapsed`: one line, and one for each vCPU on request.
pub fn print_stats(delta: &Stats, elapsed: Duration, per_vcpu: bool) {
    let total = delta.total();
    let vcpus = delta.vcpus.len().max(1) as f64;
    println!(
        "busy {:3.0} %  stolen {:3.0} %  switches {:7.0}/s  kicks {:6.0}/s  wait p50 {} p99 {}  \
         lock waits over 1 ms {}",
        percent(total.run_ns.iter().sum(), elapsed) / vcpus,
        percent(total.stolen_ns, elapsed) / vcpus,
        rate(total.switches, elapsed),
        rate(counter(&total, "kicks"), elapsed),
        wait(&total, 0.5),
        wait(&total, 0.99),
        counter(&total, "lock_waits_long"),
    );
    if !per_vcpu {
        return;
    }
    println!(
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
        println!(
            "  {number:>4} {:>4.0} % {:>5.0} % {:>10.0} {:>9} {:>9} {:>8} {:>8} {:>8}",
            percent(vcpu.run_ns.iter().sum(), elapsed),
            percent(vcpu.stolen_ns, elapsed),
            rate(vcpu.switches, elapsed),
            wait(vcpu, 0.5),
            wait(vcpu, 0.99),
            counter(vcpu, "dispatch_steal") + counter(vcpu, "dispatch_balance"),
            counter(vcpu, "preempt_here") + counter(vcpu, "preempt_remote"),
            counter(vcpu, "dispatch_keep"),
        );
    }
}

/// Print the sums since load: the counters that moved, and the waits by class.
pub fn print_end(total: &VcpuStats) {
    println!("scx_vaware: disabled, the kernel's own scheduler is back");
    for (name, value) in COUNTERS.iter().zip(total.counters).filter(|(_, value)| *value > 0) {
        println!("  {name:<17} {value:>12}");
    }
    for (class, name) in CLASSES.iter().enumerate() {
        let histogram = &total.wait_hist[class];
        let (Some(p50), Some(p99)) =
            (wait_quantile_us(histogram, 0.5), wait_quantile_us(histogram, 0.99))
        else {
            continue;
        };
        println!(
            "  waits of class {name}: {} of them, p50 {}, p99 {}, longest {}",
            histogram.iter().sum::<u64>(),
            micros(p50),
            micros(p99),
            micros(total.wait_max_ns[class] / 1000),
        );
    }
    println!(
        "  waits of tasks that bvs placed: {} foreseen, {} in fact",
        micros(total.bvs_predicted_ns / 1000),
        micros(total.bvs_actual_ns / 1000),
    );
    let ivh = |on: usize| match total.ivh_wall_ns[on] {
        0 => "none".into(),
        wall_ns => format!(
            "{:.0} % of {}",
            total.ivh_run_ns[on] as f64 * 100.0 / wall_ns as f64,
            micros(wall_ns / 1000)
        ),
    };
    println!(
        "  CPU-bound tasks ran for {} with ivh and for {} without, in epochs of its trial",
        ivh(1),
        ivh(0)
    );
    let rescue = |on: usize| match total.rescue_wakes[on] {
        0 => "none".into(),
        wakes => micros(total.rescue_wait_ns[on] / wakes / 1000),
    };
    println!(
        "  waits on idle vCPUs: {} on average with rescue, {} without, in epochs of its trial",
        rescue(1),
        rescue(0)
    );
    println!("  longest spinlock wait over 1 ms: {}", micros(total.lock_wait_max_ns / 1000));
}

fn counter(stats: &VcpuStats, name: &str) -> u64 {
    COUNTERS.iter().position(|known| *known == name).map_or(0, |index| stats.counters[index])
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
