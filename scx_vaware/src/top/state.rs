// SPDX-License-Identifier: GPL-2.0-only
//! What is shown and how, and what keys change of it. Nothing here draws.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::columns::COLUMNS;
use super::filter::Filter;
use super::model::{Vcpu, Vm};

/// Bounds of the time between two readings.
const INTERVAL: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(60)];

/// What the user has chosen, and what there is to show.
pub struct State {
    /// `None` until two pages were read.
    pub vm: Option<Vm>,
    /// Why the last reading failed.
    pub problem: Option<String>,
    pub interval: Duration,
    pub paused: bool,
    pub sort: Sort,
    pub filter: Filter,
    /// The filter while it is written, and what is wrong with it.
    pub writing: Option<(String, Option<String>)>,
    pub helps: bool,
    /// The first row that is shown, of those that the filter leaves.
    pub top: usize,
    /// Rows that had room when it was drawn last, and columns.
    pub rows: usize,
    pub columns: usize,
}

/// By which column, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: usize,
    pub descending: bool,
}

impl Sort {
    /// By this column, the way that is likely to be looked for.
    pub fn by(column: usize) -> Self {
        Self { column, descending: COLUMNS.get(column).is_some_and(|column| column.descends()) }
    }

    /// Sort the vCPUs; those that are equal stay in the order of their numbers.
    pub fn apply(self, vcpus: &mut [&Vcpu]) {
        if let Some(column) = COLUMNS.get(self.column) {
            vcpus.sort_by(|one, other| column.compare(one, other, self.descending));
        }
    }
}

/// What a key asks for beyond the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    /// Read at once.
    Read,
    Quit,
}

impl State {
    pub fn new(interval: Duration, sort: Sort, filter: Filter) -> Self {
        Self {
            vm: None,
            problem: None,
            interval,
            paused: false,
            sort,
            filter,
            writing: None,
            helps: false,
            top: 0,
            rows: 1,
            columns: COLUMNS.len(),
        }
    }

    /// The vCPUs that the filter leaves, in their order.
    pub fn vcpus(&self) -> Vec<&Vcpu> {
        let mut vcpus = self.vm.as_ref().map_or_else(Vec::new, |vm| self.filter.select(&vm.vcpus));
        self.sort.apply(&mut vcpus);
        vcpus
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Wish::Quit } else { Wish::Nothing };
        }
        if self.writing.is_some() {
            self.write(key.code);
            return Wish::Nothing;
        }
        if self.helps {
            self.helps = false;
            return if key.code == KeyCode::Char('q') { Wish::Quit } else { Wish::Nothing };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.helps = true,
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageUp => self.scroll(-(self.rows as isize)),
            KeyCode::PageDown => self.scroll(self.rows as isize),
            KeyCode::Home | KeyCode::Char('g') => self.top = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll(isize::MAX),
            KeyCode::Left | KeyCode::Char('<') => self.sort_by_next(self.columns.saturating_sub(1)),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by_next(1),
            KeyCode::Char('r') => self.sort.descending ^= true,
            KeyCode::Char('/') => self.writing = Some((self.filter.text.clone(), None)),
            KeyCode::Char(' ') => {
                self.paused ^= true;
                return if self.paused { Wish::Nothing } else { Wish::Read };
            }
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(INTERVAL[1]),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVAL[0]),
            _ => {}
        }
        Wish::Nothing
    }

    fn write(&mut self, key: KeyCode) {
        let Some((text, problem)) = &mut self.writing else { return };
        match key {
            KeyCode::Esc => self.writing = None,
            KeyCode::Enter => match text.parse() {
                Ok(filter) => (self.filter, self.writing, self.top) = (filter, None, 0),
                Err(why) => *problem = Some(why),
            },
            KeyCode::Backspace => _ = text.pop(),
            KeyCode::Char(letter) => text.push(letter),
            _ => {}
        }
    }

    fn scroll(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows).min(self.last_top());
    }

    /// Where the last page begins.
    pub fn last_top(&self) -> usize {
        self.vcpus().len().saturating_sub(self.rows)
    }

    /// Sort by the shown column that is so many to the right; after the last comes the first.
    fn sort_by_next(&mut self, step: usize) {
        let columns = self.columns.max(1);
        self.sort = Sort::by((self.sort.column.min(columns - 1) + step) % columns);
        self.top = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::top::model::tests::simulated;

    fn state(nr_vcpus: u32) -> State {
        let mut state = State::new(Duration::from_secs(2), Sort::by(0), Filter::default());
        (state.vm, state.rows, state.columns) = (Some(simulated(nr_vcpus)), 10, 9);
        state
    }

    fn press(state: &mut State, keys: &str) -> Wish {
        keys.chars().fold(Wish::Nothing, |_, key| {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                'v' => KeyCode::PageDown,
                other => KeyCode::Char(other),
            };
            state.press(KeyEvent::new(code, KeyModifiers::NONE))
        })
    }

    fn first(state: &State) -> u32 {
        state.vcpus().get(state.top).map_or(u32::MAX, |vcpu| vcpu.cpu)
    }

    #[test]
    fn keys_scroll_to_the_ends_and_no_further() {
        let mut state = state(64);
        press(&mut state, "jjk");
        assert_eq!(first(&state), 1);
        press(&mut state, "v");
        assert_eq!(first(&state), 11);
        press(&mut state, "Gjv");
        assert_eq!(first(&state), 54);
        press(&mut state, "gk");
        assert_eq!(first(&state), 0);
    }

    #[test]
    fn keys_sort_by_what_is_shown_either_way() {
        let mut state = state(64);
        press(&mut state, ">");
        assert_eq!((state.sort, first(&state)), (Sort { column: 1, descending: true }, 60));
        press(&mut state, "r");
        assert_eq!(first(&state), 0);
        press(&mut state, "<<");
        assert_eq!(state.sort.column, 8, "before the first column comes the last one");
        press(&mut state, ">");
        assert_eq!(state.sort, Sort::by(0));
    }

    #[test]
    fn a_filter_is_written_corrected_and_given_up() {
        let mut state = state(64);
        press(&mut state, "/bannex\n");
        assert!(matches!(&state.writing, Some((text, Some(_))) if text == "bannex"));
        press(&mut state, "\x08d\n");
        assert_eq!((state.writing.is_none(), state.vcpus().len()), (true, 8));
        press(&mut state, "/ q\x1b");
        assert_eq!((state.filter.text.as_str(), state.vcpus().len()), ("banned", 8));
    }

    #[test]
    fn keys_pause_hasten_help_and_quit() {
        let mut state = state(4);
        assert_eq!(press(&mut state, " "), Wish::Nothing);
        assert_eq!((state.paused, press(&mut state, " ")), (true, Wish::Read));
        press(&mut state, "----");
        assert_eq!(state.interval, INTERVAL[0]);
        press(&mut state, "++++++++");
        assert_eq!(state.interval, INTERVAL[1]);
        press(&mut state, "h");
        assert!(state.helps);
        assert_eq!((press(&mut state, "j"), state.helps), (Wish::Nothing, false));
        assert_eq!(press(&mut state, "q"), Wish::Quit);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut state, "/");
        assert_eq!(state.press(control_c), Wish::Quit);
    }

    proptest! {
        #[test]
        fn no_keys_leave_the_rows_that_there_are(keys in "[ -~\n\x1b\x08]{0,60}", vcpus in 1u32..70) {
            let mut state = state(vcpus);
            press(&mut state, &keys);
            prop_assert!(state.top <= state.last_top());
            prop_assert!(state.sort.column < COLUMNS.len());
        }
    }
}
