// SPDX-License-Identifier: GPL-2.0-only
//! The screen while it lives: keys, readings by a thread, and the terminal as it was at the end.

use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use userspace::failure::Failure;
use userspace::scrape::Scrape;

use super::draw::{Theme, draw};
use super::model::Vm;
use super::state::{State, Wish};

/// How long a key, a reading or a signal may wait to be seen.
const REACTION: Duration = Duration::from_millis(100);

/// Time between the first two readings: there are no rates before the second.
const FIRST: Duration = Duration::from_millis(500);

/// Asks the daemon, so that keys never wait for it.
struct Reader {
    requests: Sender<()>,
    answers: Receiver<Result<Scrape, String>>,
    /// A request that has no answer yet.
    is_asking: bool,
}

impl Reader {
    fn start(address: SocketAddr) -> std::io::Result<Self> {
        let (requests, asked) = channel();
        let (answer, answers) = channel();
        let read = move || {
            for () in asked {
                let read = Scrape::read(address).map_err(|why| format!("{address}: {why:#}"));
                if answer.send(read).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("read".into()).spawn(read)?;
        Ok(Self { requests, answers, is_asking: false })
    }

    fn ask(&mut self) {
        self.is_asking = self.is_asking || self.requests.send(()).is_ok();
    }

    fn answer(&mut self) -> Option<Result<Scrape, String>> {
        match self.answers.try_recv() {
            Ok(answer) => {
                self.is_asking = false;
                Some(answer)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("the thread that reads has ended".into())),
        }
    }
}

/// Show until the user quits.
///
/// # Errors
/// What the terminal said. It is as it was before in any case.
pub fn run(address: SocketAddr, state: State, theme: Theme) -> Result<(), Failure> {
    let end = Arc::<AtomicBool>::default();
    // SIGHUP ends it at once: the terminal is gone.
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&end)).context("listening for signals")?;
    }
    let reader = Reader::start(address).context("starting to read")?;
    // Not dropped: where the terminal is gone that writes of it to standard error, and panics.
    let mut terminal = ManuallyDrop::new(ratatui::try_init().map_err(|why| {
        anyhow!("the terminal cannot show a screen ({why}); write tables with --format text")
    })?);
    let ended = show(&mut terminal, reader, state, theme, &end);
    let shown = terminal.show_cursor();
    ratatui::try_restore().and(shown).context("giving the terminal back")?;
    Ok(ended?)
}

fn show(
    terminal: &mut DefaultTerminal,
    mut reader: Reader,
    mut state: State,
    theme: Theme,
    end: &AtomicBool,
) -> anyhow::Result<()> {
    let mut last: Option<Scrape> = None;
    let mut asked_at = Instant::now();
    reader.ask();
    let mut is_stale = true;
    while !end.load(Ordering::Relaxed) {
        if std::mem::take(&mut is_stale) {
            terminal.draw(|frame| draw(frame, &mut state, theme)).context("drawing")?;
        }
        if !wait_for_keys().context("waiting for keys")? {
            return Ok(());
        }
        if event::poll(Duration::ZERO).context("waiting for keys")? {
            is_stale = true;
            match event::read().context("reading a key")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match state.press(key) {
                    Wish::Quit => return Ok(()),
                    Wish::Read => reader.ask(),
                    Wish::Nothing => {}
                },
                _ => {}
            }
        }
        match reader.answer() {
            Some(Ok(now)) => {
                if let Some(before) = &last {
                    state.vm = Some(Vm::between(before, &now));
                }
                (last, state.problem, is_stale) = (Some(now), None, true);
            }
            Some(Err(why)) => (state.problem, is_stale) = (Some(why), true),
            None => {}
        }
        let wait = if state.vm.is_none() && last.is_some() { FIRST } else { state.interval };
        if !state.paused && !reader.is_asking && asked_at.elapsed() >= wait {
            asked_at = Instant::now();
            reader.ask();
        }
    }
    Ok(())
}

/// Wait for [`REACTION`], or until there are keys to read. Return false if the terminal has hung up:
/// crossterm would read from it for ever.
fn wait_for_keys() -> std::io::Result<bool> {
    let mut keys = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct of ours, which the kernel fills in.
    let ready = unsafe { libc::poll(&raw mut keys, 1, REACTION.as_millis() as libc::c_int) };
    match std::io::Error::last_os_error() {
        error if ready < 0 && error.kind() != std::io::ErrorKind::Interrupted => Err(error),
        _ => Ok(keys.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0),
    }
}
