// SPDX-License-Identifier: GPL-2.0-only
//! Retention in effect: the kernel's own haltpoll, set for as long as the policy is on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hints::pace::Pace;
use hints::retention::Retention;

use crate::restore::Restore;

const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
const GOVERNOR: &str = "/sys/devices/system/cpu/cpuidle/current_governor";
const TIMEOUT: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
/// The name of the driver and of the governor.
const HALTPOLL: &str = "haltpoll";

/// The policy, from round to round.
#[derive(Debug, Default)]
pub struct Retain {
    choice: Option<Retention>,
    /// In effect.
    timeout: Option<Duration>,
    /// What was said last of what is in the way.
    said: String,
}

impl Retain {
    /// Choose a time-out after a round that went as `pace` says, and put it into effect; or leave the
    /// system as it was if the policy is not `on`. Return a sentence if something new is in the way.
    pub fn round(&mut self, on: bool, pace: &Pace, restore: &mut Restore) -> Option<String> {
        let done = if on { self.choose(pace, restore) } else { self.leave(restore) };
        let said = done.err().unwrap_or_default();
        if !said.is_empty() {
            self.timeout = None;
        }
        let is_new = !said.is_empty() && said != self.said;
        self.said = said;
        is_new.then(|| format!("retain: {}", self.said))
    }

    /// How long idle vCPUs poll by this policy; `None` if it is not in effect.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn choose(&mut self, pace: &Pace, restore: &mut Restore) -> Result<(), String> {
        let driver = fs::read_to_string(DRIVER).unwrap_or_default();
        if driver.trim() != HALTPOLL {
            return Err("idle vCPUs cannot poll without the cpuidle driver haltpoll; boot with \
                        cpuidle_haltpoll.force=1, or load the module with force=1"
                .into());
        }
        let timeout_ns = self.choice.get_or_insert_default().round(pace);
        restore.set(Path::new(TIMEOUT), &timeout_ns.to_string())?;
        restore.set(Path::new(GOVERNOR), HALTPOLL)?;
        self.timeout = Some(Duration::from_nanos(timeout_ns));
        Ok(())
    }

    fn leave(&mut self, restore: &mut Restore) -> Result<(), String> {
        (self.choice, self.timeout) = (None, None);
        restore.undo(Path::new(GOVERNOR))?;
        restore.undo(Path::new(TIMEOUT))
    }
}
