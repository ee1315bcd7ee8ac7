// SPDX-License-Identifier: GPL-2.0-only
//! Device interrupts that land on vCPUs which are bad at serving them: each waits for its vCPU to run.

use std::collections::BTreeMap;
use std::fs;

use probers::snapshot::VcpuSnapshot;

use super::finding::{Finding, Level};

/// Interrupts rarer than this are not worth moving.
const RATE_MIN_PER_S: f64 = 5.0;
/// How many a sentence names.
const NAMED: usize = 4;

/// Counts of device interrupts: by number and name, and by vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(u32, String), BTreeMap<u32, u64>>);

impl Counts {
    /// Those since boot; empty if the kernel does not tell.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/interrupts").unwrap_or_default())
    }

    /// The header names the online vCPUs; each line then has a count for each of them, and a name.
    /// Lines without a number are the kernel's own (timer, rescheduling), which no one can move.
    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default().split_ascii_whitespace();
        let vcpus: Vec<u32> =
            header.filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
        let counts = lines.filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let mut words = rest.split_ascii_whitespace();
            let counts: BTreeMap<u32, u64> = vcpus
                .iter()
                .zip(&mut words)
                .map_while(|(v, w)| Some((*v, w.parse().ok()?)))
                .collect();
            let name = words.next_back().unwrap_or("unnamed").to_string();
            Some(((number.trim().parse().ok()?, name), counts))
        });
        Self(counts.collect())
    }

    /// Interrupts per second of each line on the given vCPUs since `before`.
    fn rates(&self, before: &Self, seconds: f64, vcpus: &[u32]) -> Vec<(u32, String, f64)> {
        let rates = self.0.iter().filter_map(|(key, counts)| {
            let then = before.0.get(key)?;
            let came: f64 = vcpus
                .iter()
                .filter_map(|vcpu| counts.get(vcpu)?.checked_sub(*then.get(vcpu)?))
                .map(|came| came as f64)
                .sum();
            Some((key.0, key.1.clone(), came / seconds.max(0.001)))
        });
        rates.filter(|(.., rate)| *rate >= RATE_MIN_PER_S).collect()
    }
}

/// Judge where interrupts landed between two counts.
pub fn judge(before: &Counts, after: &Counts, seconds: f64, found: &VcpuSnapshot) -> Finding {
    const CHECK: &str = "interrupts";
    if after.0.is_empty() {
        return Finding::new(CHECK, Level::Unknown, "/proc/interrupts names no device interrupt");
    }
    let bad = bad_vcpus(found);
    if bad.is_empty() {
        return Finding::ok(CHECK, "no straggler and no stacked vCPU that could delay them");
    }
    let landed = after.rates(before, seconds, &bad);
    if landed.is_empty() {
        return Finding::ok(CHECK, format!("none to speak of land on vCPUs {bad:?}"));
    }
    let named: Vec<_> = landed
        .iter()
        .take(NAMED)
        .map(|(number, name, rate)| format!("{name} (IRQ {number}, {rate:.0}/s)"))
        .collect();
    let more = if landed.len() > NAMED { " and more" } else { "" };
    let good: Vec<_> = found
        .vcpus
        .iter()
        .filter(|vcpu| vcpu.online && !bad.contains(&vcpu.id))
        .map(|vcpu| vcpu.id.to_string())
        .collect();
    let finding = Finding::new(
        CHECK,
        Level::Warning,
        format!("{}{more} land on vCPUs {bad:?}, which serve them late", named.join(", ")),
    );
    if good.is_empty() {
        return finding.advise("no vCPU is better: ask the provider for another VM");
    }
    finding.advise(format!(
        "set move_interrupts = true; or write {} to /proc/irq/{}/smp_affinity_list, and likewise for \
         the others, and stop irqbalance or let it ban those vCPUs",
        good.join(","),
        landed[0].0
    ))
}

/// Stragglers, and of each stack all but the first.
fn bad_vcpus(found: &VcpuSnapshot) -> Vec<u32> {
    let mut bad: Vec<u32> = found.stragglers().chain(found.topology.spare()).collect();
    bad.sort_unstable();
    bad.dedup();
    bad
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use probers::snapshot::{Group, Topology, Vcpu, Verdict};

    const BEFORE: &str = "\
            CPU0       CPU1       CPU3
   0:         10          0          0   IO-APIC   2-edge      timer
  24:        100        200        300   PCI-MSI 1048576-edge      virtio1-req.0
  25:        100          0          0   PCI-MSI 1048577-edge      eth0
 LOC:       1000       2000       3000   Local timer interrupts
";

    fn after() -> Counts {
        Counts::parse(
            &BEFORE.replace("300   PCI", "900   PCI").replace("25:        100", "25:        900"),
        )
    }

    fn snapshot(straggler: Option<u32>, stack: &[u32]) -> VcpuSnapshot {
        let verdict = |id| if straggler == Some(id) { Verdict::Straggler } else { Verdict::Good };
        VcpuSnapshot {
            vcpus: [0, 1, 3]
                .map(|id| Vcpu { id, online: true, verdict: verdict(id), ..Vcpu::default() })
                .into(),
            topology: Topology {
                stacks: vec![Group { members: stack.to_vec(), confidence: 1.0 }],
                ..Topology::default()
            },
            ..VcpuSnapshot::default()
        }
    }

    proptest! {
        #[test]
        fn any_interrupts_are_counted_or_left_out(
            texts in proptest::collection::vec(
                prop_oneof![
                    "( |CPU[0-9]{0,11}){0,4}\n([ 0-9A-Z]{0,5}:[ 0-9a-z.-]{0,40}\n){0,4}",
                    any::<String>(),
                ],
                2,
            ),
            seconds: f64,
        ) {
            let counts: Vec<_> = texts.iter().map(|text| Counts::parse(text)).collect();
            let found = judge(&counts[0], &counts[1], seconds, &snapshot(Some(3), &[0, 1]));
            prop_assert!(!found.text.is_empty());
        }
    }

    #[test]
    fn interrupts_on_a_straggler_are_named_with_where_to_move_them() {
        let found = judge(&Counts::parse(BEFORE), &after(), 2.0, &snapshot(Some(3), &[]));
        assert_eq!(found.level, Level::Warning);
        assert!(found.text.contains("virtio1-req.0 (IRQ 24, 300/s)"), "{}", found.text);
        assert!(!found.text.contains("eth0"), "{}", found.text);
        assert!(found.advice.is_some_and(|advice| advice.contains("0,1 to /proc/irq/24/")));
    }

    #[test]
    fn one_vcpu_of_a_stack_is_good_enough() {
        let before = Counts::parse(BEFORE);
        assert_eq!(judge(&before, &after(), 2.0, &snapshot(None, &[0, 1])).level, Level::Ok);
        assert_eq!(judge(&before, &after(), 2.0, &snapshot(None, &[1, 3])).level, Level::Warning);
    }

    #[test]
    fn where_no_vcpu_is_good_nothing_is_to_be_moved() {
        let mut found = snapshot(Some(0), &[0, 1]);
        found.vcpus.truncate(2);
        let advice = judge(&Counts::parse(BEFORE), &after(), 2.0, &found).advice;
        assert!(advice.is_some_and(|advice| !advice.contains("smp_affinity_list")));
    }

    #[test]
    fn without_bad_vcpus_or_counts_there_is_nothing_to_move() {
        let before = Counts::parse(BEFORE);
        assert_eq!(judge(&before, &after(), 2.0, &snapshot(None, &[])).level, Level::Ok);
        let none = Counts::parse("");
        assert_eq!(judge(&none, &none, 2.0, &snapshot(Some(3), &[])).level, Level::Unknown);
    }
}
