// SPDX-License-Identifier: GPL-2.0-only
//! Probing in the background, for as long as somebody holds the handle.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::pulse::Pulse;
use crate::snapshot::VcpuSnapshot;
use crate::vcap::passive::TimesSource;
use crate::vcap::{ProbeError, Prober, Settings};

/// A snapshot is taken so often at least: one that is much older tells that the prober is stuck.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(2);

/// What the prober has found so far, shared with whoever asks.
#[derive(Default)]
struct Found {
    latest: Option<Arc<VcpuSnapshot>>,
    /// Why probing has ended by itself.
    failure: Option<String>,
}

/// A prober at work. Dropping it ends it.
pub struct Service {
    found: Arc<(Mutex<Found>, Condvar)>,
    stop: Arc<AtomicBool>,
    pulse: Pulse,
    thread: JoinHandle<()>,
}

impl Service {
    /// Start to probe.
    ///
    /// # Errors
    /// Those of [`Prober::new`].
    pub fn start(settings: Settings, source: Box<dyn TimesSource>) -> Result<Self, ProbeError> {
        let mut prober = Prober::new(settings, source)?;
        let found = Arc::<(Mutex<Found>, Condvar)>::default();
        let stop = Arc::<AtomicBool>::default();
        let (its_found, its_stop) = (Arc::clone(&found), Arc::clone(&stop));
        let pulse = Pulse::default();
        let its_pulse = pulse.clone();
        let thread = thread::Builder::new()
            .name("vaware-probe".into())
            .spawn(move || probe(&mut prober, &its_found, &its_stop, &its_pulse))
            .map_err(|source| ProbeError::Thread { vcpu: 0, source })?;
        Ok(Self { found, stop, pulse, thread })
    }

    /// The latest snapshot; `None` before the first, some tenths of a second after the start.
    pub fn latest(&self) -> Option<Arc<VcpuSnapshot>> {
        lock(&self.found.0).latest.clone()
    }

    /// Wait for a snapshot younger than `than_ns` (its `taken_at_ns`), at most for `limit`.
    pub fn wait_newer(&self, than_ns: u64, limit: Duration) -> Option<Arc<VcpuSnapshot>> {
        let (found, bell) = &*self.found;
        let is_old = |found: &mut Found| {
            found.failure.is_none()
                && found.latest.as_ref().is_none_or(|latest| latest.taken_at_ns <= than_ns)
        };
        let (found, _) = bell
            .wait_timeout_while(lock(found), limit, is_old)
            .unwrap_or_else(PoisonError::into_inner);
        found.latest.clone().filter(|latest| latest.taken_at_ns > than_ns)
    }

    /// Why probing has ended by itself, if it has.
    pub fn failure(&self) -> Option<String> {
        let told = lock(&self.found.0).failure.clone();
        told.or_else(|| self.thread.is_finished().then(|| "its thread has ended".into()))
    }

    /// The sign of life of its thread, which comes once a second and more often.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Not joined: one that is stuck would take the caller with it.
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

fn probe(prober: &mut Prober, found: &(Mutex<Found>, Condvar), stop: &AtomicBool, pulse: &Pulse) {
    let mut taken: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        pulse.beat();
        let is_old = taken.is_some_and(|taken| taken.elapsed() >= SNAPSHOT_INTERVAL);
        match prober.step() {
            Ok(false) if !is_old => {}
            Ok(_) => {
                let snapshot = Arc::new(prober.snapshot());
                taken = Some(Instant::now());
                lock(&found.0).latest = Some(snapshot);
                found.1.notify_all();
            }
            Err(error) => {
                lock(&found.0).failure = Some(error.to_string());
                found.1.notify_all();
                return;
            }
        }
        prober.wait();
    }
}
