// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel half's governor has found out about each policy (`bpf/policy/governor.h`).

use anyhow::Context;
use intf::{OUTCOMES, POLICIES, VERDICTS, vaware_trial};
use libbpf_rs::MapCore;

use crate::kernel_map;
use crate::verdicts::Priors;

/// Outcomes are logarithms to the base of 2, in so many parts.
const LOG_PARTS: f64 = 256.0;

/// A policy in service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Its name.
    pub policy: &'static str,
    /// `open`, `wins` or `loses`.
    pub verdict: &'static str,
    /// By outcome, in the order of [`OUTCOMES`].
    pub outcomes: [Outcome; OUTCOMES.len()],
}

/// What is remembered of one outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Epochs without and with the policy: of equal weight, as many as would say as much. Older
    /// ones fade.
    pub epochs: [u64; 2],
    /// How many times as good it was with the policy, if there were epochs of both kinds: above 1
    /// tasks obtained more of the time that they wanted, or waited less.
    pub gain_ratio: Option<f64>,
}

impl Trial {
    fn from_kernel(index: usize, trial: &vaware_trial) -> Option<Self> {
        let outcome = |index: usize| {
            let [without, with] = trial.arms.map(|arm| arm[index]);
            let mean = |epochs: intf::vaware_epochs| epochs.sum as f64 / epochs.weight as f64;
            let more = (mean(with) - mean(without)) / LOG_PARTS;
            let is_better_below = index == intf::VAWARE_OUTCOME_WAIT as usize;
            Outcome {
                epochs: [without.count, with.count],
                gain_ratio: (without.count > 0 && with.count > 0)
                    .then(|| if is_better_below { -more } else { more }.exp2()),
            }
        };
        Some(Self {
            policy: POLICIES.get(index)?,
            verdict: VERDICTS.get(trial.verdict as usize)?,
            outcomes: std::array::from_fn(outcome),
        })
    }
}

/// Read all policies from the kernel half's map of them.
///
/// # Errors
/// What the kernel said of a map that was there at load.
pub(crate) fn read(map: &impl MapCore) -> anyhow::Result<Vec<Trial>> {
    let trials = (0..POLICIES.len()).map(|index| {
        let trial = kernel_map::read(map, index as u32)?
            .with_context(|| format!("policy {} has no trial", POLICIES[index]))?;
        Trial::from_kernel(index, &trial)
            .with_context(|| format!("the verdict on {} is none", POLICIES[index]))
    });
    trials.collect()
}

/// Have each policy begin with one of `priors`.
///
/// # Errors
/// What the kernel said of a map that was there at load.
pub(crate) fn begin(map: &impl MapCore, priors: Priors) -> anyhow::Result<()> {
    for (index, prior) in priors.into_iter().enumerate() {
        let trial = vaware_trial { verdict: prior, prior, ..vaware_trial::default() };
        kernel_map::write(map, index as u32, &trial)
            .with_context(|| format!("telling the governor of {}", POLICIES[index]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(count: u64, log_256: u64) -> intf::vaware_epochs {
        let weight = 1000 * count;
        intf::vaware_epochs {
            count,
            weight,
            weight_sq: 1000 * weight,
            sum: weight * log_256,
            sum_sq: weight * log_256 * log_256,
        }
    }

    #[test]
    fn gains_are_ratios_in_which_more_is_better() {
        let trial = vaware_trial {
            arms: [[epochs(4, 2560), epochs(4, 5120)], [epochs(8, 2816), epochs(2, 4608)]],
            acted_epoch: 9,
            verdict: u64::from(intf::VAWARE_TRIAL_WINS),
            prior: 0,
        };
        let told = Trial::from_kernel(1, &trial);
        let gains = told.map(|told| told.outcomes.map(|outcome| outcome.gain_ratio));
        assert_eq!(gains, Some([Some(2.0), Some(4.0)]), "an octave more, two octaves less wait");
        let counts = told.map(|told| told.outcomes.map(|outcome| outcome.epochs));
        assert_eq!(counts, Some([[4, 8], [4, 2]]));
        assert_eq!(told.map(|told| (told.policy, told.verdict)), Some(("ivh", "wins")));
    }

    #[test]
    fn nothing_is_said_of_what_was_not_seen() {
        let nothing = Trial::from_kernel(0, &vaware_trial::default());
        let gains = nothing.map(|told| told.outcomes.map(|outcome| outcome.gain_ratio));
        assert_eq!(gains, Some([None, None]));
        assert_eq!(Trial::from_kernel(0, &vaware_trial { verdict: 7, ..Default::default() }), None);
        assert_eq!(Trial::from_kernel(99, &vaware_trial::default()), None);
    }
}
