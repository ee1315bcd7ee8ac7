// SPDX-License-Identifier: GPL-2.0-only
//! What systemd is told (`sd_notify(3)`). Without systemd, nothing is said to anybody.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The line to the service manager.
pub struct Service {
    watchdog: Option<Duration>,
    fed_at: Option<Instant>,
}

impl Service {
    /// Read from the environment what the service manager expects.
    pub fn from_env() -> Self {
        Self { watchdog: sd_notify::watchdog_enabled(), fed_at: None }
    }

    /// The scheduler is enabled, and `status` says in few words what it does.
    pub fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// All is well at this moment. Passed on about twice in each watchdog interval.
    pub fn well(&mut self) {
        let Some(interval) = self.watchdog else { return };
        if self.fed_at.is_none_or(|at| at.elapsed() >= interval / 2) {
            tell(&[NotifyState::Watchdog]);
            self.fed_at = Some(Instant::now());
        }
    }

    /// The configuration is read again until `ready` is called.
    pub fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// The scheduler is about to be detached.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }
}

/// A service manager that does not listen is no reason to stop.
fn tell(states: &[NotifyState]) {
    let _ = sd_notify::notify(states);
}
