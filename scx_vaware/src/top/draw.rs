// SPDX-License-Identifier: GPL-2.0-only
//! The screen: what the VM does, a table of its vCPUs, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::columns::{COLUMNS, Column, GAP, fitting};
use super::filter::GRAMMAR;
use super::model::{Vcpu, Vm, age};
use super::state::State;
use super::text::{STATE_WIDTH, state_of, waits};

/// Lines about the VM above the table.
const SUMMARY_LINES: u16 = 4;
/// A bar is drawn where there is room for one that tells 5 % apart, and not wider than 1 %.
const BAR_WIDTHS: [u16; 2] = [20, 100];
/// From these parts of the time on, stolen is shown as a warning, and as bad.
const STOLEN_RATIOS: [f64; 2] = [0.1, 0.3];
/// Below this the vCPU is worth half a core.
const CAPACITY_LOW_RATIO: f64 = 0.5;

/// Colors, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    pub colors: bool,
}

impl Theme {
    fn color(self, color: Color) -> Style {
        if self.colors { Style::new().fg(color) } else { Style::new() }
    }

    fn bad(self) -> Style {
        self.color(Color::Red)
    }

    fn warning(self) -> Style {
        self.color(Color::Yellow)
    }

    fn good(self) -> Style {
        self.color(Color::Green)
    }
}

/// Draw the screen. What there was room for is noted in `state`.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, theme: Theme) {
    let [summary, heading, table, footer] = Layout::vertical([
        Constraint::Length(SUMMARY_LINES),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let room = table.width.saturating_sub(STATE_WIDTH + GAP);
    let columns = fitting(room);
    state.columns = columns.len();
    state.rows = usize::from(table.height).max(1);
    state.top = state.top.min(state.last_top());
    let used: u16 = columns.iter().map(|column| column.width + GAP).sum();
    let left = room.saturating_sub(used + GAP);
    let bar = (left >= BAR_WIDTHS[0]).then(|| left.min(BAR_WIDTHS[1]));

    let vcpus = state.vcpus();
    match &state.vm {
        Some(vm) => frame.render_widget(Paragraph::new(summary_of(vm, state, theme)), summary),
        None => frame.render_widget(Paragraph::new(beginning(state, theme)), summary),
    }
    frame.render_widget(Paragraph::new(headings(columns, bar, state)), heading);
    let visible = vcpus.iter().skip(state.top).take(state.rows);
    let rows: Vec<_> = visible.map(|vcpu| row(vcpu, columns, bar, theme)).collect();
    let nothing = match (&state.vm, vcpus.is_empty()) {
        (Some(vm), true) if vm.vcpus.is_empty() => {
            Some("no scheduler is loaded: there is nothing to show yet")
        }
        (Some(_), true) => Some("the filter leaves no vCPU"),
        _ => None,
    };
    match nothing {
        Some(why) => frame.render_widget(Paragraph::new(why), table),
        None => frame.render_widget(Paragraph::new(rows), table),
    }
    frame.render_widget(Paragraph::new(keys(state, vcpus.len(), footer.width, theme)), footer);
    if state.helps {
        help(frame);
    }
}

fn beginning(state: &State, theme: Theme) -> Vec<Line<'static>> {
    match &state.problem {
        Some(why) => vec![
            Line::styled(format!("no answer: {why}"), theme.bad()),
            Line::raw("asking again; q ends this"),
        ],
        None => vec![Line::raw("reading the metrics of the daemon ...")],
    }
}

fn summary_of(vm: &Vm, state: &State, theme: Theme) -> Vec<Line<'static>> {
    let bold = |style: Style| style.add_modifier(Modifier::BOLD);
    let running = if vm.state == "running" { theme.good() } else { theme.bad() };
    let effective =
        vm.effective_vcpus.map_or(String::new(), |vcpus| format!(", worth {vcpus:.1} cores"));
    let (up, online) = (age(vm.daemon_age_s), vm.online_vcpus);
    let mut first = vec![
        Span::styled("scx_vaware ", bold(Style::new())),
        Span::styled(vm.state.clone(), bold(running)),
        Span::raw(format!(" for {up}  {}  {online} vCPUs{effective}", vm.hypervisor)),
    ];
    if let Some(why) = &state.problem {
        let old = format!("NO ANSWER: {why}; these are the last values  ");
        first.insert(0, Span::styled(old, bold(theme.bad())));
    }
    let second = format!(
        "busy {:.1}  stolen {:.1}  switches {:.0}/s  kicks {:.0}/s",
        vm.busy_vcpus, vm.stolen_vcpus, vm.switches_per_s, vm.kicks_per_s
    );
    let mut third = vec![Span::raw(format!("wait {}", waits(vm)))];
    third.extend(counted([
        (vm.banned_vcpus, "banned", theme.bad()),
        (vm.straggler_vcpus, "stragglers", theme.warning()),
        (vm.stacked_vcpus, "stacked", theme.warning()),
    ]));
    let policies: Vec<_> = vm
        .policies
        .iter()
        .map(|policy| match &policy.verdict {
            Some(verdict) => format!("{} ({verdict})", policy.name),
            None => policy.name.clone(),
        })
        .collect();
    let policies = if policies.is_empty() { "none".into() } else { policies.join(" ") };
    let mut fourth = vec![Span::raw(format!("policies {policies}"))];
    fourth.extend(counted([
        (vm.ejections, "ejections", theme.bad()),
        (vm.restarts, "restarts", theme.warning()),
        (vm.pauses, "pauses of the VM", theme.warning()),
    ]));
    vec![first.into(), second.into(), third.into(), fourth.into()]
}

/// How many of each there are. What is zero is not worth a word.
fn counted(counts: [(f64, &str, Style); 3]) -> Vec<Span<'static>> {
    let some = counts.into_iter().filter(|(number, ..)| *number > 0.0);
    some.map(|(number, what, style)| Span::styled(format!("  {number} {what}"), style)).collect()
}

fn headings(columns: &[Column], bar: Option<u16>, state: &State) -> Line<'static> {
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let mut spans = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        let sorted = number == state.sort.column;
        let style = if sorted { reversed.add_modifier(Modifier::BOLD) } else { reversed };
        spans.push(Span::styled(format!("{:>1$}", column.title, usize::from(column.width)), style));
        // The gap behind the column that sorts has the sign of the direction.
        let sign = match (sorted, state.sort.descending) {
            (false, _) => " ",
            (true, true) => "v",
            (true, false) => "^",
        };
        let style = if sorted { Style::new().add_modifier(Modifier::BOLD) } else { reversed };
        spans.push(Span::styled(sign, style));
    }
    if let Some(width) = bar {
        let title = "busy, stolen, of the time";
        spans.push(Span::styled(format!("{title:<0$.0$} ", usize::from(width)), reversed));
    }
    spans.push(Span::styled(format!("{:<1$}", "state", 400), reversed));
    spans.into()
}

fn row(vcpu: &Vcpu, columns: &[Column], bar: Option<u16>, theme: Theme) -> Line<'static> {
    let mut spans: Vec<_> = columns
        .iter()
        .flat_map(|column| {
            let cell = format!("{:>1$}", column.text(vcpu), usize::from(column.width));
            [Span::styled(cell, style_of(column, vcpu, theme)), Span::raw(" ")]
        })
        .collect();
    if let Some(width) = bar {
        spans.extend(bar_of(vcpu, width, theme));
    }
    let style = if vcpu.banned { theme.bad() } else { theme.warning() };
    spans.push(Span::styled(state_of(vcpu), style));
    spans.into()
}

fn style_of(column: &Column, vcpu: &Vcpu, theme: Theme) -> Style {
    match column.name {
        "stolen" if vcpu.stolen_ratio >= STOLEN_RATIOS[1] => theme.bad(),
        "stolen" if vcpu.stolen_ratio >= STOLEN_RATIOS[0] => theme.warning(),
        "capacity" if vcpu.capacity_ratio.is_some_and(|c| c < CAPACITY_LOW_RATIO) => {
            theme.warning()
        }
        _ => Style::new(),
    }
}

/// The time of a vCPU: what tasks ran, what was stolen, and the rest.
fn bar_of(vcpu: &Vcpu, width: u16, theme: Theme) -> [Span<'static>; 4] {
    let cells = |ratio: f64| (ratio.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    let busy = cells(vcpu.busy_ratio);
    let stolen = cells(vcpu.busy_ratio + vcpu.stolen_ratio).saturating_sub(busy);
    [
        Span::styled("|".repeat(busy), theme.good()),
        Span::styled("x".repeat(stolen), theme.bad()),
        Span::raw(".".repeat(usize::from(width).saturating_sub(busy + stolen))),
        Span::raw(" "),
    ]
}

fn keys(state: &State, found: usize, width: u16, theme: Theme) -> Line<'static> {
    if let Some((text, problem)) = &state.writing {
        let mut spans = vec![Span::raw(format!("filter: {text}_  "))];
        spans.push(match problem {
            Some(why) => Span::styled(why.clone(), theme.bad()),
            None => Span::raw(format!("({GRAMMAR})")),
        });
        return spans.into();
    }
    let last = (state.top + state.rows).min(found);
    let mut shown = format!("{}-{last} of {found}", (state.top + 1).min(last));
    if !state.filter.text.is_empty() {
        shown += &format!(" with {}", state.filter.text);
    }
    let every = if state.paused { "paused".into() } else { format!("{:?}", state.interval) };
    let keys = "q quit  h help  j/k scroll  </> sort  r reverse  / filter";
    let (left, right) = (format!(" {keys}"), format!("{shown}  {every} "));
    let room = usize::from(width).saturating_sub(right.chars().count() + 1);
    Line::styled(
        format!("{left:<room$.room$} {right}"),
        Style::new().add_modifier(Modifier::REVERSED),
    )
}

fn help(frame: &mut Frame<'_>) {
    let mut lines = vec![
        Line::raw("q, Esc     quit                 up, down, j, k, PgUp, PgDn, Home, End   scroll"),
        Line::raw("<, >       sort by another column               r   the other way round"),
        Line::raw("/          filter; an empty one shows all       +, -   read less, more often"),
        Line::raw("space      pause"),
    ];
    let width = COLUMNS.iter().map(|column| column.name.len()).max().unwrap_or(0);
    lines.extend(COLUMNS.iter().map(|c| Line::raw(format!("{:<width$}  {}", c.name, c.help))));
    let area = frame.area();
    let centered = |room: u16, wanted: u16| (room.saturating_sub(wanted) / 2, wanted.min(room));
    let (x, width) = centered(area.width, 80);
    let (y, height) = centered(area.height, lines.len() as u16 + 2);
    let place = Rect { x, y, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" help ")), place);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;

    use super::*;
    use crate::top::filter::Filter;
    use crate::top::model::tests::simulated;
    use crate::top::state::Sort;

    fn state(nr_vcpus: u32) -> State {
        let mut state = State::new(Duration::from_secs(2), Sort::by(0), Filter::default());
        state.vm = Some(simulated(nr_vcpus));
        state
    }

    fn drawn(state: &mut State, width: u16, height: u16, colors: bool) -> Buffer {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
        let Ok(_) = terminal.draw(|frame| draw(frame, state, Theme { colors }));
        terminal.backend().buffer().clone()
    }

    fn lines(buffer: &Buffer) -> Vec<String> {
        let text: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        text.chunks(usize::from(buffer.area.width.max(1))).map(<[&str]>::concat).collect()
    }

    #[test]
    fn a_small_screen_has_what_matters_most() {
        let shown = lines(&drawn(&mut state(64), 80, 24, true));
        assert!(shown[0].contains("running") && shown[0].contains("64 vCPUs, worth 57.6 cores"));
        assert!(shown[1].starts_with("busy 18.3  stolen 9.2  switches 6400/s"), "{}", shown[1]);
        let third = "wait p50 <128us p99 <2.0ms  8 banned  8 stragglers";
        assert_eq!(shown[2].trim_end(), third);
        assert!(shown[3].contains("ivh (wins)") && shown[3].contains("rescue (loses)"));
        let headings: Vec<_> = shown[4].split_whitespace().collect();
        assert_eq!(
            headings,
            [
                "vCPU^", "busy", "stolen", "stops/s", "stop", "switch/s", "wait", "capac.",
                "wake-up", "state"
            ]
        );
        assert_eq!(shown[5 + 7].split_whitespace().last(), Some("straggler"), "{}", shown[12]);
        assert!(shown[5 + 7].contains(" banned,"), "{}", shown[12]);
        assert!(shown[23].contains("1-18 of 64") && shown[23].contains("q quit"), "{}", shown[23]);
    }

    #[test]
    fn a_large_screen_has_all_columns_and_a_bar() {
        let mut state = state(1024);
        state.sort = Sort::by(1);
        let shown = lines(&drawn(&mut state, 200, 60, true));
        assert!(COLUMNS.iter().all(|column| shown[4].contains(column.title)), "{}", shown[4]);
        assert!(shown[5].contains("  60 %   30 %"), "{}", shown[5]);
        assert!(shown[5].contains("||||||||||||||||||||"), "{}", shown[5]);
        assert!(shown[59].contains("1-54 of 1024"), "{}", shown[59]);
        state.top = 5000;
        let end = lines(&drawn(&mut state, 200, 60, true));
        assert!(end[59].contains("971-1024 of 1024"), "{}", end[59]);
        assert!(end[58].contains("0 %"), "{}", end[58]);
    }

    #[test]
    fn without_colors_there_are_none() {
        let has_colors = |buffer: &Buffer| {
            buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(has_colors(&drawn(&mut state(64), 80, 24, true)));
        assert!(!has_colors(&drawn(&mut state(64), 80, 24, false)));
    }

    #[test]
    fn stolen_time_and_bans_stand_out() {
        let buffer = drawn(&mut state(64), 80, 24, true);
        let styled = |row: u16, color| {
            (0..80)
                .filter(|x| buffer[(*x, row)].fg == color)
                .map(|x| buffer[(x, row)].symbol())
                .collect::<String>()
        };
        assert_eq!(styled(5 + 7, Color::Red).trim(), "banned, straggler");
        assert_eq!(styled(5 + 7, Color::Yellow).trim(), "0.20");
        let mut busy = state(101);
        busy.sort = Sort::by(1);
        let buffer = drawn(&mut busy, 80, 24, true);
        let red: String = (0..80)
            .filter(|x| buffer[(*x, 5)].fg == Color::Red)
            .map(|x| buffer[(x, 5)].symbol())
            .collect();
        assert_eq!(red.trim(), "30 %");
    }

    #[test]
    fn a_daemon_that_has_gone_is_said_to() {
        let mut gone = state(4);
        gone.problem = Some("connection refused".into());
        let shown = lines(&drawn(&mut gone, 80, 24, true));
        assert!(shown[0].starts_with("NO ANSWER: connection refused"), "{}", shown[0]);
        (gone.vm, gone.problem) = (None, Some("connection refused".into()));
        let shown = lines(&drawn(&mut gone, 80, 24, true));
        assert!(shown[0].contains("no answer: connection refused"), "{}", shown[0]);
    }

    #[test]
    fn help_tells_of_every_column() {
        let mut state = state(4);
        state.helps = true;
        let shown = lines(&drawn(&mut state, 80, 24, true)).join("\n");
        assert!(COLUMNS.iter().all(|column| shown.contains(column.help)), "{shown}");
    }

    proptest! {
        #[test]
        fn every_size_can_be_drawn(
            width in 1u16..260, height in 1u16..80, vcpus in 1u32..200, top in 0usize..300,
            helps: bool, writing: bool,
        ) {
            let mut state = state(vcpus);
            (state.top, state.helps) = (top, helps);
            state.writing = writing.then(|| ("busy>3".into(), None));
            drawn(&mut state, width, height, true);
            prop_assert!(state.top <= state.last_top());
        }
    }
}
