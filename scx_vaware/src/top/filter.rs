// SPDX-License-Identifier: GPL-2.0-only
//! Which vCPUs are shown: words that all have to hold.

use std::str::FromStr;

use super::columns::{COLUMNS, position};
use super::model::Vcpu;

/// How a filter is written.
pub const GRAMMAR: &str = "banned, straggler, stacked, numbers such as 0-7, or a comparison such as stolen>10 (%, ms, 1/s)";

/// Conditions that all hold for the vCPUs that are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// As it was written.
    pub text: String,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Banned,
    Straggler,
    /// It shares a hardware thread with another one.
    Stacked,
    Numbers(u32, u32),
    /// The column's value in the unit that it is shown in is above, or below, this.
    Above(usize, f64),
    Below(usize, f64),
}

impl Filter {
    /// The vCPUs of `vcpus` for which it holds.
    pub fn select<'a>(&self, vcpus: &'a [Vcpu]) -> Vec<&'a Vcpu> {
        let mut members = std::collections::BTreeMap::new();
        for stack in vcpus.iter().filter_map(|vcpu| vcpu.stack) {
            *members.entry(stack).or_insert(0) += 1;
        }
        let is_stacked = |vcpu: &Vcpu| {
            vcpu.stack.and_then(|stack| members.get(&stack)).is_some_and(|number| *number > 1)
        };
        let numbers: Vec<_> = self
            .conditions
            .iter()
            .filter_map(|condition| match condition {
                Condition::Numbers(first, last) => Some(*first..=*last),
                _ => None,
            })
            .collect();
        let holds = |vcpu: &Vcpu, condition: &Condition| match condition {
            Condition::Banned => vcpu.banned,
            Condition::Straggler => vcpu.straggler,
            Condition::Stacked => is_stacked(vcpu),
            // Of several lists one is enough.
            Condition::Numbers(..) => numbers.iter().any(|range| range.contains(&vcpu.cpu)),
            Condition::Above(column, limit) => shown(*column, vcpu).is_some_and(|v| v > *limit),
            Condition::Below(column, limit) => shown(*column, vcpu).is_some_and(|v| v < *limit),
        };
        let all = |vcpu: &&Vcpu| self.conditions.iter().all(|condition| holds(vcpu, condition));
        vcpus.iter().filter(all).collect()
    }
}

fn shown(column: usize, vcpu: &Vcpu) -> Option<f64> {
    let column = COLUMNS.get(column)?;
    Some((column.value)(vcpu)? * column.kind.scale())
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let conditions = words.map(condition).collect::<Result<_, _>>()?;
        Ok(Self { text: text.trim().into(), conditions })
    }
}

fn condition(word: &str) -> Result<Condition, String> {
    let wrong = || format!("'{word}' is no condition; write {GRAMMAR}");
    match word {
        "banned" => return Ok(Condition::Banned),
        "straggler" => return Ok(Condition::Straggler),
        "stacked" => return Ok(Condition::Stacked),
        _ => {}
    }
    if let Some(at) = word.find(['<', '>']) {
        let (name, limit) = (&word[..at], &word[at + 1..]);
        let column = position(name).ok_or_else(wrong)?;
        let limit: f64 =
            limit.parse().ok().filter(|limit: &f64| limit.is_finite()).ok_or_else(wrong)?;
        let is_above = word.as_bytes()[at] == b'>';
        return Ok(if is_above {
            Condition::Above(column, limit)
        } else {
            Condition::Below(column, limit)
        });
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(Condition::Numbers(first, last)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::top::model::tests::simulated;

    fn shown_by(filter: &str) -> Result<Vec<u32>, String> {
        let vm = simulated(32);
        let filter: Filter = filter.parse()?;
        Ok(filter.select(&vm.vcpus).iter().map(|vcpu| vcpu.cpu).collect())
    }

    #[test]
    fn all_conditions_have_to_hold_and_one_of_the_numbers() {
        assert_eq!(shown_by("").map(|all| all.len()), Ok(32));
        assert_eq!(shown_by("banned"), Ok(vec![7, 15, 23, 31]));
        assert_eq!(shown_by("straggler 0-16"), Ok(vec![7, 15]));
        assert_eq!(shown_by("3, 5,30-31"), Ok(vec![3, 5, 30, 31]));
        assert_eq!(shown_by("busy>29"), Ok(vec![30, 31]));
        assert_eq!(shown_by("capacity<0.5 busy>20"), Ok(vec![23, 31]));
        assert_eq!(shown_by("wakeup>0.05 vcpu<2"), Ok(vec![0, 1]));
        assert_eq!(shown_by("stacked"), Ok(vec![]));
    }

    #[test]
    fn nonsense_is_answered_by_what_to_write() {
        for text in
            ["turbo", "busy>", "busy>nan", ">3", "3-1", "-", "busy=3", "1-2-3", "99999999999"]
        {
            let refused = text.parse::<Filter>();
            assert!(refused.as_ref().is_err_and(|why| why.contains("stolen>10")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_filter_or_answered(text in ".*") {
            if let Ok(filter) = text.parse::<Filter>() {
                prop_assert!(filter.select(&simulated(4).vcpus).len() <= 4);
            }
        }
    }
}
