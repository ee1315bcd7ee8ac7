// SPDX-License-Identifier: GPL-2.0-only
//! The time without a scheduler: the vCPUs are probed, what is found is exported, and whatever
//! speaks against loading is looked at again and again.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use userspace::control::{Control, ROUND};
use userspace::events::Priority;
use userspace::failure::Failure;
use userspace::probing::Probing;
use userspace::standby::Standby;
use userspace::worth::Counted;

use super::{Daemon, SWITCH_INTERVAL};

/// A time within `limit`, another one in each process.
pub fn random_time(limit: Duration) -> Duration {
    limit.mul_f64(RandomState::new().hash_one(()) as f64 / u64::MAX as f64)
}

impl Daemon<'_> {
    /// Why not to load the scheduler now.
    pub(super) fn standby(&mut self) -> Option<Standby> {
        let delayed = Instant::now() < self.load_at && !self.config.start_jitter.is_zero();
        Standby::reason(&self.config, self.ejections.count, delayed).or_else(|| self.compare())
    }

    /// Go on with the comparison with the kernel's own scheduler, if there is to be one.
    fn compare(&mut self) -> Option<Standby> {
        let worth = self.worth.as_mut()?;
        let ended = worth.step(Instant::now(), || Counted::read().ok());
        let (is_away, is_others_turn) = (worth.is_away(), worth.is_others_turn());
        if let Some(compared) = ended {
            self.outputs.tell(Priority::Notice, &compared.sentence());
        }
        if is_away {
            return Some(Standby::Worse);
        }
        is_others_turn.then_some(Standby::Compared)
    }

    /// Look on for as long as something speaks against loading the scheduler. Return whether to
    /// end instead.
    pub(super) fn stand_by(&mut self) -> Result<bool, Failure> {
        let mut control: Option<Control> = None;
        let (mut told, mut next_round) = (None, Instant::now());
        while let Some(reason) = self.standby() {
            if told != Some(reason) {
                told = Some(reason);
                self.telemetry.standing_by(reason, self.ejections.count);
                let why = reason.sentence(&self.config, &self.ejections);
                let news = format!("no scheduler is loaded: {why}");
                self.outputs.tell(Priority::Notice, &news);
                self.service.ready(&format!("looking on: {why}"));
                self.begin_to_count_time();
            }
            if self.is_over() {
                return Ok(true);
            }
            if reason != Standby::Compared {
                self.control = None; // what it found would be old when it is loaded again
            }
            if self.control.is_none() && Instant::now() >= next_round {
                let control = control.get_or_insert_with(|| {
                    Control::new(Probing::on_their_own(self.config.probing.clone()))
                });
                for event in control.look_on(&self.telemetry) {
                    self.outputs.tell(event.priority, &event.text);
                }
                self.look_after_outputs();
                next_round = Instant::now() + ROUND;
            }
            self.signals.sleep(SWITCH_INTERVAL)?;
            // An operator takes the record away to have it loaded again.
            self.ejections.read_again();
            if self.signals.take_reload() {
                if self.reload(None) {
                    control = None;
                }
                told = None;
            }
        }
        Ok(self.is_over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_spread_over_the_time() {
        let limit = Duration::from_secs(100);
        let times: Vec<_> = (0..1000).map(|_| random_time(limit)).collect();
        assert!(times.iter().all(|time| *time <= limit));
        let early = times.iter().filter(|time| **time < limit / 2).count();
        assert!((300..700).contains(&early), "{early} of 1000 in the first half");
        assert_eq!(random_time(Duration::ZERO), Duration::ZERO);
    }
}
