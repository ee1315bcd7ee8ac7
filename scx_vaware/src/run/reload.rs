// SPDX-License-Identifier: GPL-2.0-only
//! SIGHUP: the configuration is read again, and takes effect without a gap.

use std::sync::Arc;

use anyhow::Context;
use userspace::config::Listen;
use userspace::events::Priority;
use userspace::failure::Failure;
use userspace::http::Server;
use userspace::reload::Reload;
use userspace::scheduler::Scheduler;
use userspace::worth::Worth;

use super::Daemon;

impl Daemon<'_> {
    /// Read the configuration again and apply it. A mistake changes nothing; a key that cannot take
    /// effect is named. Return whether the vCPUs are to be probed otherwise.
    pub(super) fn reload(&mut self, scheduler: Option<&mut Scheduler>) -> bool {
        self.service.reloading();
        let (before, is_loaded) = (self.config.clone(), scheduler.is_some());
        let ignored = match self.apply(scheduler) {
            Ok(ignored) => {
                self.telemetry.reloaded(&self.config, ignored.len());
                self.outputs.say(format!("scx_vaware: policies on: {}\n", self.config.policies));
                ignored
            }
            Err(failure) => {
                self.telemetry.reload_refused();
                let news = format!("configuration unchanged: {failure}");
                self.outputs.tell(Priority::Warning, &news);
                Vec::new()
            }
        };
        for key in &ignored {
            let news = format!(
                "{key} was changed, but takes effect with the next start only; restart the daemon"
            );
            self.outputs.tell(Priority::Warning, &news);
        }
        if is_loaded {
            self.tell_ready(&ignored);
        }
        self.config.probing != before.probing
    }

    /// Return the keys that wait for a restart.
    fn apply(&mut self, scheduler: Option<&mut Scheduler>) -> Result<Vec<&'static str>, Failure> {
        let Reload { effect, ignored } = Reload::new(&self.config, self.options.config.read()?);
        let compares_otherwise = effect.unload_if_worse_ratio != self.config.unload_if_worse_ratio;
        let worth = Worth::begin(effect.unload_if_worse_ratio).map_err(Failure::Config)?;
        if effect.listen != self.config.listen {
            self.listen_at(effect.listen)?;
        }
        if let Some(scheduler) = scheduler {
            scheduler.steer(&effect)?;
        }
        if compares_otherwise {
            self.worth = worth;
        }
        self.config = effect;
        Ok(ignored)
    }

    /// Serve metrics elsewhere, or where they were served if that cannot be.
    fn listen_at(&mut self, listen: Listen) -> Result<(), Failure> {
        // First, because the new address may be part of the old one, or the other way round.
        if let Some(serving) = self.serving.take() {
            serving.stop();
        }
        let moved = self.serve(listen);
        if moved.is_err() {
            self.serve(self.config.listen)?;
        }
        moved
    }

    fn serve(&mut self, listen: Listen) -> Result<(), Failure> {
        if let Listen::At(address) = listen {
            let served = Server::bind(address)?.serve(Arc::clone(&self.telemetry));
            self.serving = Some(served.context("serving metrics")?);
        }
        Ok(())
    }
}
