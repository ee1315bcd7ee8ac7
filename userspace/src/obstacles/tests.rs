// SPDX-License-Identifier: GPL-2.0-only
use super::*;

fn good() -> KernelFacts {
    KernelFacts::without_obstacles()
}

#[test]
fn nothing_wrong_is_no_obstacle() {
    assert!(obstacle(&good(), None).is_none());
    for kind in [ErrorKind::InvalidInput, ErrorKind::PermissionDenied, ErrorKind::Other] {
        assert!(obstacle(&good(), Some(kind)).is_none(), "{kind:?} is the scheduler's fault");
    }
    assert_eq!(good().tickless(), None);
}

/// Each obstacle: its exit code, what names the cause, and what names the way out.
#[test]
fn each_obstacle_is_named_with_its_way_out() {
    let cases: [(KernelFacts, u8, &str, &str); 17] = [
        (KernelFacts { has_sysfs: false, ..good() }, 69, "/sys/kernel", "mount"),
        (
            KernelFacts { has_sched_ext: false, release: "6.1.0-56".into(), ..good() },
            69,
            "older than 6.12",
            "CONFIG_SCHED_CLASS_EXT=y",
        ),
        (
            KernelFacts { has_sched_ext: false, release: "6.12.9".into(), ..good() },
            69,
            "built without",
            "boot a kernel",
        ),
        (
            KernelFacts { btf: Btf::Missing, ..good() },
            69,
            "no type information",
            "CONFIG_DEBUG_INFO_BTF=y",
        ),
        (
            KernelFacts { btf: Btf::Unreadable, ..good() },
            69,
            "cannot be parsed",
            "boot another build",
        ),
        (
            KernelFacts { btf: Btf::WrongFunctions(vec!["scx_bpf_x".into()]), ..good() },
            69,
            "scx_bpf_x",
            "boot another build",
        ),
        (KernelFacts { has_ftrace: false, ..good() }, 69, "CONFIG_FUNCTION_TRACER", "boot one"),
        (
            KernelFacts { command_line: "quiet isolcpus=2-3 ro".into(), ..good() },
            69,
            "isolcpus=2-3",
            "remove it",
        ),
        (
            KernelFacts { lockdown: "none integrity [confidentiality]".into(), ..good() },
            69,
            "confidentiality",
            "lockdown=integrity",
        ),
        (KernelFacts { bpf_jit: "0".into(), ..good() }, 69, "compiler is off", "jit_enable=1"),
        (
            KernelFacts { status: "CapEff:\t0000008000000000\n".into(), ..good() },
            77,
            "CAP_BPF",
            "sudo",
        ),
        (
            KernelFacts { uid_map: "0 1000 1".into(), bpf_errno: libc::EPERM, ..good() },
            77,
            "user namespace",
            "as root of the VM",
        ),
        (
            KernelFacts {
                status: good().status.replace("Seccomp:\t0", "Seccomp:\t2"),
                bpf_errno: libc::ENOSYS,
                ..good()
            },
            77,
            "seccomp",
            "allow bpf",
        ),
        (
            KernelFacts {
                apparmor: "docker-default (enforce)".into(),
                bpf_errno: libc::EPERM,
                ..good()
            },
            77,
            "profile docker-default",
            "unconfined",
        ),
        (
            KernelFacts {
                selinux: "system_u:system_r:container_t:s0".into(),
                bpf_errno: libc::EACCES,
                ..good()
            },
            77,
            "container_t",
            "ausearch",
        ),
        (KernelFacts { bpf_errno: libc::EPERM, ..good() }, 77, "denies BPF", "audit log"),
        (
            KernelFacts { state: Some("enabled".into()), loaded: Some("lavd".into()), ..good() },
            75,
            "lavd",
            "stop that one",
        ),
    ];
    for (facts, exit_code, cause, way_out) in cases {
        let found = obstacle(&facts, None);
        let said = found.as_ref().map(ToString::to_string).unwrap_or_default();
        assert_eq!(found.map(|failure| failure.exit_code()), Some(exit_code), "{cause}");
        assert!(said.contains(cause) && said.contains(way_out), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn a_refused_load_is_explained_by_what_can_refuse_it() {
    let explained = |facts: KernelFacts, kind| {
        obstacle(&facts, Some(kind)).map(|failure| failure.to_string()).unwrap_or_default()
    };
    let partition = KernelFacts { isolated: "2-3".into(), ..good() };
    assert!(obstacle(&partition, None).is_none(), "most kernels take a scheduler then");
    assert!(explained(partition, ErrorKind::InvalidInput).contains("cpuset.cpus.partition"));
    let confined = KernelFacts { apparmor: "x (enforce)".into(), ..good() };
    assert!(obstacle(&confined, None).is_none(), "a profile may well allow BPF");
    assert!(explained(confined.clone(), ErrorKind::PermissionDenied).contains("profile x"));
    assert_eq!(explained(confined, ErrorKind::InvalidInput), "");
}

#[test]
fn what_denies_nothing_is_not_blamed() {
    let lax = KernelFacts {
        apparmor: "x (complain)".into(),
        selinux: "unconfined_u:unconfined_r:unconfined_t:s0".into(),
        ..good()
    };
    assert!(lax.confinement().is_empty(), "{:?}", lax.confinement());
}

#[test]
fn isolcpus_counts_as_the_kernel_reads_it() {
    for line in
        ["isolcpus=3", "a isolcpus=domain,1-2 b", "isolcpus=managed_irq,domain,0", "isolcpus=x,1"]
    {
        assert!(isolated_domain(line).is_some(), "{line}");
    }
    for line in [
        "",
        "isolcpus=",
        "isolcpus=nohz,1",
        "isolcpus=managed_irq,1",
        "my.isolcpus=1",
        "-- isolcpus=1",
    ] {
        assert_eq!(isolated_domain(line), None, "{line}");
    }
}

#[test]
fn nohz_full_is_no_obstacle_but_lost() {
    let tickless = KernelFacts { nohz_full: "1-3".into(), ..good() };
    assert!(obstacle(&tickless, None).is_none());
    assert!(tickless.tickless().is_some_and(|text| text.contains("nohz_full=1-3")));
}

#[test]
fn a_kernel_that_does_not_tell_of_cgroups_is_no_obstacle() {
    let silent = KernelFacts { tells_of_cgroups: false, ..good() };
    assert!(obstacle(&silent, None).is_none());
    assert!(silent.cgroups_untold().is_some_and(|text| text.contains("EXT_GROUP_SCHED")));
    assert_eq!(good().cgroups_untold(), None);
}

#[test]
fn two_capabilities_are_enough_and_one_is_not() {
    assert!(has_rights("Name:\tx\nCapEff:\t000000c000000000\n"));
    assert!(!has_rights("CapEff:\t0000000000000000\n"));
    assert!(!has_rights("nothing"));
}
