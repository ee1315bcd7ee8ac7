// SPDX-License-Identifier: GPL-2.0-only
//! The columns of the table: what each shows, sorts by and exports.

use std::cmp::Ordering;

use super::model::Vcpu;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The number of a vCPU or group.
    Number,
    /// A part of the time, in percent.
    Percent,
    /// 0 to 1.
    Ratio,
    /// Events a second.
    Rate,
    /// A time, which filters compare in ms.
    Time,
}

/// One column.
pub struct Column {
    /// For `--sort` and filters.
    pub name: &'static str,
    /// Its heading, and how wide the column is.
    pub title: &'static str,
    pub width: u16,
    /// In CSV: the field of [`Vcpu`].
    pub key: &'static str,
    pub kind: Kind,
    pub value: fn(&Vcpu) -> Option<f64>,
    pub help: &'static str,
}

/// All columns. A screen has room for the first ones.
pub const COLUMNS: [Column; 18] = [
    Column {
        name: "vcpu",
        title: "vCPU",
        width: 4,
        key: "cpu",
        kind: Kind::Number,
        value: |vcpu| Some(f64::from(vcpu.cpu)),
        help: "the kernel's number",
    },
    Column {
        name: "busy",
        title: "busy",
        width: 5,
        key: "busy_ratio",
        kind: Kind::Percent,
        value: |vcpu| Some(vcpu.busy_ratio),
        help: "part of the time in which tasks ran, without steal time",
    },
    Column {
        name: "stolen",
        title: "stolen",
        width: 6,
        key: "stolen_ratio",
        kind: Kind::Percent,
        value: |vcpu| Some(vcpu.stolen_ratio),
        help: "part of the time that the host took from running tasks",
    },
    Column {
        name: "stops",
        title: "stops/s",
        width: 7,
        key: "preemptions_per_s",
        kind: Kind::Rate,
        value: |vcpu| Some(vcpu.preemptions_per_s),
        help: "vCPU preemptions while it had work",
    },
    Column {
        name: "stop",
        title: "stop",
        width: 5,
        key: "inactive_typical_s",
        kind: Kind::Time,
        value: |vcpu| vcpu.inactive_typical_s,
        help: "median length of a preempted period",
    },
    Column {
        name: "switches",
        title: "switch/s",
        width: 8,
        key: "switches_per_s",
        kind: Kind::Rate,
        value: |vcpu| Some(vcpu.switches_per_s),
        help: "waits that ended with the task on it",
    },
    Column {
        name: "wait",
        title: "wait",
        width: 5,
        key: "wait_s",
        kind: Kind::Time,
        value: |vcpu| vcpu.wait_s,
        help: "mean wait of the tasks that it ran",
    },
    Column {
        name: "capacity",
        title: "capac.",
        width: 6,
        key: "capacity_ratio",
        kind: Kind::Ratio,
        value: |vcpu| vcpu.capacity_ratio,
        help: "share of a core times speed",
    },
    Column {
        name: "wakeup",
        title: "wake-up",
        width: 7,
        key: "wakeup_latency_s",
        kind: Kind::Time,
        value: |vcpu| vcpu.wakeup_latency_s,
        help: "median time from its wake-up until it runs",
    },
    Column {
        name: "idle",
        title: "idle",
        width: 5,
        key: "idle_ratio",
        kind: Kind::Percent,
        value: |vcpu| Some(vcpu.idle_ratio),
        help: "part of the time with nothing to run",
    },
    Column {
        name: "waking",
        title: "waking",
        width: 6,
        key: "waking_stolen_ratio",
        kind: Kind::Percent,
        value: |vcpu| Some(vcpu.waking_stolen_ratio),
        help: "part of the time that the host took while it woke up",
    },
    Column {
        name: "run",
        title: "run",
        width: 5,
        key: "active_typical_s",
        kind: Kind::Time,
        value: |vcpu| vcpu.active_typical_s,
        help: "median time that it runs until a long stop",
    },
    Column {
        name: "share",
        title: "share",
        width: 5,
        key: "share_ratio",
        kind: Kind::Ratio,
        value: |vcpu| vcpu.share_ratio,
        help: "part of the time it wanted to run in which it ran",
    },
    Column {
        name: "speed",
        title: "speed",
        width: 5,
        key: "speed_ratio",
        kind: Kind::Ratio,
        value: |vcpu| vcpu.speed_ratio,
        help: "speed while it runs, relative to the best",
    },
    Column {
        name: "stack",
        title: "stack",
        width: 5,
        key: "stack",
        kind: Kind::Number,
        value: |vcpu| vcpu.stack.map(f64::from),
        help: "lowest vCPU on its hardware thread",
    },
    Column {
        name: "core",
        title: "core",
        width: 5,
        key: "core",
        kind: Kind::Number,
        value: |vcpu| vcpu.core.map(f64::from),
        help: "lowest vCPU on its core",
    },
    Column {
        name: "llc",
        title: "llc",
        width: 5,
        key: "llc",
        kind: Kind::Number,
        value: |vcpu| vcpu.llc.map(f64::from),
        help: "lowest vCPU that shares its last-level cache",
    },
    Column {
        name: "socket",
        title: "socket",
        width: 6,
        key: "socket",
        kind: Kind::Number,
        value: |vcpu| vcpu.socket.map(f64::from),
        help: "lowest vCPU on its socket",
    },
];

/// Space between columns.
pub const GAP: u16 = 1;

/// The position of the column with this name.
pub fn position(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| column.name == name)
}

/// The columns that fit into `width`, the first ones first; at least one.
pub fn fitting(width: u16) -> &'static [Column] {
    let mut used = 0;
    let fit = COLUMNS.iter().take_while(|column| {
        used += column.width + GAP;
        used <= width + GAP
    });
    &COLUMNS[..fit.count().max(1)]
}

impl Column {
    /// The value as people read it; a dash if it is not known.
    pub fn text(&self, vcpu: &Vcpu) -> String {
        (self.value)(vcpu).map_or_else(|| "-".into(), |value| self.kind.text(value))
    }

    /// Whether more of it is likely to be what somebody looks for.
    pub fn descends(&self) -> bool {
        self.kind != Kind::Number && self.kind != Kind::Ratio
    }

    /// The order of two vCPUs. What is not known comes last, whichever way it is sorted.
    pub fn compare(&self, one: &Vcpu, other: &Vcpu, descending: bool) -> Ordering {
        match ((self.value)(one), (self.value)(other)) {
            (Some(one), Some(other)) if descending => other.total_cmp(&one),
            (Some(one), Some(other)) => one.total_cmp(&other),
            (one, other) => other.is_some().cmp(&one.is_some()),
        }
    }
}

impl Kind {
    /// What turns a value into the unit that people see and filters compare.
    pub fn scale(self) -> f64 {
        match self {
            Self::Percent => 100.0,
            Self::Time => 1000.0,
            Self::Number | Self::Ratio | Self::Rate => 1.0,
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Number => format!("{value:.0}"),
            Self::Percent => format!("{:.0} %", value * 100.0),
            Self::Ratio => format!("{value:.2}"),
            Self::Rate if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
            Self::Rate => format!("{value:.1}"),
            Self::Time => time(value),
        }
    }
}

/// A time of two or three digits, with its unit.
pub fn time(seconds: f64) -> String {
    let us = seconds * 1e6;
    match us {
        _ if us < 999.5 => format!("{us:.0}us"),
        _ if us < 9_950.0 => format!("{:.1}ms", us / 1e3),
        _ if us < 999_500.0 => format!("{:.0}ms", us / 1e3),
        _ if us < 9_950_000.0 => format!("{:.1}s", us / 1e6),
        _ => format!("{:.0}s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::model::tests::simulated;

    #[test]
    fn every_field_of_a_vcpu_is_a_column_or_a_state() {
        let vm = simulated(1);
        let json = serde_json::to_value(&vm.vcpus[0]).unwrap_or_default();
        let fields = json.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
        let mut known: Vec<_> = COLUMNS.iter().map(|column| column.key.to_string()).collect();
        known.extend(["banned".into(), "straggler".into()]);
        known.sort();
        assert_eq!(fields, Some(known));
    }

    #[test]
    fn values_fit_into_their_columns() {
        let extreme = Vcpu {
            cpu: 1023,
            busy_ratio: 1.0,
            stolen_ratio: 1.0,
            waking_stolen_ratio: 1.0,
            idle_ratio: 1.0,
            preemptions_per_s: 20_000.0,
            switches_per_s: 1_000_000.0,
            wait_s: Some(1000.0),
            inactive_typical_s: Some(8.6),
            ..simulated(1024).vcpus.pop().unwrap_or_default()
        };
        for column in &COLUMNS {
            let text = column.text(&extreme);
            assert!(text.len() <= usize::from(column.width), "{}: {text}", column.name);
            assert!(column.title.len() <= usize::from(column.width), "{}", column.title);
        }
    }

    #[test]
    fn what_is_not_known_comes_last_whichever_way_it_is_sorted() {
        let vcpu = |wait_s| Vcpu { wait_s, ..Vcpu::default() };
        let wait = &COLUMNS[position("wait").unwrap_or_default()];
        for descending in [false, true] {
            let mut vcpus = [vcpu(None), vcpu(Some(1.0)), vcpu(Some(2.0))];
            vcpus.sort_by(|one, other| wait.compare(one, other, descending));
            assert_eq!(vcpus[2].wait_s, None);
            assert_eq!(vcpus[0].wait_s, Some(if descending { 2.0 } else { 1.0 }));
        }
    }

    #[test]
    fn times_have_few_digits() {
        let shown = [0.0, 1e-6, 999.6e-6, 1.5e-3, 9.96e-3, 0.5, 2.0, 100.0].map(time);
        assert_eq!(shown, ["0us", "1us", "1.0ms", "1.5ms", "10ms", "500ms", "2.0s", "100s"]);
    }
}
