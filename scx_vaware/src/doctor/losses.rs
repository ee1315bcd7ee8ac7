// SPDX-License-Identifier: GPL-2.0-only
//! What this VM loses by its vCPUs, and whether scheduling by that is worth it.

use probers::snapshot::{Estimate, VcpuSnapshot, Verdict};
use serde::Serialize;

use super::finding::{Finding, Level};

/// Below these parts of the cores that were promised, an operator wants to know.
const SHORT_RATIO: f64 = 0.9;
const VERY_SHORT_RATIO: f64 = 0.5;
/// Wake-ups slower than this are felt by services that answer within milliseconds.
const SLOW_WAKEUP_NS: f64 = 1e6;
/// Shares that differ by more than this are not the same quota for all.
const UNIFORM_RANGE: f64 = 0.15;

/// What is lost, in the units in which people pay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Losses {
    pub online_vcpus: usize,
    /// vCPUs of which the share is known well enough; the rest counts as whole.
    pub known_vcpus: usize,
    /// Cores that the online vCPUs would get if all were busy.
    pub effective_vcpus: f64,
    /// Cores taken from them during the probe.
    pub stolen_vcpus: f64,
    pub stragglers: Vec<u32>,
    /// vCPUs that wait for another one of their stack.
    pub stacked: Vec<u32>,
    /// vCPUs of which that is likely, but was not watched for long enough to be sure.
    pub maybe_stacked: Vec<u32>,
    /// Whether it was looked for stacks at all.
    pub topology_probed: bool,
    /// Median wake-up from halt on the slowest vCPU.
    pub worst_wakeup_ns: Option<f64>,
    /// Whether all known vCPUs are short by the same: a cap, not a neighbour.
    pub uniform: bool,
}

impl Losses {
    /// Sum up a snapshot.
    pub fn of(found: &VcpuSnapshot) -> Self {
        let online: Vec<_> = found.vcpus.iter().filter(|vcpu| vcpu.online).collect();
        let trusted = |estimate: Option<Estimate>| estimate.and_then(|value| value.trusted());
        let shares: Vec<f64> = online.iter().filter_map(|vcpu| trusted(vcpu.share_ratio)).collect();
        let range = shares.iter().copied().fold(f64::MIN, f64::max)
            - shares.iter().copied().fold(f64::MAX, f64::min);
        Self {
            online_vcpus: online.len(),
            known_vcpus: shares.len(),
            effective_vcpus: shares.iter().sum::<f64>() + (online.len() - shares.len()) as f64,
            stolen_vcpus: online.iter().filter_map(|vcpu| trusted(vcpu.stolen_ratio)).sum(),
            stragglers: found.stragglers().collect(),
            stacked: found.topology.spare().collect(),
            maybe_stacked: found
                .topology
                .stacks
                .iter()
                .filter(|stack| !stack.is_trusted())
                .flat_map(|stack| stack.members.iter().copied())
                .collect(),
            topology_probed: found.topology.age_s.is_some(),
            worst_wakeup_ns: online
                .iter()
                .filter_map(|vcpu| trusted(vcpu.wakeup_latency_ns))
                .max_by(f64::total_cmp),
            uniform: shares.len() > 1 && range <= UNIFORM_RANGE,
        }
    }

    /// Each kind of loss as a finding.
    pub fn findings(&self) -> Vec<Finding> {
        vec![self.cores(), self.stragglers(), self.stacks(), self.wakeups()]
    }

    fn cores(&self) -> Finding {
        const CHECK: &str = "cores obtained";
        if self.known_vcpus == 0 {
            return Finding::new(CHECK, Level::Unknown, "no share could be measured")
                .advise("probe for longer: scx_vaware probe --duration 30");
        }
        let ratio = self.effective_vcpus / self.online_vcpus.max(1) as f64;
        let text = format!(
            "{:.1} of {} vCPUs, {:.1} stolen during the probe",
            self.effective_vcpus, self.online_vcpus, self.stolen_vcpus
        );
        let cause = if self.uniform {
            "all vCPUs are short alike: a cap of this VM or an overcommitted host; a scheduler cannot \
             add cores, but can keep work off vCPUs while they are stopped"
        } else {
            "vCPUs differ: work can be kept on the better ones"
        };
        match ratio {
            ..VERY_SHORT_RATIO => Finding::new(CHECK, Level::Critical, text).advise(cause),
            ..SHORT_RATIO => Finding::new(CHECK, Level::Warning, text).advise(cause),
            _ => Finding::ok(CHECK, text),
        }
    }

    fn stragglers(&self) -> Finding {
        const CHECK: &str = "stragglers";
        if self.stragglers.is_empty() {
            return Finding::ok(CHECK, "none");
        }
        let text = format!("vCPUs {:?} are far slower than the others", self.stragglers);
        Finding::new(CHECK, Level::Warning, text)
            .advise("scx_vaware leaves them to best-effort work; without it, take them offline")
    }

    fn stacks(&self) -> Finding {
        const CHECK: &str = "stacked vCPUs";
        if !self.topology_probed {
            return Finding::new(CHECK, Level::Unknown, "not probed");
        }
        if self.stacked.is_empty() && !self.maybe_stacked.is_empty() {
            let text = format!("vCPUs {:?} seem to share cores, for now", self.maybe_stacked);
            return Finding::new(CHECK, Level::Unknown, text)
                .advise("look for longer, as busy vCPUs may meet by chance: --duration 60");
        }
        if self.stacked.is_empty() {
            return Finding::ok(CHECK, "none found");
        }
        let text = format!("vCPUs {:?} share a core with another vCPU of this VM", self.stacked);
        Finding::new(CHECK, Level::Warning, text)
            .advise("scx_vaware uses one of each stack; without it, take these offline")
    }

    fn wakeups(&self) -> Finding {
        const CHECK: &str = "wake-up from halt";
        match self.worst_wakeup_ns {
            None => Finding::new(CHECK, Level::Unknown, "no idle vCPU to measure it on"),
            Some(ns) if ns > SLOW_WAKEUP_NS => Finding::new(
                CHECK,
                Level::Warning,
                format!("{:.1} ms on the slowest vCPU", ns / 1e6),
            )
            .advise("the host lets halted vCPUs wait: fewer, busier vCPUs answer sooner"),
            Some(ns) => Finding::ok(CHECK, format!("{:.0} us on the slowest vCPU", ns / 1e3)),
        }
    }

    /// Whether there is something for a vCPU-aware scheduler to do.
    pub fn worth_it(&self) -> Option<bool> {
        let short = self.effective_vcpus < SHORT_RATIO * self.online_vcpus as f64;
        let slow = self.worst_wakeup_ns.is_some_and(|ns| ns > SLOW_WAKEUP_NS);
        if short || slow || !self.stragglers.is_empty() || !self.stacked.is_empty() {
            return Some(true);
        }
        (self.known_vcpus == self.online_vcpus).then_some(false)
    }
}

/// Whether an announced steal clock tells what probes see. `claimed_ratio` is the part of the wall time
/// that it says was stolen, over all online vCPUs.
pub fn steal_clock(announced: bool, claimed_ratio: f64, found: &VcpuSnapshot) -> Finding {
    const CHECK: &str = "steal clock";
    const NOTICEABLE: f64 = 0.05;
    let seen: Vec<f64> = found
        .vcpus
        .iter()
        .filter(|vcpu| vcpu.online && vcpu.verdict != Verdict::Unknown)
        .filter_map(|vcpu| vcpu.stolen_ratio.and_then(|stolen| stolen.trusted()))
        .collect();
    let seen_ratio = seen.iter().sum::<f64>() / seen.len().max(1) as f64;
    if !announced {
        return Finding::ok(
            CHECK,
            "KVM's is not announced: stolen time is found by late beats and probes, and what the \
             kernel says of it is only compared with",
        );
    }
    if seen.is_empty() || seen_ratio < NOTICEABLE {
        return Finding::ok(CHECK, "announced; nothing was stolen that it could be checked by");
    }
    if claimed_ratio < 0.5 * seen_ratio {
        return Finding::new(
            CHECK,
            Level::Warning,
            format!(
                "announced, but tells {:.0} % where probes see {:.0} %",
                claimed_ratio * 100.0,
                seen_ratio * 100.0
            ),
        )
        .advise("do not rely on %steal in top or in your monitoring here");
    }
    Finding::ok(CHECK, "announced, and tells what probes see")
}

#[cfg(test)]
mod tests {
    use super::*;
    use probers::snapshot::{Group, Vcpu};

    fn snapshot(shares: &[Option<f64>]) -> VcpuSnapshot {
        let estimate = |value| Estimate { value, age_s: 0.0, confidence: 0.9 };
        let vcpus = shares.iter().zip(0..).map(|(share, id)| Vcpu {
            id,
            online: true,
            verdict: Verdict::Reduced,
            share_ratio: share.map(estimate),
            stolen_ratio: share.map(|share| estimate(1.0 - share)),
            ..Vcpu::default()
        });
        VcpuSnapshot { vcpus: vcpus.collect(), ..VcpuSnapshot::default() }
    }

    #[test]
    fn honest_vcpus_lose_nothing_and_a_scheduler_gains_nothing() {
        let losses = Losses::of(&snapshot(&[Some(1.0), Some(0.99)]));
        assert_eq!(losses.worth_it(), Some(false));
        assert!(losses.findings().iter().all(|finding| finding.level != Level::Warning));
    }

    #[test]
    fn a_cap_is_told_from_a_neighbour() {
        let capped = Losses::of(&snapshot(&[Some(0.3), Some(0.32), Some(0.31)]));
        assert!(capped.uniform);
        assert_eq!(capped.cores().level, Level::Critical);
        let neighbour = Losses::of(&snapshot(&[Some(1.0), Some(0.5), Some(1.0)]));
        assert!(!neighbour.uniform);
        assert_eq!(neighbour.cores().level, Level::Warning);
        assert_eq!(neighbour.worth_it(), Some(true));
    }

    #[test]
    fn what_is_not_known_is_not_promised() {
        let losses = Losses::of(&snapshot(&[None, None]));
        assert_eq!(losses.worth_it(), None);
        assert_eq!(losses.cores().level, Level::Unknown);
    }

    #[test]
    fn stacks_cost_all_but_one_vcpu_each() {
        let mut found = snapshot(&[Some(1.0), Some(1.0), Some(1.0)]);
        found.topology.stacks.push(Group { members: vec![0, 1, 2], confidence: 1.0 });
        let losses = Losses::of(&found);
        assert_eq!(losses.stacked, [1, 2]);
        assert_eq!(losses.worth_it(), Some(true));
    }

    #[test]
    fn a_stack_that_is_not_sure_is_no_loss_and_not_passed_over() {
        let mut found = snapshot(&[Some(1.0), Some(1.0)]);
        found.topology.age_s = Some(0.0);
        found.topology.stacks.push(Group { members: vec![0, 1], confidence: 0.2 });
        let losses = Losses::of(&found);
        assert!(losses.stacked.is_empty());
        assert_eq!(losses.stacks().level, Level::Unknown);
    }

    #[test]
    fn a_steal_clock_is_believed_as_far_as_it_agrees() {
        let found = snapshot(&[Some(0.5), Some(0.5)]);
        assert_eq!(steal_clock(true, 0.05, &found).level, Level::Warning);
        assert_eq!(steal_clock(true, 0.45, &found).level, Level::Ok);
        assert_eq!(steal_clock(true, 0.0, &snapshot(&[Some(1.0)])).level, Level::Ok);
        assert_eq!(steal_clock(false, 0.0, &found).level, Level::Ok);
    }
}
