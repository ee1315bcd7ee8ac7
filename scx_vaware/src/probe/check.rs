// SPDX-License-Identifier: GPL-2.0-only
//! Conditions on a snapshot: `share>=0.8`, several joined by commas.

use std::fmt;
use std::str::FromStr;

use probers::snapshot::{Estimate, Vcpu, VcpuSnapshot, Verdict};

/// What a condition can be about.
#[derive(Clone, Copy)]
enum Subject {
    /// A value of each online vCPU.
    EachVcpu(fn(&Vcpu) -> Option<Estimate>, f64),
    /// A value of the VM.
    Vm(fn(&VcpuSnapshot) -> Option<f64>),
}

/// The subjects by name; times are in ms.
const SUBJECTS: [(&str, Subject); 11] = [
    ("share", Subject::EachVcpu(|vcpu| vcpu.share_ratio, 1.0)),
    ("speed", Subject::EachVcpu(|vcpu| vcpu.speed_ratio, 1.0)),
    ("capacity", Subject::EachVcpu(|vcpu| vcpu.capacity, 1.0)),
    ("stolen", Subject::EachVcpu(|vcpu| vcpu.stolen_ratio, 1.0)),
    ("wakeup_ms", Subject::EachVcpu(|vcpu| vcpu.wakeup_latency_ns, 1e-6)),
    ("inactive_p95_ms", Subject::EachVcpu(|vcpu| vcpu.inactive_p95_ns, 1e-6)),
    ("effective", Subject::Vm(|found| found.effective_vcpus.map(|effective| effective.value))),
    ("online", Subject::Vm(|found| Some(count(found, |vcpu| vcpu.online)))),
    ("stragglers", Subject::Vm(|found| Some(found.stragglers().count() as f64))),
    (
        "stacked",
        Subject::Vm(|found| found.topology.age_s.map(|_| found.topology.nr_stacked() as f64)),
    ),
    (
        "unknown",
        Subject::Vm(|found| {
            Some(count(found, |vcpu| vcpu.online && vcpu.verdict == Verdict::Unknown))
        }),
    ),
];

fn count(found: &VcpuSnapshot, condition: impl Fn(&Vcpu) -> bool) -> f64 {
    found.vcpus.iter().filter(|vcpu| condition(vcpu)).count() as f64
}

type Comparison = fn(f64, f64) -> bool;

/// The comparisons; those of two characters first, as they begin like the others.
const OPERATORS: [(&str, Comparison); 5] = [
    (">=", |value, bound| value >= bound),
    ("<=", |value, bound| value <= bound),
    ("==", |value, bound| value == bound),
    (">", |value, bound| value > bound),
    ("<", |value, bound| value < bound),
];

#[derive(Clone)]
struct Condition {
    text: String,
    subject: Subject,
    holds: Comparison,
    bound: f64,
}

/// Conditions that all have to hold.
#[derive(Clone)]
pub struct Check(Vec<Condition>);

impl Check {
    /// Why it is not met, a sentence for each reason; empty if it is met. What is not known does not meet
    /// anything.
    pub fn failures(&self, found: &VcpuSnapshot) -> Vec<String> {
        self.0.iter().flat_map(|condition| condition.failures(found)).collect()
    }
}

impl Condition {
    fn failures(&self, found: &VcpuSnapshot) -> Vec<String> {
        let text = &self.text;
        match self.subject {
            Subject::Vm(value) => match value(found) {
                Some(value) if (self.holds)(value, self.bound) => Vec::new(),
                Some(value) => vec![format!("{text} is not met: it is {}", Rounded(value))],
                None => vec![format!("{text} is not met: nothing is known of it")],
            },
            Subject::EachVcpu(estimate, scale) => found
                .vcpus
                .iter()
                .filter(|vcpu| vcpu.online)
                .filter_map(|vcpu| {
                    let value = estimate(vcpu).map(|estimate| estimate.value * scale);
                    match value {
                        Some(value) if (self.holds)(value, self.bound) => None,
                        Some(value) => Some(format!(
                            "{text} is not met: vCPU {} has {}",
                            vcpu.id,
                            Rounded(value)
                        )),
                        None => {
                            Some(format!("{text} is not met: nothing is known of vCPU {}", vcpu.id))
                        }
                    }
                })
                .collect(),
        }
    }
}

struct Rounded(f64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.0.fract() == 0.0 { 0 } else { 3 };
        write!(f, "{:.digits$}", self.0)
    }
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(condition).collect::<Result<_, _>>().map(Self)
    }
}

fn condition(text: &str) -> Result<Condition, String> {
    let text = text.trim();
    let (at, operator, holds) = OPERATORS
        .iter()
        .filter_map(|(operator, holds)| Some((text.find(operator)?, *operator, *holds)))
        .min_by_key(|(at, operator, _)| (*at, std::cmp::Reverse(operator.len())))
        .ok_or_else(|| format!("{text:?} compares nothing; write it like share>=0.8"))?;
    let (name, bound) = (text[..at].trim(), text[at + operator.len()..].trim());
    let subject = SUBJECTS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<_> = SUBJECTS.iter().map(|(name, _)| *name).collect();
        format!("nothing is called {name:?}; choose one of {}", known.join(", "))
    })?;
    let bound = bound
        .parse::<f64>()
        .ok()
        .filter(|bound| bound.is_finite())
        .ok_or_else(|| format!("{bound:?} is no number; write it like {name}{operator}0.8"))?;
    Ok(Condition { text: text.into(), subject: subject.1, holds, bound })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(shares: &[Option<f64>]) -> VcpuSnapshot {
        let vcpus = shares.iter().zip(0..).map(|(share, id)| Vcpu {
            id,
            online: true,
            share_ratio: share.map(|value| Estimate { value, age_s: 0.0, confidence: 1.0 }),
            wakeup_latency_ns: Some(Estimate { value: 2e6, age_s: 0.0, confidence: 1.0 }),
            ..Vcpu::default()
        });
        VcpuSnapshot { vcpus: vcpus.collect(), ..VcpuSnapshot::default() }
    }

    fn failures(check: &str, found: &VcpuSnapshot) -> Option<Vec<String>> {
        check.parse::<Check>().ok().map(|check| check.failures(found))
    }

    #[test]
    fn each_online_vcpu_has_to_meet_it() {
        let mut found = snapshot(&[Some(0.9), Some(0.5), None]);
        let unmet = failures("share >= 0.8", &found).unwrap_or_default();
        assert_eq!(unmet.len(), 2, "{unmet:?}");
        assert!(unmet[0].contains("vCPU 1 has 0.500") && unmet[1].contains("vCPU 2"), "{unmet:?}");
        found.vcpus[1].online = false;
        found.vcpus[2].online = false;
        assert_eq!(failures("share>=0.8", &found), Some(Vec::new()));
    }

    #[test]
    fn all_conditions_and_all_operators_count() {
        let found = snapshot(&[Some(0.5)]);
        for met in [
            "share>=0.5",
            "share<=0.5",
            "share==0.5",
            "share>0.4",
            "share<0.6",
            "wakeup_ms<3, stragglers==0",
            "online==1",
            "unknown==1",
        ] {
            assert_eq!(failures(met, &found), Some(Vec::new()), "{met}");
        }
        for unmet in
            ["share>0.5", "share<0.5", "share>=0.1,stragglers>0", "effective>=1", "wakeup_ms<1"]
        {
            assert_eq!(failures(unmet, &found).map(|unmet| unmet.len()), Some(1), "{unmet}");
        }
    }

    #[test]
    fn stacks_that_nobody_looked_for_are_not_known() {
        let mut found = snapshot(&[Some(1.0)]);
        let unmet = failures("stacked==0", &found).unwrap_or_default();
        assert!(unmet.iter().any(|why| why.contains("nothing is known")), "{unmet:?}");
        found.topology.age_s = Some(1.0);
        assert_eq!(failures("stacked==0", &found), Some(Vec::new()));
    }

    #[test]
    fn nonsense_is_named() {
        for (text, named) in [
            ("share", "compares nothing"),
            ("", "compares nothing"),
            ("shares>=0.8", "\"shares\""),
            ("share>=much", "\"much\""),
            ("share>=nan", "\"nan\""),
            ("share>=0.8,", "compares nothing"),
            ("share=0.8", "compares nothing"),
            (">=0.8", "\"\""),
        ] {
            let error = text.parse::<Check>().err().unwrap_or_default();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
