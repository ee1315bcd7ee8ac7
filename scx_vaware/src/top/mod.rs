// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware top`: what each vCPU does, from the metrics of the running daemon. A screen on a
//! terminal, else tables; it needs no rights.

mod columns;
mod draw;
mod filter;
mod live;
mod model;
mod state;
mod text;

use std::io::{IsTerminal, stdin, stdout};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::anyhow;
use clap::ValueEnum;
use userspace::config::{Config, Settings, address};
use userspace::failure::Failure;
use userspace::scrape::Scrape;

use crate::output;
use columns::{COLUMNS, position};
use draw::Theme;
use filter::Filter;
use model::Vm;
use state::{Sort, State};

/// How to show.
#[derive(clap::Args, Clone)]
pub struct TopOptions {
    /// Where the daemon serves its metrics; without it, where its configuration says.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    from: Option<SocketAddr>,
    /// The daemon's configuration; without it /etc/scx_vaware.toml, if that can be read.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Time between two tables.
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration, default_value = "2")]
    interval: Duration,
    /// Show one table, over one interval, and end.
    #[arg(long)]
    once: bool,
    /// Write tables of this kind instead of a screen; json has a line for each interval.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Sort by this column, such as stolen: the names are in the help of the screen (h).
    #[arg(long, value_name = "COLUMN", value_parser = sort, default_value = "vcpu")]
    sort: Sort,
    /// Show only vCPUs for which all of these words hold, such as "banned", "0-7", "stolen>10".
    #[arg(long, value_name = "WORDS", default_value = "")]
    filter: Filter,
}

/// Tables without a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
}

fn sort(name: &str) -> Result<Sort, String> {
    position(name).map(Sort::by).ok_or_else(|| {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        format!("there is no such column; write one of {}", names.join(", "))
    })
}

/// Show until the user quits, or once.
///
/// # Errors
/// If there is no daemon to ask; of tables, if it has gone.
pub fn top(options: &TopOptions) -> Result<(), Failure> {
    let address = match options.from {
        Some(address) => address,
        None => configured(options.config.as_deref())?,
    };
    let is_screen = stdout().is_terminal()
        && stdin().is_terminal()
        && std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
    if is_screen && !options.once && options.format.is_none() {
        let state = State::new(options.interval, options.sort, options.filter.clone());
        // https://no-color.org
        let colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        return live::run(address, state, Theme { colors });
    }
    tables(address, options)
}

fn tables(address: SocketAddr, options: &TopOptions) -> Result<(), Failure> {
    let mut before = read(address)?;
    let mut is_first = true;
    loop {
        sleep(options.interval);
        let now = read(address)?;
        let vm = Vm::between(&before, &now);
        let mut vcpus = options.filter.select(&vm.vcpus);
        options.sort.apply(&mut vcpus);
        output::print(&match options.format.unwrap_or(Format::Text) {
            Format::Text => text::table(&vm, &vcpus),
            Format::Json => text::json(&vm, &vcpus)?,
            Format::Csv => text::csv(&vcpus, is_first),
        })?;
        if options.once {
            return Ok(());
        }
        (before, is_first) = (now, false);
    }
}

fn read(address: SocketAddr) -> Result<Scrape, Failure> {
    Scrape::read(address).map_err(|why| {
        anyhow!(
            "no scheduler answers at {address} ({why:#}); start it with scx_vaware run, or say where \
             it serves its metrics with --from"
        )
        .into()
    })
}

/// Where the daemon serves its metrics by its configuration.
fn configured(file: Option<&Path>) -> Result<SocketAddr, Failure> {
    let settings = match file {
        Some(path) => Settings::read(path)?,
        None => Settings::installed(),
    };
    Config::from(settings).listen.reachable().ok_or_else(|| {
        Failure::Config(
            "the daemon's configuration has its metrics off; set listen, or say where with --from"
                .into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_none_is_answered_by_those_that_are() {
        assert_eq!(sort("stolen"), Ok(Sort { column: 2, descending: true }));
        assert_eq!(sort("capacity").map(|sort| sort.descending), Ok(false));
        assert!(sort("turbo").is_err_and(|why| why.contains("stolen")));
    }
}
