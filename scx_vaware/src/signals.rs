// SPDX-License-Identifier: GPL-2.0-only
//! Signals, waited for together with the passing of time.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use userspace::failure::Failure;

/// The shortest sleep: a timeout of zero would mean for ever.
const MOMENT: Duration = Duration::from_millis(1);

/// What signals have asked for so far.
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    /// Receives a byte with each signal.
    bell: UnixStream,
}

impl Signals {
    /// Listen for SIGINT and SIGTERM (stop) and SIGHUP (reload).
    pub fn listen() -> Result<Self, Failure> {
        let (bell, ringer) = UnixStream::pair().context("listening for signals")?;
        let signals = Self { stop: Arc::default(), reload: Arc::default(), bell };
        for (signal, request) in
            [(SIGINT, &signals.stop), (SIGTERM, &signals.stop), (SIGHUP, &signals.reload)]
        {
            flag::register(signal, Arc::clone(request)).context("listening for signals")?;
            let ringer = ringer.try_clone().context("listening for signals")?;
            pipe::register(signal, ringer).context("listening for signals")?;
        }
        Ok(signals)
    }

    /// Sleep for `limit`, or until a signal comes.
    pub fn sleep(&mut self, limit: Duration) -> Result<(), Failure> {
        let mut bytes = [0; 16];
        self.bell.set_read_timeout(Some(limit.max(MOMENT))).context("waiting for signals")?;
        match self.bell.read(&mut bytes) {
            Err(error)
                if !matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Err(Failure::Other(anyhow::Error::new(error).context("waiting for signals")))
            }
            _ => Ok(()),
        }
    }

    /// Whether to stop.
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether to reload; true once for each request.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}
