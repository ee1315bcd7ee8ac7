// SPDX-License-Identifier: GPL-2.0-only
//! What keeps the kernel from taking a scheduler, and the way out. `doctor` and the loader say the
//! same: [`KernelFacts`] are read, [`obstacle`] judges them and touches nothing.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libbpf_rs::ErrorKind;
use libbpf_rs::libbpf_sys as sys;
use scx_utils::compat;

use crate::failure::Failure;
use crate::{kernel, libbpf_log};

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Kernels with `CONFIG_DYNAMIC_FTRACE` have it; the trampolines of struct_ops programs need that.
const FTRACE: &str = "/proc/sys/kernel/ftrace_enabled";
const FIRST_SCHED_EXT: (u32, u32) = (6, 12);
/// It takes a while to parse, and stays the same until the next boot.
static BTF_FOUND: OnceLock<Btf> = OnceLock::new();
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The kernel's type information, which BPF programs are adapted to at load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Btf {
    Missing,
    /// It is there and cannot be parsed.
    Unreadable,
    /// sched_ext functions whose prototype keeps an argument that programs must not pass.
    WrongFunctions(Vec<String>),
    Good,
}

/// What is known of the running kernel and of this process before a load. Text is as the kernel
/// shows it, trimmed; empty where there is no such file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    pub release: String,
    pub has_sysfs: bool,
    pub has_sched_ext: bool,
    pub has_ftrace: bool,
    pub btf: Btf,
    /// `net.core.bpf_jit_enable`: "0" is off.
    pub bpf_jit: String,
    /// `/proc/cmdline`.
    pub command_line: String,
    /// vCPUs that the kernel's load balancing leaves alone, a CPU list.
    pub isolated: String,
    /// vCPUs with `nohz_full=`, a CPU list.
    pub nohz_full: String,
    /// `/sys/kernel/security/lockdown`, such as `none [integrity] confidentiality`.
    pub lockdown: String,
    /// `/proc/self/status`.
    pub status: String,
    /// `/proc/self/uid_map`.
    pub uid_map: String,
    /// The AppArmor label of this process, such as `docker-default (enforce)`.
    pub apparmor: String,
    /// The SELinux context of this process, empty unless SELinux enforces its policy.
    pub selinux: String,
    /// What the kernel said to a BPF program of two instructions: 0, or an errno.
    pub bpf_errno: i32,
    /// Whether sched_ext tells a scheduler of cgroups.
    pub tells_of_cgroups: bool,
    /// The state of sched_ext, and the name of the scheduler that is loaded.
    pub state: Option<String>,
    pub loaded: Option<String>,
}

impl KernelFacts {
    /// Read them all.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let status = text("/proc/self/status");
        let enforcing = text("/sys/fs/selinux/enforce") == "1";
        let btf = BTF_FOUND.get_or_init(Btf::read);
        Self {
            release: kernel::release(),
            has_sysfs: Path::new("/sys/kernel").is_dir(),
            has_sched_ext: Path::new(SCHED_EXT).is_dir(),
            has_ftrace: Path::new(FTRACE).exists(),
            btf: btf.clone(),
            bpf_jit: text("/proc/sys/net/core/bpf_jit_enable"),
            command_line: text("/proc/cmdline"),
            isolated: text("/sys/devices/system/cpu/isolated"),
            nohz_full: text("/sys/devices/system/cpu/nohz_full").replace("(null)", ""),
            lockdown: text("/sys/kernel/security/lockdown"),
            bpf_errno: if has_rights(&status) { try_bpf() } else { 0 },
            status,
            uid_map: text("/proc/self/uid_map"),
            apparmor: text("/proc/self/attr/apparmor/current"),
            selinux: if enforcing { text("/proc/self/attr/current") } else { String::new() },
            // scx_utils panics on what libbpf cannot parse.
            tells_of_cgroups: matches!(btf, Btf::Good | Btf::WrongFunctions(_))
                && compat::struct_has_field("sched_ext_ops", "cgroup_init").unwrap_or(false),
            state: kernel::state(),
            loaded: kernel::loaded_name(),
        }
    }

    /// A kernel and a process that nothing is wrong with, for tests to spoil.
    pub fn without_obstacles() -> Self {
        Self {
            release: "6.12.1-amd64".into(),
            has_sysfs: true,
            has_sched_ext: true,
            has_ftrace: true,
            btf: Btf::Good,
            bpf_jit: "1".into(),
            command_line: "root=/dev/vda1 quiet isolcpus=nohz,1".into(),
            isolated: String::new(),
            nohz_full: String::new(),
            lockdown: "none [integrity] confidentiality".into(),
            status: "CapEff:\t000001ffffffffff\nSeccomp:\t0\n".into(),
            uid_map: "         0          0 4294967295".into(),
            apparmor: "unconfined".into(),
            selinux: String::new(),
            bpf_errno: 0,
            tells_of_cgroups: true,
            state: Some("disabled".into()),
            loaded: None,
        }
    }

    /// What to know of `nohz_full=`, if it is in force. The kernel stops the tick under sched_ext
    /// only for tasks with an infinite slice (kernel/sched/ext.c: scx_can_stop_tick), which
    /// scx_vaware gives to none.
    pub fn tickless(&self) -> Option<String> {
        (!self.nohz_full.is_empty()).then(|| {
            format!(
                "nohz_full={} has no effect while scx_vaware is loaded: its slices end by the \
                 tick; remove nohz_full=, or keep what needs silence on the kernel's own \
                 scheduler with --partial",
                self.nohz_full
            )
        })
    }

    /// What gets lost where the kernel does not tell a scheduler of cgroups.
    pub fn cgroups_untold(&self) -> Option<String> {
        (!self.tells_of_cgroups).then(|| {
            "cpu.weight and cpu.max of cgroups have no effect while scx_vaware is loaded: this \
             kernel was built without CONFIG_EXT_GROUP_SCHED; boot one that has it, or keep what \
             needs them on the kernel's own scheduler with --partial"
                .into()
        })
    }

    /// What may deny this process the use of BPF although it has the capabilities, each with the
    /// way out.
    pub fn confinement(&self) -> Vec<String> {
        let mut found = Vec::new();
        // The first user namespace maps all of the ids to themselves.
        if !self.uid_map.is_empty() && self.uid_map.split_whitespace().ne(["0", "0", "4294967295"])
        {
            found.push(
                "it is in a user namespace, whose capabilities do not count for BPF: run it \
                 outside of the container, as root of the VM"
                    .into(),
            );
        }
        if field(&self.status, "Seccomp:") == "2" {
            found.push(
                "it has a seccomp filter, as containers and SystemCallFilter= set: run it outside \
                 of the container, or allow bpf and perf_event_open"
                    .into(),
            );
        }
        // Complaining profiles deny nothing.
        if self.apparmor.ends_with("(enforce)") {
            found.push(format!(
                "AppArmor confines it to the profile {}: allow it the capabilities bpf and \
                 perfmon there, or run it unconfined",
                self.apparmor.trim_end_matches(" (enforce)")
            ));
        }
        if !self.selinux.is_empty() && !self.selinux.contains(":unconfined_t:") {
            found.push(format!(
                "SELinux is enforcing, and it runs as {}: ausearch -m avc -c scx_vaware shows \
                 what was denied, allow that in the policy",
                self.selinux
            ));
        }
        found
    }

    fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl Btf {
    fn read() -> Self {
        if !Path::new(BTF).is_file() {
            return Self::Missing;
        }
        libbpf_log::keep();
        // scx_utils panics on what libbpf cannot parse.
        if libbpf_rs::btf::Btf::from_vmlinux().is_err() {
            return Self::Unreadable;
        }
        match scx_utils::compat::malformed_scx_kfuncs() {
            wrong if wrong.is_empty() => Self::Good,
            wrong => Self::WrongFunctions(wrong),
        }
    }
}

/// Check that the scheduler can be loaded here and now, and return what that was judged by. Changes
/// nothing.
///
/// # Errors
/// Those of [`obstacle`].
pub fn check() -> Result<KernelFacts, Failure> {
    let facts = KernelFacts::read();
    obstacle(&facts, None).map_or(Ok(facts), Err)
}

/// What keeps the scheduler from being loaded, if anything is known to: before a load, or after the
/// kernel has `refused` one.
///
/// Returns [`Failure::Unavailable`], [`Failure::Permission`] or [`Failure::Busy`], in this order.
pub fn obstacle(facts: &KernelFacts, refused: Option<ErrorKind>) -> Option<Failure> {
    unavailable(facts, refused)
        .map(Failure::Unavailable)
        .or_else(|| denied(facts, refused).map(Failure::Permission))
        .or_else(|| busy(facts).map(Failure::Busy))
}

/// What only another kernel, or another boot of it, mends.
fn unavailable(facts: &KernelFacts, refused: Option<ErrorKind>) -> Option<String> {
    let release = &facts.release;
    if !facts.has_sysfs {
        return Some("there is no /sys/kernel here; mount sysfs at /sys".into());
    }
    if !facts.has_sched_ext {
        let why = match facts.version() {
            Some(version) if version < FIRST_SCHED_EXT => "is older than 6.12, the first with it",
            _ => "was built without CONFIG_SCHED_CLASS_EXT=y",
        };
        return Some(format!(
            "there is no sched_ext here ({SCHED_EXT}): kernel {release} {why}; boot a kernel from \
             6.12 on with CONFIG_SCHED_CLASS_EXT=y"
        ));
    }
    match &facts.btf {
        Btf::Missing => {
            return Some(format!(
                "kernel {release} has no type information (there is no {BTF}); boot one with \
                 CONFIG_DEBUG_INFO_BTF=y"
            ));
        }
        Btf::Unreadable => {
            return Some(format!(
                "the type information of kernel {release} ({BTF}) cannot be parsed; boot another \
                 build of it, made with pahole 1.26 or later"
            ));
        }
        Btf::WrongFunctions(wrong) => {
            return Some(format!(
                "kernel {release} describes {} of its sched_ext functions wrongly (such as {}), \
                 as kernels built with pahole before 1.26 do, and would refuse any scheduler; boot \
                 another build of it",
                wrong.len(),
                wrong.first().map_or("one without a name", String::as_str)
            ));
        }
        Btf::Good => {}
    }
    if !facts.has_ftrace {
        return Some(format!(
            "kernel {release} was built without CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE \
             (there is no {FTRACE}); boot one that has both"
        ));
    }
    if let Some(isolcpus) = isolated_domain(&facts.command_line) {
        return Some(format!(
            "the kernel was booted with {isolcpus}, and refuses every sched_ext scheduler then; \
             remove it from the kernel's command line, boot again, and reserve vCPUs by cpuset \
             cgroups instead"
        ));
    }
    // Kernels 7.0 and some that followed take isolated cpuset partitions for isolcpus=.
    if refused == Some(ErrorKind::InvalidInput) && !facts.isolated.is_empty() {
        return Some(format!(
            "the kernel refused the scheduler because vCPUs {} are isolated by a cpuset partition; \
             write root to cpuset.cpus.partition of that cgroup, and start it again",
            facts.isolated
        ));
    }
    // With confidentiality BPF programs may not read kernel memory, not even the text of the error
    // that ends a scheduler (LOCKDOWN_BPF_READ_KERNEL). Integrity is no obstacle.
    if facts.lockdown.contains("[confidentiality]") {
        return Some(
            "the kernel is locked down for confidentiality, and BPF schedulers may not read \
             kernel memory then; boot with lockdown=integrity, which Secure Boot is content with"
                .into(),
        );
    }
    if facts.bpf_jit == "0" {
        return Some(
            "the kernel's BPF compiler is off, and schedulers need it; run sysctl \
             net.core.bpf_jit_enable=1"
                .into(),
        );
    }
    None
}

/// What the rights of this process do not allow.
fn denied(facts: &KernelFacts, refused: Option<ErrorKind>) -> Option<String> {
    if !has_rights(&facts.status) {
        return Some(
            "loading a scheduler needs root, or the capabilities CAP_BPF and CAP_PERFMON; run it \
             with sudo"
                .into(),
        );
    }
    let denied = match refused {
        None => [libc::EPERM, libc::EACCES, libc::ENOSYS].contains(&facts.bpf_errno),
        Some(kind) => kind == ErrorKind::PermissionDenied,
    };
    let confinement = facts.confinement();
    // The verifier, too, says "permission denied" to a program that it finds unsafe.
    if !denied || (confinement.is_empty() && refused.is_some()) {
        return None;
    }
    let why = if confinement.is_empty() {
        "look for the denial at the end of dmesg and in the audit log, and allow it".into()
    } else {
        confinement.join("; ")
    };
    Some(format!("the kernel denies BPF to this process although it has the capabilities; {why}"))
}

fn busy(facts: &KernelFacts) -> Option<String> {
    (facts.state.as_deref() != Some("disabled")).then(|| {
        format!(
            "sched_ext is {} with scheduler {}; stop that one first",
            facts.state.as_deref().unwrap_or("in an unknown state"),
            facts.loaded.as_deref().unwrap_or("unknown")
        )
    })
}

/// The `isolcpus=` of a command line that takes vCPUs out of load balancing, if there is one.
///
/// As the kernel reads it (kernel/sched/isolation.c: housekeeping_isolcpus_setup): flags before the
/// list; without any, or with `domain`, it isolates from load balancing. The kernel refuses every
/// scheduler then (kernel/sched/ext.c: scx_enable, HK_TYPE_DOMAIN).
fn isolated_domain(command_line: &str) -> Option<&str> {
    let mut words = command_line.split_whitespace().take_while(|word| *word != "--");
    words.find(|word| {
        let Some(value) = word.trim_matches('"').strip_prefix("isolcpus=") else { return false };
        let mut parts = value.trim_matches('"').split(',').peekable();
        let is_flag = |part: &&str| part.starts_with(|c: char| c.is_ascii_alphabetic());
        let flags: Vec<_> = std::iter::from_fn(|| parts.next_if(is_flag)).collect();
        let known = ["nohz", "domain", "managed_irq"];
        let domain = flags.contains(&"domain") || !flags.iter().any(|flag| known.contains(flag));
        domain && parts.next().is_some_and(|list| !list.is_empty())
    })
}

/// Return whether a process with this `/proc/PID/status` has the capabilities to load a scheduler.
fn has_rights(status: &str) -> bool {
    let effective = u64::from_str_radix(field(status, "CapEff:"), 16).unwrap_or(0);
    let has = |capability: u32| effective & (1 << capability) != 0;
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}

/// Have the kernel load `return 0` as a tracing program, which takes the same rights as a
/// scheduler, and drop it. Return 0, or its errno.
fn try_bpf() -> i32 {
    const MOV_R0_0: sys::bpf_insn = instruction(0xb7);
    const EXIT: sys::bpf_insn = instruction(0x95);
    let program = [MOV_R0_0, EXIT];
    // SAFETY: all pointers are to values that outlive the call, or null where libbpf allows it.
    let fd = unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_TRACEPOINT,
            std::ptr::null(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            std::ptr::null_mut(),
        )
    };
    if fd < 0 {
        return -fd;
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    unsafe { libc::close(fd) };
    0
}

const fn instruction(code: u8) -> sys::bpf_insn {
    // SAFETY: a struct of integers, for which zeros are a value.
    let mut instruction: sys::bpf_insn = unsafe { std::mem::zeroed() };
    instruction.code = code;
    instruction
}

#[cfg(test)]
mod tests;
