// SPDX-License-Identifier: GPL-2.0-only
//! Conditions on a snapshot: `share>=0.8`, several joined by commas.

use std::fmt;
use std::str::FromStr;

use probers::snapshot::{Estimate, Vcpu, VcpuSnapshot, Verdict};

/// The least and the most that a value can be, by what is known well enough.
type Range = (f64, f64);

/// What a condition can be about.
#[derive(Clone, Copy)]
enum Subject {
    /// A value of each online vCPU.
    EachVcpu(fn(&Vcpu) -> Option<Estimate>, f64),
    /// A value of the VM.
    Vm(fn(&VcpuSnapshot) -> Range),
}

/// The subjects by name; times are in ms.
const SUBJECTS: [(&str, Subject); 11] = [
    ("share", Subject::EachVcpu(|vcpu| vcpu.share_ratio, 1.0)),
    ("speed", Subject::EachVcpu(|vcpu| vcpu.speed_ratio, 1.0)),
    ("capacity", Subject::EachVcpu(|vcpu| vcpu.capacity, 1.0)),
    ("stolen", Subject::EachVcpu(|vcpu| vcpu.stolen_ratio, 1.0)),
    ("wakeup_ms", Subject::EachVcpu(|vcpu| vcpu.wakeup_latency_ns, 1e-6)),
    ("inactive_p95_ms", Subject::EachVcpu(|vcpu| vcpu.inactive_p95_ns, 1e-6)),
    ("effective", Subject::Vm(effective)),
    ("online", Subject::Vm(|found| range(online(found).count(), 0))),
    ("stragglers", Subject::Vm(|found| range(found.stragglers().count(), unknown(found)))),
    ("stacked", Subject::Vm(stacked)),
    ("unknown", Subject::Vm(|found| range(unknown(found), 0))),
];

fn online(found: &VcpuSnapshot) -> impl Iterator<Item = &Vcpu> {
    found.vcpus.iter().filter(|vcpu| vcpu.online)
}

fn unknown(found: &VcpuSnapshot) -> usize {
    online(found).filter(|vcpu| vcpu.verdict == Verdict::Unknown).count()
}

/// So many for sure, and so many more perhaps.
fn range(sure: usize, perhaps: usize) -> Range {
    (sure as f64, (sure + perhaps) as f64)
}

/// A vCPU whose share is not known gives something from nothing to a whole core.
fn effective(found: &VcpuSnapshot) -> Range {
    online(found).fold((0.0, 0.0), |(least, most), vcpu| {
        let share = vcpu.share_ratio.and_then(|share| share.trusted());
        (least + share.unwrap_or(0.0), most + share.unwrap_or(1.0))
    })
}

fn stacked(found: &VcpuSnapshot) -> Range {
    let topology = &found.topology;
    if topology.age_s.is_none() {
        return range(0, online(found).count());
    }
    let all = topology.stacks.iter().map(|stack| stack.members.len()).sum::<usize>();
    range(topology.nr_stacked(), all - topology.nr_stacked())
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

/// Why a check is not met, or not decided: sentences for people.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub unmet: Vec<String>,
    /// What is not known well enough to say.
    pub undecided: Vec<String>,
}

impl Check {
    /// Whether all conditions hold.
    pub fn judge(&self, found: &VcpuSnapshot) -> Outcome {
        let mut outcome = Outcome::default();
        for condition in &self.0 {
            condition.judge(found, &mut outcome);
        }
        outcome
    }
}

impl Condition {
    fn judge(&self, found: &VcpuSnapshot, outcome: &mut Outcome) {
        match self.subject {
            Subject::Vm(value) => {
                let (least, most) = value(found);
                let is = format!("it is {} to {}", Rounded(least), Rounded(most));
                self.judge_value((least, most), "it is", is, outcome);
            }
            Subject::EachVcpu(estimate, scale) => {
                for vcpu in online(found) {
                    let guess = estimate(vcpu);
                    let known = guess.and_then(|guess| guess.trusted()).map(|value| value * scale);
                    let range = known.map_or((f64::MIN, f64::MAX), |value| (value, value));
                    let open = match guess {
                        Some(guess) => {
                            format!("vCPU {} has {}?", vcpu.id, Rounded(guess.value * scale))
                        }
                        None => format!("nothing is known of vCPU {}", vcpu.id),
                    };
                    self.judge_value(range, &format!("vCPU {} has", vcpu.id), open, outcome);
                }
            }
        }
    }

    /// Judge a value in `range`; `has` says whose it is, and `open` what is known of it if that is too little.
    fn judge_value(&self, (least, most): Range, has: &str, open: String, outcome: &mut Outcome) {
        let (text, bound) = (&self.text, self.bound);
        match ((self.holds)(least, bound), (self.holds)(most, bound)) {
            (true, true) => {}
            (false, false) if bound <= least || bound >= most => {
                outcome.unmet.push(format!("{text} is not met: {has} {}", Rounded(least)));
            }
            _ => outcome.undecided.push(format!(
                "{text} is undecided: {open}, not known well enough; probe for longer with --duration"
            )),
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
    use probers::snapshot::Group;

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

    fn judge(check: &str, found: &VcpuSnapshot) -> Outcome {
        check.parse::<Check>().map(|check| check.judge(found)).unwrap_or_default()
    }

    fn is_met(check: &str, found: &VcpuSnapshot) -> bool {
        judge(check, found) == Outcome::default()
    }

    #[test]
    fn each_online_vcpu_has_to_meet_it() {
        let mut found = snapshot(&[Some(0.9), Some(0.5), Some(0.7)]);
        let unmet = judge("share >= 0.8", &found).unmet;
        assert_eq!(unmet.len(), 2, "{unmet:?}");
        assert!(unmet[0].contains("vCPU 1 has 0.500") && unmet[1].contains("vCPU 2"), "{unmet:?}");
        found.vcpus[1].online = false;
        found.vcpus[2].online = false;
        assert!(is_met("share>=0.8", &found));
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
            "wakeup_ms<3, stragglers<2",
            "online==1",
            "unknown==1",
            "effective==0.5",
        ] {
            assert!(is_met(met, &found), "{met}: {:?}", judge(met, &found));
        }
        for unmet in
            ["share>0.5", "share<0.5", "share>=0.1,stragglers>1", "effective>=1", "wakeup_ms<1"]
        {
            assert_eq!(judge(unmet, &found).unmet.len(), 1, "{unmet}");
        }
    }

    #[test]
    fn what_is_not_known_well_enough_decides_nothing_and_is_named() {
        let mut found = snapshot(&[Some(0.9), Some(0.1), None]);
        if let Some(share) = &mut found.vcpus[1].share_ratio {
            share.confidence = 0.4;
        }
        for check in ["share>=0.8", "share<0.95", "share==0.1"] {
            let outcome = judge(check, &found);
            let [one, two] = outcome.undecided.as_slice() else {
                unreachable!("{check}: {outcome:?}");
            };
            assert!(one.contains("vCPU 1 has 0.100?") && one.contains("--duration"), "{one}");
            assert!(two.contains("nothing is known of vCPU 2"), "{two}");
        }
        assert_eq!(judge("share>0.95", &found).unmet.len(), 1);
    }

    #[test]
    fn values_of_the_vm_are_decided_as_far_as_its_vcpus_are_known() {
        let mut found = snapshot(&[Some(0.9), None, None]);
        found.vcpus[0].verdict = Verdict::Good;
        for decided in ["effective<3", "stragglers<=2", "unknown==2", "online==3"] {
            assert!(is_met(decided, &found), "{decided}: {:?}", judge(decided, &found));
        }
        for unmet in ["effective>2.95", "stragglers==3", "effective==0.5"] {
            assert_eq!(judge(unmet, &found).unmet.len(), 1, "{unmet}");
        }
        for open in ["effective>=2", "stragglers==0", "stragglers==1", "stragglers==2"] {
            let outcome = judge(open, &found);
            assert_eq!((outcome.unmet.len(), outcome.undecided.len()), (0, 1), "{open}");
        }
    }

    #[test]
    fn stacks_count_when_they_are_sure() {
        let mut found = snapshot(&[Some(1.0), Some(1.0)]);
        assert_eq!(judge("stacked==0", &found).undecided.len(), 1); // nobody looked
        found.topology.age_s = Some(1.0);
        assert!(is_met("stacked==0", &found));
        found.topology.stacks = vec![Group { members: vec![0, 1], confidence: 0.2 }];
        assert_eq!(judge("stacked==0", &found).undecided.len(), 1);
        found.topology.stacks[0].confidence = 0.9;
        assert_eq!(judge("stacked==0", &found).unmet.len(), 1);
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
