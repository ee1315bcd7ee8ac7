// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon says and writes down, each output by a thread of its own: a reader that does not
//! read and a disk that is full hold up nothing and end nothing. What cannot be written is counted.

use std::fs::File;
use std::io::{Write, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use userspace::events::Priority;

use crate::journal;

/// Texts that wait to be written.
const QUEUE: usize = 1024;

/// How long the end of the program waits for what is not written yet.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One output and its thread.
pub struct Sink {
    pub name: &'static str,
    queue: SyncSender<Vec<u8>>,
    shared: Arc<Shared>,
    /// Disconnected when the thread has ended.
    over: Receiver<()>,
    /// What was last said about it.
    reported: Option<String>,
}

#[derive(Default)]
struct Shared {
    lines_lost: AtomicU64,
    /// Why the last text was not written.
    problem: Mutex<Option<String>>,
}

impl Shared {
    /// `text` was written, or lost for `problem`.
    fn count(&self, text: &[u8], problem: Option<String>) {
        if problem.is_some() {
            let lines = text.iter().filter(|byte| **byte == b'\n').count();
            self.lines_lost.fetch_add(lines.max(1) as u64, Ordering::Relaxed);
        }
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

impl Sink {
    /// Write to `writer` under this name.
    ///
    /// # Errors
    /// If there can be no such thread.
    pub fn new(
        name: &'static str,
        mut writer: impl Write + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, texts) = sync_channel::<Vec<u8>>(QUEUE);
        let (running, over) = channel();
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        let write = move || {
            let _running: Sender<()> = running;
            let mut torn = false;
            for text in texts {
                // A text that was cut off must not run into the next one.
                let healed = if torn { writer.write_all(b"\n") } else { Ok(()) };
                let written =
                    healed.and_then(|()| writer.write_all(&text)).and_then(|()| writer.flush());
                torn = written.is_err();
                its.count(&text, written.err().map(|error| error.to_string()));
            }
        };
        thread::Builder::new().name(name.into()).spawn(write)?;
        Ok(Self { name, queue, shared, over, reported: None })
    }

    /// Have `text` written soon. It is lost if too many others wait.
    pub fn write(&self, text: impl Into<Vec<u8>>) {
        if let Err(refused) = self.queue.try_send(text.into()) {
            let (TrySendError::Full(text) | TrySendError::Disconnected(text)) = refused;
            self.shared.count(&text, Some("nobody reads it".into()));
        }
    }

    /// Lines that were lost so far.
    pub fn lines_lost(&self) -> u64 {
        self.shared.lines_lost.load(Ordering::Relaxed)
    }

    /// What is to be said about this output: once when it fails, and once when it works again.
    pub fn news(&mut self) -> Option<String> {
        let problem = self.shared.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (name, lost) = (self.name, self.lines_lost());
        let news = match (&self.reported, &problem) {
            (None, Some(why)) => {
                format!("cannot write to {name}: {why}; lines are lost until that is mended")
            }
            (Some(_), None) => format!("can write to {name} again; {lost} lines were lost"),
            _ => return None,
        };
        self.reported = problem;
        Some(news)
    }

    /// Let what waits be written, until `deadline` at most.
    fn close(self, deadline: Instant) {
        let Self { queue, over, .. } = self;
        drop(queue);
        let left = deadline.saturating_duration_since(Instant::now());
        // Either is an end: nothing is ever sent.
        let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
            over.recv_timeout(left);
    }
}

/// All outputs of the daemon.
pub struct Outputs {
    out: Sink,
    err: Sink,
    pub activity_log: Option<Sink>,
}

impl Outputs {
    /// Stdout, stderr, and the activity log if there is to be one.
    ///
    /// # Errors
    /// If there can be no threads for them.
    pub fn open(activity_log: Option<Sink>) -> std::io::Result<Self> {
        // Without the standard library's buffers, which would keep what was lost.
        let unbuffered = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
        Ok(Self {
            out: Sink::new("stdout", unbuffered(stdout().as_fd())?)?,
            err: Sink::new("stderr", unbuffered(stderr().as_fd())?)?,
            activity_log,
        })
    }

    /// Say something that was asked for.
    pub fn say(&self, text: impl Into<Vec<u8>>) {
        self.out.write(text);
    }

    /// Say something that an operator should know.
    pub fn tell(&self, priority: Priority, sentence: &str) {
        self.err.write(journal::lines(priority, sentence));
    }

    /// Say which outputs have begun to fail or to work, where that can be read. Return how many
    /// lines each has lost.
    pub fn tend(&mut self) -> Vec<(&'static str, u64)> {
        let Self { out, err, activity_log } = self;
        let news_of_err = err.news().map(|news| format!("scx_vaware: {news}\n"));
        for news in [out.news(), activity_log.as_mut().and_then(Sink::news)].into_iter().flatten() {
            err.write(journal::lines(Priority::Warning, &news));
        }
        if let Some(news) = news_of_err {
            out.write(news);
        }
        [Some(&*out), Some(&*err), activity_log.as_ref()]
            .into_iter()
            .flatten()
            .map(|sink| (sink.name, sink.lines_lost()))
            .collect()
    }

    /// Let what waits be written, for a moment.
    pub fn close(self) {
        let deadline = Instant::now() + LAST_WORDS;
        let Self { out, err, activity_log } = self;
        for sink in [Some(out), Some(err), activity_log].into_iter().flatten() {
            sink.close(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind, Result};
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A disk that can be full: half of each text still gets on it.
    #[derive(Clone, Default)]
    struct Disk {
        is_full: Arc<AtomicBool>,
        holds: Arc<Mutex<Vec<u8>>>,
    }

    impl Disk {
        fn text(&self) -> String {
            let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&holds).into_owned()
        }
    }

    impl Write for Disk {
        fn write(&mut self, text: &[u8]) -> Result<usize> {
            let is_full = self.is_full.load(Ordering::Relaxed);
            if is_full && text.len() < 2 {
                return Err(Error::from(ErrorKind::StorageFull));
            }
            let taken = if is_full { text.len() / 2 } else { text.len() };
            self.holds.lock().unwrap_or_else(PoisonError::into_inner).extend(&text[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn eventually(is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < deadline, "it did not come");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_full_disk_is_told_of_once_and_counted_and_writing_goes_on_later() -> Result<()> {
        let disk = Disk::default();
        let mut sink = Sink::new("the log", disk.clone())?;
        sink.write("first\n");
        eventually(|| disk.text() == "first\n");
        disk.is_full.store(true, Ordering::Relaxed);
        sink.write("second\nsecond\n");
        eventually(|| sink.lines_lost() == 2);
        sink.write("third\n");
        eventually(|| sink.lines_lost() == 3);
        let news = sink.news().unwrap_or_default();
        assert!(news.contains("the log") && news.contains("lost"), "{news}");
        assert_eq!(sink.news(), None);
        disk.is_full.store(false, Ordering::Relaxed);
        sink.write("fourth\n");
        eventually(|| disk.text().ends_with("\nfourth\n"));
        eventually(|| sink.shared.problem.lock().is_ok_and(|problem| problem.is_none()));
        assert!(sink.news().is_some_and(|news| news.contains("again; 3 lines")));
        Ok(())
    }

    /// Something that nobody reads.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> Result<usize> {
            loop {
                thread::park();
            }
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_an_output_that_nobody_reads() -> Result<()> {
        let mut sink = Sink::new("stuck", Stuck)?;
        for _ in 0..2 * QUEUE {
            sink.write("line\n");
        }
        assert!(sink.lines_lost() >= QUEUE as u64 - 1);
        assert!(sink.news().is_some());
        sink.close(Instant::now() + Duration::from_millis(10));
        Ok(())
    }

    #[test]
    fn what_waits_is_written_at_the_end() -> Result<()> {
        let disk = Disk::default();
        let sink = Sink::new("disk", disk.clone())?;
        (0..100).for_each(|_| sink.write("line\n"));
        sink.close(Instant::now() + Duration::from_secs(60));
        assert_eq!(disk.text().lines().count(), 100);
        Ok(())
    }
}
