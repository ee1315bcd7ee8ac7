// SPDX-License-Identifier: GPL-2.0-only
//! Keeps a prober at work: one that has failed or hangs is begun anew, later each time.

use std::time::{Duration, Instant};

use probers::service::Service;
use probers::vtop::watch::Watch;

use crate::backoff::Backoff;

/// A prober without a sign of life for so many rounds of the control loop hangs. Rounds, not time:
/// while the VM is paused nobody is alive.
const SILENT_ROUNDS_MAX: u32 = 10;

/// The shortest time to a new beginning.
const DELAY_MIN: Duration = Duration::from_secs(1);

/// A prober, as its supervisor sees it.
pub trait Prober {
    /// A count that grows at least every few seconds while it is alive.
    fn pulse(&self) -> u64;

    /// Why it has ended by itself, if it has.
    fn failure(&self) -> Option<String>;
}

impl Prober for Service {
    fn pulse(&self) -> u64 {
        Self::pulse(self).count()
    }

    fn failure(&self) -> Option<String> {
        Self::failure(self)
    }
}

impl Prober for Watch {
    fn pulse(&self) -> u64 {
        Self::pulse(self).count()
    }

    fn failure(&self) -> Option<String> {
        Self::failure(self)
    }
}

/// A prober, and how to begin it anew.
pub struct Supervised<P> {
    name: &'static str,
    begin: Box<dyn FnMut() -> Result<P, String>>,
    at_work: Option<P>,
    begin_at: Instant,
    pulse: u64,
    silent_rounds: u32,
    backoff: Backoff,
}

impl<P: Prober> Supervised<P> {
    /// One that the first call of [`tend`](Self::tend) begins.
    pub fn new(name: &'static str, begin: impl FnMut() -> Result<P, String> + 'static) -> Self {
        Self {
            name,
            begin: Box::new(begin),
            at_work: None,
            begin_at: Instant::now(),
            pulse: 0,
            silent_rounds: 0,
            backoff: Backoff::default(),
        }
    }

    /// What it is called in logs and metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The prober, unless it has failed, or hangs.
    pub fn at_work(&self) -> Option<&P> {
        self.at_work.as_ref()
    }

    /// Look after it, once a round. Return what happened if it has failed: its end is final, and
    /// another one begins later.
    pub fn tend(&mut self, now: Instant) -> Option<String> {
        let why = match &self.at_work {
            Some(prober) => {
                let pulse = prober.pulse();
                let is_silent = std::mem::replace(&mut self.pulse, pulse) == pulse;
                self.silent_rounds = if is_silent { self.silent_rounds + 1 } else { 0 };
                let hangs = self.silent_rounds >= SILENT_ROUNDS_MAX;
                prober.failure().or_else(|| hangs.then(|| "it hangs".into()))?
            }
            None if now < self.begin_at => return None,
            None => match (self.begin)() {
                Ok(prober) => {
                    (self.pulse, self.silent_rounds) = (prober.pulse(), 0);
                    self.at_work = Some(prober);
                    return None;
                }
                Err(why) => why,
            },
        };
        self.at_work = None;
        let delay = self.backoff.ended(now).max(DELAY_MIN);
        self.begin_at = now + delay;
        Some(format!(
            "probing ({}) has failed: {why}; what it knew is forgotten, and it begins anew in {} s",
            self.name,
            delay.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;

    /// Lives as it is told to, and tells of its end.
    #[derive(Clone, Default)]
    struct Fake {
        pulse: Rc<Cell<u64>>,
        failure: Rc<RefCell<Option<String>>>,
    }

    impl Prober for Fake {
        fn pulse(&self) -> u64 {
            self.pulse.get()
        }

        fn failure(&self) -> Option<String> {
            self.failure.borrow().clone()
        }
    }

    /// A supervised fake, the fakes that were begun, and how many beginnings are refused next.
    struct Scene {
        supervised: Supervised<Fake>,
        begun: Rc<RefCell<Vec<Fake>>>,
        refused: Rc<Cell<u32>>,
        now: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let (begun, refused) =
                (Rc::<RefCell<Vec<Fake>>>::default(), Rc::<Cell<u32>>::default());
            let (its_begun, its_refused) = (Rc::clone(&begun), Rc::clone(&refused));
            let supervised = Supervised::new("fake", move || {
                if its_refused.get() > 0 {
                    its_refused.set(its_refused.get() - 1);
                    return Err("no thread is granted".into());
                }
                its_begun.borrow_mut().push(Fake::default());
                its_begun.borrow().last().cloned().ok_or_else(String::new)
            });
            Self { supervised, begun, refused, now: Instant::now() + Duration::from_secs(1) }
        }

        /// A round later.
        fn round(&mut self) -> Option<String> {
            self.now += Duration::from_secs(1);
            self.supervised.tend(self.now)
        }

        fn nr_begun(&self) -> usize {
            self.begun.borrow().len()
        }
    }

    #[test]
    fn one_that_lives_is_left_alone() {
        let mut scene = Scene::new();
        for _ in 0..100 {
            assert_eq!(scene.round(), None);
            let begun = scene.begun.borrow();
            begun.iter().for_each(|fake| fake.pulse.set(fake.pulse.get() + 1));
        }
        assert_eq!(scene.nr_begun(), 1);
        assert!(scene.supervised.at_work().is_some());
    }

    #[test]
    fn one_that_fails_is_out_at_once_and_begun_anew() {
        let mut scene = Scene::new();
        scene.round();
        *scene.begun.borrow()[0].failure.borrow_mut() = Some("no thread for vCPU 3".into());
        let news = scene.round().unwrap_or_default();
        assert!(news.contains("fake") && news.contains("vCPU 3"), "{news}");
        assert!(scene.supervised.at_work().is_none());
        assert_eq!(scene.round(), None);
        assert_eq!(scene.nr_begun(), 2);
        assert!(scene.supervised.at_work().is_some());
    }

    #[test]
    fn one_that_hangs_is_given_up() {
        let mut scene = Scene::new();
        scene.round();
        let news: Vec<_> = (0..SILENT_ROUNDS_MAX).filter_map(|_| scene.round()).collect();
        assert!(news.len() == 1 && news[0].contains("hangs"), "{news:?}");
        assert!(scene.supervised.at_work().is_none());
    }

    #[test]
    fn a_pause_of_the_vm_is_no_hang() {
        let mut scene = Scene::new();
        scene.round();
        scene.now += Duration::from_secs(300);
        assert_eq!(scene.round(), None);
        assert!(scene.supervised.at_work().is_some());
    }

    #[test]
    fn one_that_cannot_begin_is_tried_again_ever_more_rarely() {
        let mut scene = Scene::new();
        scene.refused.set(6);
        let refusals: Vec<_> = (0..60).filter_map(|_| scene.round()).take(6).collect();
        assert!(refusals.iter().all(|news| news.contains("no thread is granted")), "{refusals:?}");
        assert_eq!((refusals.len(), scene.nr_begun()), (6, 0));
        (0..60).find(|_| scene.round().is_none() && scene.nr_begun() == 1);
        assert!(scene.supervised.at_work().is_some());
        let mut never = Scene::new();
        never.refused.set(u32::MAX);
        let ends = (0..3600).filter(|_| never.round().is_some()).count();
        assert!((50..=80).contains(&ends), "{ends} in an hour, the last ones a minute apart");
    }
}
