// SPDX-License-Identifier: GPL-2.0-only
//! Device interrupts and unbound kernel work, kept away from banned vCPUs: what comes there waits
//! until the hypervisor lets the vCPU run. Transmit queues (XPS) name who sends, not who serves, and
//! are left alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use probers::vcpus::{format_list, parse_list};

use crate::events::{Event, Priority};
use crate::restore::Restore;

/// Time between two looks for new devices, and at what others have changed: irqbalance's interval.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// How a file tells vCPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// `0-3,8`
    List,
    /// Hexadecimal, the highest first, a comma before every eighth digit from the right.
    Mask,
}

/// A file that tells where something is served.
struct Place {
    path: PathBuf,
    form: Form,
}

/// What is kept away, from round to round.
#[derive(Debug)]
pub struct Interrupts {
    proc: PathBuf,
    sys: PathBuf,
    /// From which vCPUs; not known at first, for a process before may have left something.
    away_from: Option<Vec<u32>>,
    looked: Instant,
    /// Files that do not take another value. Drivers place some interrupts themselves.
    refused: BTreeSet<PathBuf>,
}

impl Default for Interrupts {
    fn default() -> Self {
        Self::below("/proc".into(), "/sys".into())
    }
}

impl Interrupts {
    fn below(proc: PathBuf, sys: PathBuf) -> Self {
        let (away_from, refused) = (None, BTreeSet::new());
        Self { proc, sys, away_from, looked: Instant::now(), refused }
    }

    /// Keep what can be moved away from the vCPUs `bad`, and on those in `good` where it was on bad
    /// ones alone. With none that is bad, or good, all is as it was. Return what to tell.
    pub fn round(&mut self, bad: &[u32], good: &[u32], restore: &mut Restore) -> Vec<Event> {
        let bad = if good.is_empty() { &[] } else { bad };
        let is_new = self.away_from.as_deref() != Some(bad);
        if !is_new && (bad.is_empty() || self.looked.elapsed() < LOOK_INTERVAL) {
            return Vec::new();
        }
        let before = self.away_from.replace(bad.to_vec());
        self.looked = Instant::now();
        if is_new {
            self.refused.clear();
        }
        let (mut moved, mut failed) = (0, Vec::new());
        for place in self.places() {
            if self.refused.contains(&place.path) {
                continue;
            }
            match place.keep_away(bad, good, restore) {
                Ok(is_moved) => moved += usize::from(is_moved),
                Err(why) => {
                    failed.push(why);
                    self.refused.insert(place.path);
                }
            }
        }
        let mut told = Vec::new();
        if is_new && moved > 0 {
            let text =
                format!("interrupts: {moved} files keep away from vCPUs {}", format_list(bad));
            told.push(Event::new(Priority::Notice, text));
        } else if is_new && bad.is_empty() && before.is_some() {
            told.push(Event::new(Priority::Notice, "interrupts: all are where they were before"));
        }
        if let Some(first) = failed.first() {
            let text = format!("interrupts: {} files stay as they are: {first}", failed.len());
            told.push(Event::new(Priority::Warning, text));
        }
        told
    }

    /// All files that tell where interrupts, received packets and unbound work are served.
    fn places(&self) -> Vec<Place> {
        let mut places = vec![
            Place { path: self.proc.join("irq/default_smp_affinity"), form: Form::Mask },
            Place { path: self.sys.join("devices/virtual/workqueue/cpumask"), form: Form::Mask },
        ];
        for irq in entries(&self.proc.join("irq")) {
            places.push(Place { path: irq.join("smp_affinity_list"), form: Form::List });
        }
        for device in entries(&self.sys.join("class/net")) {
            for queue in entries(&device.join("queues")) {
                places.push(Place { path: queue.join("rps_cpus"), form: Form::Mask });
            }
        }
        places
    }
}

impl Place {
    /// Return whether it is kept away from some vCPU.
    fn keep_away(&self, bad: &[u32], good: &[u32], restore: &mut Restore) -> Result<bool, String> {
        // A queue that sends has no such file, and devices go at any time.
        let Ok(original) = restore.original(&self.path) else { return Ok(false) };
        let kept = self.form.parse(&original).and_then(|vcpus| without(&vcpus, bad, good));
        let Some(kept) = kept else { return restore.undo(&self.path).map(|()| false) };
        restore.set(&self.path, &self.form.write(&kept, original.len()))?;
        Ok(true)
    }
}

impl Form {
    fn parse(self, text: &str) -> Option<Vec<u32>> {
        if self == Self::List {
            return parse_list(text);
        }
        let mut vcpus = Vec::new();
        for (nr, digit) in text.chars().rev().filter(|c| *c != ',').enumerate() {
            let (bits, first) = (digit.to_digit(16)?, 4 * u32::try_from(nr).ok()?);
            vcpus.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
        }
        Some(vcpus)
    }

    /// In as many characters as what was there, so that it reads the same when it is shown.
    fn write(self, vcpus: &[u32], width: usize) -> String {
        if self == Self::List {
            return format_list(vcpus);
        }
        let digits = width - width / 9; // each ninth is a comma
        let digit = |nr: usize| {
            let bits = vcpus.iter().filter(|vcpu| **vcpu as usize / 4 == nr);
            bits.fold(0, |bits, vcpu| bits | 1u8 << (vcpu % 4))
        };
        let mut text = String::with_capacity(width);
        for nr in (0..digits).rev() {
            text += &format!("{:x}", digit(nr));
            if nr > 0 && nr % 8 == 0 {
                text.push(',');
            }
        }
        text
    }
}

/// Where what is served on `vcpus` goes, if it has to leave some: to the others, or else to all that
/// are good. What is served nowhere (a queue without RPS) stays so.
fn without(vcpus: &[u32], bad: &[u32], good: &[u32]) -> Option<Vec<u32>> {
    let kept: Vec<u32> = vcpus.iter().copied().filter(|vcpu| !bad.contains(vcpu)).collect();
    match kept.len() {
        all if all == vcpus.len() => None,
        0 => Some(good.to_vec()),
        _ => Some(kept),
    }
}

/// The folders and links in `folder`.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = found.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Trees like those of the kernel, and the record of what is changed in them.
    struct Machine {
        root: PathBuf,
    }

    const IRQ: &str = "proc/irq/24/smp_affinity_list";
    const ONE: &str = "proc/irq/25/smp_affinity_list";
    const WORK: &str = "sys/devices/virtual/workqueue/cpumask";
    const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
    const NO_RPS: &str = "sys/class/net/eth0/queues/rx-1/rps_cpus";
    const FILES: [(&str, &str); 5] =
        [(IRQ, "0-3"), (ONE, "3"), (WORK, "f"), (RPS, "00000000,0000000c"), (NO_RPS, "0")];

    impl Machine {
        fn new(name: &str) -> Self {
            let root =
                std::env::temp_dir().join(format!("vaware-irq-{name}-{}", std::process::id()));
            let this = Self { root };
            for (file, text) in FILES {
                this.put(file, text);
            }
            this
        }

        fn put(&self, file: &str, text: &str) {
            let path = self.root.join(file);
            let _ = path.parent().map(fs::create_dir_all);
            let _ = fs::write(path, text);
        }

        fn shown(&self) -> Vec<String> {
            let read = |(file, _)| fs::read_to_string(self.root.join(file)).unwrap_or_default();
            FILES.map(read).into()
        }

        fn begin(&self) -> (Interrupts, Restore) {
            let (proc, sys) = (self.root.join("proc"), self.root.join("sys"));
            let restore = Restore::begin_at(self.root.join("run"), vec![proc.clone(), sys.clone()]);
            (Interrupts::below(proc, sys), restore.0)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    fn before() -> Vec<String> {
        FILES.map(|(_, text)| text.to_owned()).into()
    }

    #[test]
    fn what_can_be_moved_keeps_away_until_no_vcpu_is_bad() {
        let machine = Machine::new("move");
        let (mut interrupts, mut restore) = machine.begin();
        let told = interrupts.round(&[3], &[0, 1, 2], &mut restore);
        assert_eq!(machine.shown(), ["0-2", "0-2", "7", "00000000,00000004", "0"]);
        assert_eq!(told.len(), 1);
        assert!(told[0].text.contains("4 files keep away from vCPUs 3"), "{}", told[0].text);
        let told = interrupts.round(&[2, 3], &[0, 1], &mut restore);
        assert_eq!(machine.shown(), ["0-1", "0-1", "3", "00000000,00000003", "0"]);
        assert_eq!(told.len(), 1);
        assert_eq!(interrupts.round(&[2, 3], &[0, 1], &mut restore).len(), 0);
        assert_eq!(interrupts.round(&[], &[0, 1, 2, 3], &mut restore).len(), 1);
        assert_eq!(machine.shown(), before());
    }

    #[test]
    fn where_no_vcpu_is_good_nothing_moves() {
        let machine = Machine::new("none");
        let (mut interrupts, mut restore) = machine.begin();
        assert_eq!(interrupts.round(&[0, 1, 2, 3], &[], &mut restore).len(), 0);
        assert_eq!(machine.shown(), before());
    }

    #[test]
    fn the_end_restores_and_what_others_have_set_is_narrowed_and_given_back() {
        let machine = Machine::new("others");
        let (mut interrupts, mut restore) = machine.begin();
        interrupts.round(&[3], &[0, 1, 2], &mut restore);
        machine.put(IRQ, "2-3"); // as irqbalance does
        interrupts.away_from = Some(Vec::new()); // look again at once
        interrupts.round(&[3], &[0, 1, 2], &mut restore);
        assert_eq!(machine.shown()[0], "2");
        drop(restore);
        let mut theirs = before();
        theirs[0] = "2-3".into();
        assert_eq!(machine.shown(), theirs);
    }

    #[test]
    fn what_a_killed_process_has_moved_is_put_back_by_the_next() {
        let machine = Machine::new("killed");
        let (mut interrupts, mut restore) = machine.begin();
        interrupts.round(&[3], &[0, 1, 2], &mut restore);
        restore.kill();
        drop(machine.begin());
        assert_eq!(machine.shown(), before());
    }

    #[test]
    fn files_that_cannot_be_changed_are_counted_once() {
        let machine = Machine::new("refuses");
        let _first = machine.begin();
        let (mut interrupts, mut restore) = machine.begin(); // while another one may change them
        let told = interrupts.round(&[3], &[0, 1, 2], &mut restore);
        assert_eq!(told.len(), 1);
        assert!(told[0].text.contains("4 files stay as they are: another"), "{told:?}");
        assert_eq!(machine.shown(), before());
        assert_eq!(interrupts.round(&[3], &[0, 1, 2], &mut restore).len(), 0);
    }

    proptest! {
        #[test]
        fn a_mask_reads_as_it_was_written(vcpus in prop::collection::btree_set(0u32..256, 0..64)) {
            let vcpus: Vec<u32> = vcpus.into_iter().collect();
            let text = Form::Mask.write(&vcpus, 64 + 7);
            prop_assert_eq!(text.len(), 71);
            prop_assert_eq!(Form::Mask.parse(&text), Some(vcpus));
        }

        #[test]
        fn nothing_is_left_on_a_bad_vcpu_or_with_none(
            vcpus in prop::collection::btree_set(0u32..16, 0..16), nr_bad in 0u32..16,
        ) {
            let vcpus: Vec<u32> = vcpus.into_iter().collect();
            let (bad, good): (Vec<u32>, Vec<u32>) = (0..16).partition(|vcpu| *vcpu < nr_bad);
            let kept = without(&vcpus, &bad, &good);
            prop_assert_eq!(kept.is_some(), vcpus.iter().any(|vcpu| bad.contains(vcpu)));
            if let Some(kept) = kept {
                prop_assert!(!kept.is_empty() && kept.iter().all(|vcpu| good.contains(vcpu)));
            }
        }

        #[test]
        fn any_text_is_read_or_left_alone(text: String) {
            let _ = (Form::Mask.parse(&text), Form::List.parse(&text));
        }
    }
}
