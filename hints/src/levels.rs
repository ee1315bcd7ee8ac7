// SPDX-License-Identifier: GPL-2.0-only
//! Capacities to schedule by: measured ones that cannot be told apart become one, for to move work by
//! noise costs more than it gains.

/// Two levels differ if their distance is so many standard errors of a single measurement of each: that of
/// their means would split any noise in two, as the levels were chosen by the values.
const TELL_APART_SIGMAS: f64 = 3.0;
/// Errors are never taken for smaller: what makes two looks at a vCPU alike, such as neighbours that come
/// and go, is not in them.
const ERROR_MIN_RATIO: f64 = 0.03;
/// The error of a capacity of which nothing is known: no other one is told apart from it.
const UNKNOWN_ERROR_RATIO: f64 = 0.5;

/// A capacity and its standard error, both as parts of a whole core of the best speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub ratio: f64,
    pub error_ratio: f64,
}

impl Measured {
    /// As good as the best, for want of knowledge.
    pub const UNKNOWN: Self = Self { ratio: 1.0, error_ratio: UNKNOWN_ERROR_RATIO };

    fn weight(self) -> f64 {
        self.error_ratio.max(ERROR_MIN_RATIO).powi(-2)
    }
}

/// vCPUs that count as equal.
struct Level {
    /// Their mean, by weight.
    ratio: f64,
    /// Sum of their inverse variances.
    weight: f64,
    members: Vec<usize>,
}

impl Level {
    /// Of one of its members.
    fn variance(&self) -> f64 {
        self.members.len() as f64 / self.weight
    }

    /// How many standard errors `higher` is above this one.
    fn sigmas_to(&self, higher: &Self) -> f64 {
        (higher.ratio - self.ratio) / (self.variance() + higher.variance()).sqrt()
    }

    fn join(&mut self, other: Self) {
        let weight = self.weight + other.weight;
        self.ratio = (self.ratio * self.weight + other.ratio * other.weight) / weight;
        self.weight = weight;
        self.members.extend(other.members);
    }
}

/// The capacities to act on, in the order of `measured`: neighbours that cannot be told apart are joined, the
/// closest first, until all that is left differs.
pub fn levels(measured: &[Measured]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..measured.len()).collect();
    order.sort_by(|&a, &b| measured[a].ratio.total_cmp(&measured[b].ratio));
    let mut levels: Vec<Level> = order
        .into_iter()
        .map(|index| Level {
            ratio: measured[index].ratio,
            weight: measured[index].weight(),
            members: vec![index],
        })
        .collect();
    while let Some((index, sigmas)) = closest(&levels) {
        if sigmas >= TELL_APART_SIGMAS {
            break;
        }
        let higher = levels.remove(index + 1);
        levels[index].join(higher);
    }
    let mut ratios = vec![1.0; measured.len()];
    for level in levels {
        level.members.into_iter().for_each(|member| ratios[member] = level.ratio);
    }
    ratios
}

/// The level that is closest to the next one, and how far away that is.
fn closest(levels: &[Level]) -> Option<(usize, f64)> {
    levels
        .windows(2)
        .map(|pair| pair[0].sigmas_to(&pair[1]))
        .enumerate()
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(ratios: &[f64], error_ratio: f64) -> Vec<Measured> {
        ratios.iter().map(|&ratio| Measured { ratio, error_ratio }).collect()
    }

    proptest! {
        /// vCPUs that the host treats alike are alike, whatever chance made of their measurements.
        #[test]
        fn noise_is_one_level(
            truth in 0.1..1.0f64,
            error in 0.01..0.2f64,
            sigmas in prop::collection::vec(-2.0..2.0f64, 1..64),
        ) {
            let ratios: Vec<_> = sigmas.iter().map(|s| truth + s * error.max(ERROR_MIN_RATIO)).collect();
            let told = levels(&measured(&ratios, error));
            prop_assert!(told.iter().all(|ratio| (ratio - told[0]).abs() < 1e-9), "{told:?}");
        }

        /// Two kinds of vCPU stay two, and each kind is worth what its measurements say.
        #[test]
        fn what_differs_clearly_stays_apart(
            slow in 2usize..16, fast in 2usize..16, noise in 0.0..0.03f64,
        ) {
            let kind = |ratio: f64, n: usize| (0..n).map(move |i| ratio + noise * (i % 2) as f64);
            let ratios: Vec<_> = kind(0.5, slow).chain(kind(0.9, fast)).collect();
            let told = levels(&measured(&ratios, 0.04));
            prop_assert!(told[..slow].iter().all(|r| (0.5..=0.53).contains(r)), "{told:?}");
            prop_assert!(told[slow..].iter().all(|r| (0.9..=0.93).contains(r)), "{told:?}");
        }

        /// A vCPU that measured more than another is never told to be worth less.
        #[test]
        fn the_order_is_kept(
            all in prop::collection::vec((0.0..1.0f64, 0.0..0.3f64), 0..40),
        ) {
            let all: Vec<_> =
                all.into_iter().map(|(ratio, error_ratio)| Measured { ratio, error_ratio }).collect();
            let told = levels(&all);
            for (a, a_told) in all.iter().zip(&told) {
                for (b, b_told) in all.iter().zip(&told) {
                    prop_assert!(a.ratio > b.ratio || a_told <= b_told);
                }
            }
        }
    }

    #[test]
    fn a_vcpu_of_which_nothing_is_known_is_as_good_as_the_best() {
        let mut all = measured(&[0.1, 0.5], 0.02);
        all.push(Measured::UNKNOWN);
        let told = levels(&all);
        assert_eq!((told[0], told[1]), (0.1, told[2]));
        assert_eq!(levels(&[Measured::UNKNOWN; 2]), [1.0, 1.0]);
    }
}
