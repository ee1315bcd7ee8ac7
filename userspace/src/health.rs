// SPDX-License-Identifier: GPL-2.0-only
//! Whether the daemon and the scheduler are well.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pauses::Pauses;
use crate::standby::Standby;

/// The control loop goes round every second. So late, something holds it up: long enough for a VM
/// whose vCPUs are stopped for seconds.
pub const LOOP_LIMIT: Duration = Duration::from_secs(15);

/// The scheduler's state, as its daemon knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It is being loaded.
    #[default]
    Starting,
    Running,
    /// It is not loaded, and is not to be: see [`Report::standby`].
    Standby,
    /// It is being detached, or was ejected.
    Stopping,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Starting, Self::Running, Self::Standby, Self::Stopping];

    /// The name to show to people and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Standby => "standby",
            Self::Stopping => "stopping",
        }
    }
}

/// What is to be said of the daemon's health at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub state: State,
    /// Why it is not loaded.
    pub standby: Option<Standby>,
    /// Whether the kernel says, at this moment, that sched_ext is enabled with our scheduler.
    pub enabled_as_us: bool,
    /// Time since the control loop last went round, by a clock that is never set.
    pub loop_age: Duration,
    /// When it did, and when the last good snapshot of the vCPUs came, or else the scheduler was
    /// loaded: since the epoch.
    pub loop_at: Duration,
    pub snapshot_at: Duration,
    /// Times that the scheduler was loaded again because the kernel asked for it,
    pub restarts_asked: u64,
    /// and because the kernel took a pause of the VM for a stall.
    pub restarts_paused: u64,
    /// Times since boot that the kernel has ejected it.
    pub ejections: u64,
    pub pauses: Pauses,
    pub reloads_applied: u64,
    pub reloads_refused: u64,
    /// Keys that were changed in a configuration read while the scheduler ran, and do nothing until
    /// it is started anew: over all readings.
    pub keys_ignored: u64,
    /// False if the configuration that was read last was wrong, or some of its keys were ignored.
    pub last_reload_ok: bool,
    /// How often each prober was begun anew.
    pub probe_restarts: BTreeMap<&'static str, u64>,
    /// Lines that could not be written, by output.
    pub lines_lost: Vec<(&'static str, u64)>,
    /// Online vCPUs that are neither banned nor parked.
    pub open_vcpus: usize,
    /// The load factor rho and the granularity factor eta of the policy gather; `None` if it is off.
    pub gather_factors: Option<(f64, f64)>,
    /// Online vCPUs that the policy reserve wants free of CPU-bound work.
    pub reserve_vcpus: usize,
    /// Processes that the policy shootdown wants to keep to steady vCPUs.
    pub confined_processes: usize,
    /// How long idle vCPUs poll by the policy retain; `None` if it is not in effect.
    pub halt_poll: Option<Duration>,
}

impl Report {
    /// Check that all is well.
    ///
    /// # Errors
    /// A sentence that says what is not.
    pub fn check(&self) -> Result<(), String> {
        match self.state {
            State::Running if self.enabled_as_us => {}
            State::Running => {
                return Err("the kernel does not run this scheduler; see dmesg".into());
            }
            State::Standby if self.standby.is_some_and(Standby::is_wanted) => {}
            State::Standby => {
                return Err("the kernel has ejected the scheduler too often; see the log".into());
            }
            State::Starting | State::Stopping => {
                return Err(format!("the scheduler is {}", self.state.name()));
            }
        }
        if self.loop_age > LOOP_LIMIT {
            return Err(format!("the control loop is {} s late", self.loop_age.as_secs()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scheduler_that_the_kernel_runs_is_well() {
        let well = Report { state: State::Running, enabled_as_us: true, ..Report::default() };
        assert_eq!(well.check(), Ok(()));
        let by = |standby| Report { state: State::Standby, standby, ..Report::default() };
        assert_eq!(by(Some(Standby::KillSwitch)).check(), Ok(()));
        assert!(by(Some(Standby::Ejected)).check().is_err());
        let sick = [
            Report { state: State::Starting, ..well.clone() },
            Report { enabled_as_us: false, ..well.clone() },
            Report { loop_age: LOOP_LIMIT * 2, ..well },
        ];
        assert!(sick.iter().all(|report| report.check().is_err()));
    }
}
