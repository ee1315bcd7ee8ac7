// SPDX-License-Identifier: GPL-2.0-only
//! Tables that are no screen: for people, for spreadsheets, for programs.

use std::fmt::Write;

use userspace::failure::Failure;

use super::columns::{COLUMNS, Column, fitting, time};
use super::model::{Vcpu, Vm};

/// Room for the words of [`state_of`].
pub const STATE_WIDTH: u16 = 17;

/// Columns of a table for people: what fits on a terminal of the usual width.
const WIDTH: u16 = 80 - STATE_WIDTH;

/// What is wrong with a vCPU, in words.
pub fn state_of(vcpu: &Vcpu) -> &'static str {
    match (vcpu.banned, vcpu.straggler) {
        (true, true) => "banned, straggler",
        (true, false) => "banned, stacked",
        (false, true) => "straggler",
        (false, false) => "",
    }
}

/// The quantiles of the waits.
pub fn waits(vm: &Vm) -> String {
    let quantile = |seconds: Option<f64>| match seconds {
        None => "-".into(),
        Some(seconds) if seconds.is_finite() => format!("<{}", time(seconds)),
        Some(_) => "longer".into(),
    };
    format!("p50 {} p99 {}", quantile(vm.wait_p50_s), quantile(vm.wait_p99_s))
}

/// A table for people.
pub fn table(vm: &Vm, vcpus: &[&Vcpu]) -> String {
    let columns = fitting(WIDTH);
    let effective =
        vm.effective_vcpus.map_or(String::new(), |vcpus| format!(", worth {vcpus:.1} cores"));
    let mut text = format!(
        "scx_vaware: {}, {} vCPUs{effective}; busy {:.1}, stolen {:.1}, {:.0} switches/s, wait {}\n",
        vm.state,
        vm.online_vcpus,
        vm.busy_vcpus,
        vm.stolen_vcpus,
        vm.switches_per_s,
        waits(vm)
    );
    let mut line = |cell: &dyn Fn(&Column) -> String, state: &str| {
        let cells: Vec<_> =
            columns.iter().map(|c| format!("{:>1$}", cell(c), usize::from(c.width))).collect();
        let _ = writeln!(text, "{}", format!("{} {state}", cells.join(" ")).trim_end());
    };
    line(&|column| column.title.into(), "state");
    for vcpu in vcpus {
        line(&|column| column.text(vcpu), state_of(vcpu));
    }
    text
}

/// A line for each vCPU, after one with the names of the fields.
pub fn csv(vcpus: &[&Vcpu], with_names: bool) -> String {
    let mut text = String::new();
    if with_names {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.key).collect();
        let _ = writeln!(text, "{},banned,straggler", names.join(","));
    }
    for vcpu in vcpus {
        for column in &COLUMNS {
            if let Some(value) = (column.value)(vcpu) {
                let _ = write!(text, "{value}");
            }
            text.push(',');
        }
        let _ = writeln!(text, "{},{}", u8::from(vcpu.banned), u8::from(vcpu.straggler));
    }
    text
}

/// All that is known, as one line.
///
/// # Errors
/// If it cannot be written as JSON, which is a fault of this program.
pub fn json(vm: &Vm, vcpus: &[&Vcpu]) -> Result<String, Failure> {
    let shown = Vm { vcpus: vcpus.iter().copied().cloned().collect(), ..vm.clone() };
    Ok(serde_json::to_string(&shown).map_err(anyhow::Error::from)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::model::tests::simulated;

    #[test]
    fn a_table_has_a_line_for_each_vcpu() {
        let vm = simulated(8);
        let text = table(&vm, &vm.vcpus.iter().collect::<Vec<_>>());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 8);
        assert!(
            lines[0].starts_with("scx_vaware: running, 8 vCPUs, worth 7.2 cores"),
            "{}",
            lines[0]
        );
        assert!(lines[9].ends_with("0.20    60us banned, straggler"), "{}", lines[9]);
        assert!(lines.iter().skip(1).all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn csv_has_a_field_for_each_name() {
        let vm = simulated(3);
        let vcpus: Vec<_> = vm.vcpus.iter().collect();
        let text = csv(&vcpus, true);
        let rows: Vec<Vec<_>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        assert_eq!((rows[0][0], rows[3][0], rows[0][1]), ("cpu", "2", "busy_ratio"));
        assert_eq!(csv(&vcpus, false).lines().count(), 3);
    }

    #[test]
    fn json_is_one_line_with_base_units() -> Result<(), Failure> {
        let vm = simulated(8);
        let text = json(&vm, &[&vm.vcpus[7]])?;
        assert_eq!(text.matches('\n').count(), 1);
        let read: serde_json::Value = serde_json::from_str(&text).map_err(anyhow::Error::from)?;
        assert_eq!((&read["schema_version"], &read["online_vcpus"]), (&1.into(), &8.0.into()));
        assert_eq!(read["vcpus"][0]["cpu"], 7);
        assert_eq!(read["vcpus"][0]["banned"], true);
        assert!(read["vcpus"][0]["inactive_typical_s"].as_f64().is_some_and(|s| s == 0.016));
        Ok(())
    }
}
