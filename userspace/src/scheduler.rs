// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler's life: load, attach, steer, detach. Nothing of it outlives the process: when the
//! link goes, the kernel's own scheduler is back.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use anyhow::{Context, anyhow};
use libbpf_rs::skel::Skel;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, OpenObject};
use probers::hypervisor::{self, Announced};
use probers::vcpus::Vcpus;
use scx_utils::compat::{
    SCX_OPS_ALLOW_QUEUED_WAKEUP, SCX_OPS_ENQ_LAST, SCX_OPS_ENQ_MIGRATION_DISABLED,
    SCX_OPS_KEEP_BUILTIN_IDLE, SCX_OPS_SWITCH_PARTIAL,
};
use scx_utils::{ScxExitKind, compat, scx_ops_attach, scx_ops_load, scx_ops_open};

use crate::activity::{self, Activity, ActivityOptions, Gap};
use crate::config::Config;
use crate::counters::{Counters, read_clocks};
use crate::failure::Failure;
use crate::kernel_map;
use crate::obstacles::KernelFacts;
use crate::policy::PolicySet;
use crate::skel::{BpfSkel, BpfSkelBuilder, types};
use crate::stats::{self, Stats};
use crate::trials::{self, Trial};
use crate::verdicts::Priors;
use crate::{kernel, libbpf_log, obstacles};
use hints::VcpuHints;

/// How the kernel's other watchdogs name what they end a scheduler for, and what a jump of the clock
/// looks like to them, too (kernel: `handle_lockup()` in kernel/sched/ext.c).
const LOCKUPS: [&str; 3] = ["soft lockup", "hard lockup", "RCU CPU stall"];

const STATE_LIMIT: Duration = Duration::from_secs(10);

/// How the scheduler ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The kernel asks to load it again.
    Restart,
    /// A watchdog of the kernel ended it: a task, a vCPU or RCU had to wait for too long.
    Stalled(String),
    /// The kernel ended it for another fault; the text says why.
    Ejected(String),
    /// An operator ended it from outside.
    Dismissed(String),
}

/// A loaded scheduler. Dropping it detaches it.
pub struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    link: Option<Link>,
    vcpus: Vcpus,
    announced: Announced,
    policies: PolicySet,
    priors: Priors,
    /// The global variables as they were before the programs first ran.
    fresh: Option<(types::data, types::bss)>,
    /// While it is measured how long tasks wait at shootdowns.
    flush_links: Option<(Link, Link)>,
    /// The kernel did not let it be measured.
    flushes_hidden: bool,
}

impl<'a> Scheduler<'a> {
    /// Load and attach the scheduler, and wait until the kernel says that it is enabled.
    ///
    /// `storage` holds what the kernel object needs for as long as the scheduler lives. The governor
    /// begins with `priors`.
    ///
    /// # Errors
    /// Those of [`obstacles::check`]; otherwise what the kernel said. Nothing stays loaded.
    pub fn start(
        storage: &'a mut MaybeUninit<OpenObject>,
        config: &Config,
        activity: ActivityOptions,
        priors: Priors,
    ) -> Result<Self, Failure> {
        obstacles::check()?;
        let vcpus = Vcpus::read().context("finding the vCPUs")?;
        let mut announced = hypervisor::announced();
        announced.kvm_steal_clock |= activity.trust_steal_clock;
        libbpf_log::keep();
        let mut scheduler =
            Self::load(storage, config, activity, vcpus, announced).map_err(refused)?;
        scheduler.steer(config)?;
        scheduler.set_priors(priors)?;
        let Self { skel, fresh, .. } = &mut scheduler;
        let sections = (skel.maps.data_data.as_deref(), skel.maps.bss_data.as_deref());
        if let (Some(data), Some(bss)) = sections {
            *fresh = Some((*data, *bss));
        }
        scheduler.link = Some(scx_ops_attach!(skel, vaware).map_err(refused)?);
        scheduler.wait_until_enabled()?;
        Ok(scheduler)
    }

    fn wait_until_enabled(&self) -> Result<(), Failure> {
        if kernel::wait_for_state("enabled", STATE_LIMIT, || self.end().is_some()) {
            return Ok(());
        }
        Err(self.end().and_then(|end| self.failure(end)).unwrap_or_else(|| {
            anyhow!("the kernel did not enable the scheduler; see dmesg").into()
        }))
    }

    /// Take what has [ended](Self::end) off the kernel.
    ///
    /// # Errors
    /// [`Failure::Other`] if the kernel does not confirm that its own scheduler is back.
    pub fn detach(&mut self) -> Result<(), Failure> {
        self.link = None;
        if kernel::wait_for_state("disabled", STATE_LIMIT, || false) {
            return Ok(());
        }
        Err(anyhow!("the kernel has not confirmed that its own scheduler is back; see dmesg")
            .into())
    }

    /// Attach it again after [`detach`](Self::detach), as if it had never run. The programs are
    /// verified already, which is what takes time at load (kernel:
    /// `tools/testing/selftests/sched_ext/reload_loop.c` does the same).
    ///
    /// # Errors
    /// What the kernel said.
    pub fn attach_again(&mut self, config: &Config) -> Result<(), Failure> {
        self.forget()?;
        self.steer(config)?;
        self.set_priors(self.priors)?;
        let link = self.skel.maps.vaware.attach_struct_ops();
        self.link = Some(link.map_err(|error| refused(error.into()))?);
        self.wait_until_enabled()
    }

    /// Bring variables and maps back to what they were at load. That of tasks is left to the
    /// kernel half (`vaware_init_task`).
    fn forget(&mut self) -> anyhow::Result<()> {
        let (data, bss) = self.fresh.context("the object has no data sections")?;
        *self.data()? = data;
        *self.bss()? = bss;
        let maps = &self.skel.maps;
        let of_numbers: [&dyn MapCore; 10] = [
            &maps.vcpu_ctxs,
            &maps.vcpu_stats,
            &maps.vcpu_activity,
            &maps.vcpu_hints,
            &maps.beat_timers, // the kernel ends timers that are overwritten
            &maps.vcpu_hedges,
            &maps.governors,
            &maps.policy_trials,
            &maps.cgroups,
            &maps.cgroup_timers,
        ];
        for map in of_numbers {
            let zero = vec![0; map.value_size() as usize];
            for number in 0..map.max_entries() {
                map.update(&number.to_ne_bytes(), &zero, MapFlags::ANY)
                    .with_context(|| format!("emptying {:?} at {number}", map.name()))?;
            }
        }
        Ok(())
    }

    fn load(
        storage: &'a mut MaybeUninit<OpenObject>,
        config: &Config,
        activity: ActivityOptions,
        vcpus: Vcpus,
        announced: Announced,
    ) -> anyhow::Result<Self> {
        let builder = BpfSkelBuilder::default();
        let options = None::<libbpf_rs::libbpf_sys::bpf_object_open_opts>;
        let mut skel = scx_ops_open!(builder, storage, vaware, options)?;

        let nr_vcpus = vcpus.nr_ids();
        skel.maps.vcpu_ctxs.set_max_entries(nr_vcpus)?;
        skel.maps.vcpu_stats.set_max_entries(nr_vcpus)?;
        skel.maps.vcpu_activity.set_max_entries(nr_vcpus)?;
        skel.maps.beat_timers.set_max_entries(nr_vcpus)?;
        if activity.log {
            skel.maps.activity_log.set_max_entries(activity::LOG_BYTES)?;
        }
        skel.maps.vcpu_hints.set_max_entries(nr_vcpus)?;
        skel.maps.vcpu_hedges.set_max_entries(nr_vcpus)?;
        let rodata = skel.maps.rodata_data.as_mut().context("the object has no rodata")?;
        rodata.nr_vcpus = nr_vcpus;
        rodata.steal_source = if announced.kvm_steal_clock {
            intf::VAWARE_STEAL_KVM
        } else {
            intf::VAWARE_STEAL_BEATS
        };
        rodata.activity_on = !activity.off;
        rodata.log_activity = activity.log;
        rodata.queued_wakeup = *SCX_OPS_ALLOW_QUEUED_WAKEUP != 0; // not on 6.12
        let ops = skel.struct_ops.vaware_mut();
        ops.flags = *SCX_OPS_ENQ_MIGRATION_DISABLED
            | *SCX_OPS_ENQ_LAST
            | *SCX_OPS_KEEP_BUILTIN_IDLE
            | *SCX_OPS_ALLOW_QUEUED_WAKEUP;
        if *SCX_OPS_ALLOW_QUEUED_WAKEUP == 0 {
            // Up to 6.14 the kernel complains without it, later ones with it.
            ops.flags |=
                compat::read_enum("scx_ops_flags", "SCX_OPS_HAS_CGROUP_WEIGHT").unwrap_or(0);
        }
        if config.partial {
            ops.flags |= *SCX_OPS_SWITCH_PARTIAL;
        }
        // Not compared: it is frozen with the first attachment, and old after the next hotplug. From
        // vaware_init until callbacks tell of hotplug the kernel has none.
        ops.hotplug_seq = 0;
        // Each where the running kernel's ops have a place for it.
        macro_rules! optional {
            ($($callback:ident: $program:ident),*) => {
                $(if !compat::struct_has_field("sched_ext_ops", stringify!($callback))
                    .unwrap_or(false)
                {
                    ops.$callback = std::ptr::null_mut();
                    skel.progs.$program.set_autoload(false);
                })*
            };
        }
        optional!(
            cpu_release: vaware_cpu_release,
            cgroup_init: vaware_cgroup_init, // all of cgroup: without CONFIG_EXT_GROUP_SCHED
            cgroup_exit: vaware_cgroup_exit,
            cgroup_move: vaware_cgroup_move,
            cgroup_set_weight: vaware_cgroup_set_weight,
            cgroup_set_bandwidth: vaware_cgroup_set_bandwidth, // from 6.17
            cgroup_set_idle: vaware_cgroup_set_idle // from 6.19
        );
        let lock_events = compat::ksym_exists("btf_trace_contention_begin").unwrap_or(false);
        skel.progs.vaware_lock_begin.set_autoload(lock_events);
        skel.progs.vaware_lock_end.set_autoload(lock_events);
        let flushes = compat::ksym_exists("flush_tlb_mm_range").unwrap_or(false);
        for program in [&mut skel.progs.vaware_flush_begin, &mut skel.progs.vaware_flush_end] {
            program.set_autoload(flushes);
            program.set_autoattach(false); // Self::measure_shootdowns
        }

        let skel = scx_ops_load!(skel, vaware, uei)?;
        let mut scheduler = Self {
            skel,
            link: None,
            vcpus,
            announced,
            policies: config.policies,
            priors: Priors::default(),
            fresh: None,
            flush_links: None,
            flushes_hidden: false,
        };
        scheduler.data()?.tick_ns = kernel::tick_ns();
        scheduler.clocks()?; // tells the kernel half who feeds it
        Ok(scheduler)
    }

    fn clocks(&self) -> anyhow::Result<intf::vaware_clock> {
        read_clocks(self.skel.progs.vaware_read_clocks.as_fd())
    }

    /// Tell the kernel half what was found out about the vCPUs. It counts for `valid`: call this
    /// more often than that, for it is also the daemon's heartbeat. vCPUs that `inputs` does not
    /// name keep what they had, until that is too old.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load: a fault of this program.
    pub fn set_inputs(&mut self, inputs: &[VcpuHints], valid: Duration) -> anyhow::Result<()> {
        let ticks = u64::try_from(valid.as_nanos())?.div_ceil(kernel::tick_ns());
        let until = self.clocks()?.jiffies + ticks;
        for inputs in inputs.iter().filter(|inputs| inputs.vcpu < self.vcpus.nr_ids()) {
            kernel_map::write(&self.skel.maps.vcpu_hints, inputs.vcpu, &inputs.for_kernel(until))
                .with_context(|| format!("telling the kernel half about vCPU {}", inputs.vcpu))?;
        }
        let bss = self.bss()?;
        bss.hints_until_jiffies = until;
        bss.hints_flags = inputs.iter().fold(0, |flags, inputs| flags | inputs.flags());
        let reserve = inputs.iter().find(|inputs| inputs.reserve);
        bss.usable_vcpus = inputs.iter().filter(|inputs| !inputs.banned()).count() as u32;
        bss.reserve_vcpu = reserve.map_or(0, |inputs| inputs.vcpu + 1);
        Ok(())
    }

    /// Begin to measure how long tasks wait at shootdowns, or cease. It costs each flush a little, so
    /// it is for VMs that have something to find. False where this kernel cannot, which is asked once:
    /// libbpf has words for each failure, and they are kept.
    pub fn measure_shootdowns(&mut self, measure: bool) -> bool {
        let progs = &self.skel.progs;
        if !measure {
            self.flush_links = None;
        } else if self.flush_links.is_none() && !self.flushes_hidden {
            let begin = progs.vaware_flush_begin.attach();
            let end = progs.vaware_flush_end.attach();
            self.flush_links = begin.ok().zip(end.ok());
            self.flushes_hidden = self.flush_links.is_none();
        }
        self.flush_links.is_some() == measure
    }

    /// The processes at whose shootdowns tasks have waited, and for how long since the process is among
    /// them; see `struct vaware_shooter`.
    pub fn shooters(&self) -> Vec<(u32, Duration)> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return Vec::new() };
        let read = |shooter: &types::vaware_shooter| {
            // SAFETY: the kernel half writes these words while we read them.
            let (process, wait_ns) = unsafe {
                let wait_ns = std::ptr::read_volatile(&raw const shooter.wait_ns);
                (std::ptr::read_volatile(&raw const shooter.process), wait_ns)
            };
            (process as u32, Duration::from_nanos(wait_ns))
        };
        bss.shooters.iter().map(read).filter(|(process, _)| *process != 0).collect()
    }

    /// Keep these processes, of which there are at most `VAWARE_CONFINED`, to steady vCPUs.
    ///
    /// # Errors
    /// If the object lacks the section: a fault of this program.
    pub fn confine(&mut self, processes: &[u32]) -> anyhow::Result<()> {
        self.bss()?.confined = std::array::from_fn(|n| processes.get(n).copied().unwrap_or(0));
        Ok(())
    }

    fn bss(&mut self) -> anyhow::Result<&mut types::bss> {
        self.skel.maps.bss_data.as_deref_mut().context("the object has no bss section")
    }

    fn data(&mut self) -> anyhow::Result<&mut types::data> {
        self.skel.maps.data_data.as_deref_mut().context("the object has no data section")
    }

    /// Go by this configuration from now on, as far as a scheduler that is loaded can
    /// ([`crate::reload`]).
    ///
    /// # Errors
    /// If the object lacks the section: a fault of this program.
    pub fn steer(&mut self, config: &Config) -> anyhow::Result<()> {
        let data = self.data()?;
        data.policies = config.policies.bits();
        data.wait_bound_ns = config.wait_bound.as_nanos() as u64;
        self.policies = config.policies;
        Ok(())
    }

    /// Tell the governor, before it begins, with what verdicts.
    fn set_priors(&mut self, priors: Priors) -> anyhow::Result<()> {
        trials::begin(&self.skel.maps.policy_trials, priors)?;
        self.priors = priors;
        Ok(())
    }

    /// The policies that are on.
    pub fn policies(&self) -> PolicySet {
        self.policies
    }

    /// The vCPUs as they were at load.
    pub fn vcpus(&self) -> &Vcpus {
        &self.vcpus
    }

    /// What the hypervisor announces, or is taken to.
    pub fn announced(&self) -> Announced {
        self.announced
    }

    /// The counters of every possible vCPU, by number.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load: a fault of this program.
    pub fn stats(&self) -> anyhow::Result<Stats> {
        stats::read(&self.skel.maps.vcpu_stats, self.vcpus.nr_ids())
    }

    /// What every possible vCPU has been doing, by number.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load: a fault of this program.
    pub fn activity(&self) -> anyhow::Result<Vec<Activity>> {
        let now_ns = self.clocks()?.sched_ns;
        activity::read(&self.skel.maps.vcpu_activity, self.vcpus.nr_ids(), now_ns)
    }

    /// What was found out about each policy.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load: a fault of this program.
    pub fn trials(&self) -> anyhow::Result<Vec<Trial>> {
        trials::read(&self.skel.maps.policy_trials)
    }

    /// The same counters, for another thread.
    ///
    /// # Errors
    /// What the kernel said when it was asked for another descriptor.
    pub fn counters(&self) -> anyhow::Result<Counters> {
        // What this kernel has no place for was not loaded, and has no descriptor.
        let loaded = self.skel.object().progs().filter(|program| program.as_fd().as_raw_fd() >= 0);
        let programs = loaded.map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            Ok((name, program.as_fd().try_clone_to_owned()?))
        });
        Ok(Counters {
            stats: MapHandle::try_from(&self.skel.maps.vcpu_stats)?,
            activity: MapHandle::try_from(&self.skel.maps.vcpu_activity)?,
            trials: MapHandle::try_from(&self.skel.maps.policy_trials)?,
            cgroups: MapHandle::try_from(&self.skel.maps.cgroup_sums)?,
            nr_vcpus: self.vcpus.nr_ids(),
            programs: programs.collect::<std::io::Result<_>>()?,
        })
    }

    /// Hand the stops that were logged since the last call to `take`. None without
    /// [`activity::ActivityOptions::log`].
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load: a fault of this program.
    pub fn take_gaps(&self, mut take: impl FnMut(Gap)) -> anyhow::Result<()> {
        let mut log = libbpf_rs::RingBufferBuilder::new();
        log.add(&self.skel.maps.activity_log, |record| {
            if let Some(gap) = Gap::from_record(record) {
                take(gap);
            }
            0
        })?;
        log.build()?.consume().context("reading the activity log")
    }

    /// Where stolen time is read from, for people.
    pub fn steal_source(&self) -> &'static str {
        if self.announced.kvm_steal_clock {
            "KVM steal clock, checked by late beats"
        } else {
            "late beats: no KVM steal clock is announced"
        }
    }

    /// How the scheduler ended, or `None` while it runs.
    pub fn end(&self) -> Option<End> {
        let uei = &self.skel.maps.data_data.as_deref()?.uei;
        // SAFETY: the kernel half writes this word while we read it.
        let kind = unsafe { std::ptr::read_volatile(&raw const uei.kind) };
        if kind == 0 {
            return None;
        }
        let asks_for_restart = uei.exit_code & *scx_utils::SCX_ECODE_ACT_RESTART as i64 != 0;
        if kind == ScxExitKind::UnregKern as i32 && asks_for_restart {
            return Some(End::Restart);
        }
        let reason = text(&uei.reason);
        let message = text(&uei.msg);
        let details = if message.is_empty() { String::new() } else { format!(" ({message})") };
        if [ScxExitKind::SysRq as i32, ScxExitKind::Unreg as i32].contains(&kind) {
            return Some(End::Dismissed(format!(
                "an operator ended the scheduler ({reason}); the kernel's own scheduler is back, \
                 start this one again when you want it"
            )));
        }
        let why = format!(
            "the kernel ejected the scheduler: {reason}{details}; the kernel's own scheduler \
             is back, see dmesg for details"
        );
        let stalled = kind == ScxExitKind::ErrorStall as i32
            || LOCKUPS.iter().any(|lockup| message.starts_with(lockup));
        Some(if stalled { End::Stalled(why) } else { End::Ejected(why) })
    }

    /// This end as the failure of a program that was to go on; `None` for a restart.
    pub fn failure(&self, end: End) -> Option<Failure> {
        match end {
            End::Restart => None,
            End::Stalled(why) | End::Ejected(why) => {
                Some(Failure::Ejected { why, report: self.report() })
            }
            End::Dismissed(why) => Some(Failure::Dismissed(why)),
        }
    }

    /// The kernel's report of the state in which it ejected the scheduler; empty if there is none.
    fn report(&self) -> String {
        let Ok(dump) = scx_utils::UEI_DUMP_PTR_MUTEX.lock() else { return String::new() };
        if dump.ptr.is_null() {
            return String::new();
        }
        // SAFETY: the framework maps it for as long as the skeleton lives, with a final zero.
        unsafe { CStr::from_ptr(dump.ptr) }.to_string_lossy().into_owned()
    }
}

/// Why the kernel has refused a scheduler: what is known to do that, else its own words.
fn refused(error: anyhow::Error) -> Failure {
    let libbpf_said = libbpf_log::said();
    let kind = error.downcast_ref::<libbpf_rs::Error>().map_or(ErrorKind::Other, |e| e.kind());
    obstacles::obstacle(&KernelFacts::read(), Some(kind)).unwrap_or_else(|| {
        anyhow!(
            "the kernel refused the scheduler: {error:#}; please report this with what follows and \
             the end of dmesg\n{libbpf_said}"
        )
        .into()
    })
}

/// The text in a C buffer, up to its NUL or its end.
fn text(buffer: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|byte| *byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned())
}
