// SPDX-License-Identifier: GPL-2.0-only
//! Whether scx_vaware can run here: kernel, rights, hypervisor, containers, cgroups.

use std::fs;
use std::path::Path;

use probers::hypervisor::{Announced, Hypervisor};
use userspace::failure::Failure;
use userspace::kernel;
use userspace::obstacles::{KernelFacts, obstacle};

use super::finding::{Finding, Level};

/// Kernels with faults that nothing at load tells: the beginning of the release, and the fault.
const KNOWN_FAULTS: [(&str, &str); 1] = [(
    "6.12.",
    "its own deadline server miscounts when a vCPU goes offline under any sched_ext scheduler: a \
     warning in dmesg, harmless otherwise",
)];

/// All checks of this kind.
pub fn check(facts: &KernelFacts, announced: Announced) -> Vec<Finding> {
    vec![
        kernel_release(),
        loadable(facts),
        tickless(facts),
        hypervisor(announced.hypervisor),
        container(&Place::read()),
        own_quota(),
        cgroups(facts),
        clocksource(),
    ]
}

fn kernel_release() -> Finding {
    const CHECK: &str = "kernel";
    let release = kernel::release();
    match KNOWN_FAULTS.iter().find(|(beginning, _)| release.starts_with(beginning)) {
        Some((_, fault)) => Finding::ok(CHECK, format!("{release}; {fault}")),
        None => Finding::ok(CHECK, release),
    }
}

/// What [`obstacle`] says: kernel, how it was booted, rights, another scheduler.
fn loadable(facts: &KernelFacts) -> Finding {
    const CHECK: &str = "loading the scheduler";
    let Some(failure) = obstacle(facts, None) else {
        return Finding::ok(CHECK, "sched_ext is there and free, and so are the rights to use it");
    };
    match failure {
        Failure::Busy(_) if facts.loaded.as_deref().is_some_and(kernel::is_ours) => {
            Finding::ok(CHECK, "scx_vaware is loaded already")
        }
        Failure::Busy(why) => Finding::new(CHECK, Level::Warning, why),
        // Somebody else may load it. Where BPF was tried, whoever has these capabilities may not.
        Failure::Permission(why) if facts.bpf_errno == 0 => {
            Finding::new(CHECK, Level::Unknown, why)
        }
        failure => Finding::new(CHECK, Level::Critical, failure.to_string())
            .advise("scx_vaware probe works here all the same"),
    }
}

fn tickless(facts: &KernelFacts) -> Finding {
    const CHECK: &str = "vCPUs without a tick";
    match facts.tickless() {
        Some(loss) => Finding::new(CHECK, Level::Warning, loss),
        None => Finding::ok(CHECK, "none"),
    }
}

fn hypervisor(hypervisor: Hypervisor) -> Finding {
    const CHECK: &str = "hypervisor";
    match hypervisor {
        Hypervisor::None => Finding::new(
            CHECK,
            Level::Warning,
            "the CPU reports none: bare metal, where a vCPU-aware scheduler has nothing to do",
        ),
        known => Finding::ok(CHECK, known.name()),
    }
}

/// Files by which containers are told.
struct Place {
    marker_files: bool,
    /// The environment of process 1, which container managers label; empty without root.
    init_environment: String,
}

impl Place {
    fn read() -> Self {
        let markers = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
        Self {
            marker_files: markers.iter().any(|path| Path::new(path).exists()),
            init_environment: fs::read_to_string("/proc/1/environ").unwrap_or_default(),
        }
    }
}

fn container(place: &Place) -> Finding {
    const CHECK: &str = "container";
    let labelled = place.init_environment.split('\0').any(|entry| entry.starts_with("container="));
    if place.marker_files || labelled {
        return Finding::new(
            CHECK,
            Level::Warning,
            "this is a container within the VM: the scheduler would be that of the whole VM",
        )
        .advise("run it in the VM itself");
    }
    Finding::ok(CHECK, "none")
}

/// A quota of the cgroup in which this process runs looks like a hypervisor's.
fn own_quota() -> Finding {
    const CHECK: &str = "own CPU limit";
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    let limit = path.and_then(limit_on_path);
    match limit {
        None => Finding::ok(CHECK, "none"),
        Some(limit) => Finding::new(
            CHECK,
            Level::Warning,
            format!("this process may use {limit:.2} cores only, by its cgroup"),
        )
        .advise("probe from outside that cgroup, or its limit passes for the hypervisor's"),
    }
}

/// The tightest `cpu.max` from the cgroup up to the root, in cores.
fn limit_on_path(path: &str) -> Option<f64> {
    let root = Path::new("/sys/fs/cgroup");
    let folder = root.join(path.trim_start_matches('/'));
    folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| parse_limit(&fs::read_to_string(folder.join("cpu.max")).ok()?))
        .min_by(f64::total_cmp)
}

/// `cpu.max`: quota and period in us, or "max".
fn parse_limit(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

/// Whether what is set for cgroups holds.
fn cgroups(facts: &KernelFacts) -> Finding {
    const CHECK: &str = "CPU weights and limits of cgroups";
    match facts.cgroups_untold() {
        None => Finding::ok(CHECK, "hold"),
        Some(text) => Finding::new(CHECK, Level::Warning, text),
    }
}

/// Gaps are measured by the clock, which has to be the same on all vCPUs.
fn clocksource() -> Finding {
    const CHECK: &str = "clock";
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Ok(name) = fs::read_to_string(path) else {
        return Finding::new(CHECK, Level::Unknown, format!("cannot read {path}"));
    };
    let name = name.trim();
    if ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"].contains(&name) {
        return Finding::ok(CHECK, name);
    }
    Finding::new(
        CHECK,
        Level::Warning,
        format!("{name} is slow to read, and all of the kernel reads it"),
    )
    .advise("boot with clocksource=tsc if the TSC is stable here")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_in_cores() {
        assert_eq!(parse_limit("150000 100000\n"), Some(1.5));
        for text in ["max 100000\n", "", "100000", "x y", "1 0"] {
            assert_eq!(parse_limit(text), None, "{text}");
        }
    }

    #[test]
    fn containers_are_told_by_file_or_by_label() {
        let place = |marker_files, init_environment: &str| Place {
            marker_files,
            init_environment: init_environment.into(),
        };
        assert_eq!(container(&place(false, "HOME=/\0container=lxc\0")).level, Level::Warning);
        assert_eq!(container(&place(true, "")).level, Level::Warning);
        assert_eq!(container(&place(false, "HOME=/\0MY=container=lxc\0")).level, Level::Ok);
    }

    #[test]
    fn each_obstacle_has_its_level() {
        let good = KernelFacts::without_obstacles();
        assert_eq!(loadable(&good).level, Level::Ok);
        let level = |facts: KernelFacts| loadable(&facts).level;
        let isolated = KernelFacts { command_line: "isolcpus=1".into(), ..good.clone() };
        assert_eq!(level(isolated), Level::Critical);
        assert_eq!(level(KernelFacts { status: String::new(), ..good.clone() }), Level::Unknown);
        assert_eq!(level(KernelFacts { bpf_errno: 1, ..good.clone() }), Level::Critical);
        let busy = |name: &str| KernelFacts {
            state: Some("enabled".into()),
            loaded: Some(name.into()),
            ..good.clone()
        };
        assert_eq!(level(busy("scx_lavd")), Level::Warning);
        assert_eq!(level(busy("scx_vaware_0.1.0")), Level::Ok);
        let tickless_vcpus = KernelFacts { nohz_full: "1-3".into(), ..good };
        assert_eq!(tickless(&tickless_vcpus).level, Level::Warning);
        let silent = KernelFacts { tells_of_cgroups: false, ..KernelFacts::without_obstacles() };
        assert_eq!(cgroups(&silent).level, Level::Warning);
    }
}
