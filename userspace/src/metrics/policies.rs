// SPDX-License-Identifier: GPL-2.0-only
//! What each policy has been found to be worth, by the kernel half's governor.

use std::fmt::Result;

use super::Sample;
use super::page::Page;
use intf::{OUTCOMES, VERDICTS};

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    let trials = &sample.trials;
    let verdicts = trials.iter().flat_map(|trial| {
        VERDICTS.map(|verdict| {
            let labels = [("policy", trial.policy), ("verdict", verdict)];
            (labels, f64::from(u8::from(trial.verdict == verdict)))
        })
    });
    page.gauges(
        (
            "policy_verdict",
            None,
            "1 for what the governor has found of the policy on this VM, else 0",
        ),
        verdicts.collect(),
    )?;
    let outcomes = || {
        trials.iter().flat_map(|trial| {
            OUTCOMES
                .iter()
                .zip(trial.outcomes)
                .map(|(outcome, seen)| ([("policy", trial.policy), ("outcome", *outcome)], seen))
        })
    };
    let gains = outcomes().filter_map(|(labels, seen)| Some((labels, seen.gain_ratio?)));
    page.gauges(
        (
            "policy_gain_ratio",
            None,
            "How many times as good tasks fare with a policy as without it, in the epochs remembered",
        ),
        gains.collect(),
    )?;
    page.gauges(
        (
            "policy_epochs",
            None,
            "Epochs that are remembered of the kind, with or without the policy, with less of them",
        ),
        outcomes()
            .map(|(labels, seen)| (labels, seen.epochs[0].min(seen.epochs[1]) as f64))
            .collect(),
    )
}
