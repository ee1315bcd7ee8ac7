// SPDX-License-Identifier: GPL-2.0-only
//! The twin's command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use twin::{arm, report, run, scenario};

/// The scheduler's own source on a simulated kernel and host, in virtual time.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario under one or more schedulers
    Run {
        /// A scenario: see eval/twin/scenarios
        scenario: PathBuf,
        /// Schedulers, with commas: eevdf, scx_vaware, scx_vaware:preempt+sync, scx_vaware:-balance
        #[arg(long, default_value = "eevdf,scx_vaware")]
        schedulers: String,
        /// The first seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print the whole trace
        #[arg(long)]
        trace: bool,
    },
}

fn main() -> ExitCode {
    match start() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("twin: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Run { scenario, schedulers, seed, trace } => {
            let text = std::fs::read_to_string(&scenario)
                .with_context(|| format!("reading {}", scenario.display()))?;
            let scenario = scenario::parse(&text)
                .map_err(|what| anyhow::anyhow!("{}: {what}", scenario.display()))?;
            run_scenario(&scenario, &schedulers, seed, trace)
        }
    }
}

/// Exit codes: 0 all went well, 1 a violation, 2 bad input.
fn run_scenario(
    scenario: &scenario::Scenario,
    schedulers: &str,
    seed: u64,
    trace: bool,
) -> anyhow::Result<ExitCode> {
    if !scenario.about.is_empty() {
        println!("{}", scenario.about);
    }
    let mut code = ExitCode::SUCCESS;
    for name in schedulers.split(',') {
        let class = arm::parse(name).map_err(anyhow::Error::msg)?;
        let (mut sim, tasks) = scenario.build(class, seed);
        sim.record.all = trace.then(Vec::new);
        let began = std::time::Instant::now();
        let outcome = run::run(sim, tasks, scenario.length_ns())?;
        let wall = began.elapsed().as_secs_f64();
        for entry in outcome.all.iter().flatten() {
            println!("{entry}");
        }
        let counted = scenario.length_ns().saturating_sub(scenario.warm_up_ms * 1_000_000);
        println!(
            "{name}, seed {seed}: {} ms in {wall:.2} s, {} events, trace {:016x}",
            outcome.length_ns / 1_000_000,
            outcome.events,
            outcome.hash
        );
        print!("{}", report::text(&outcome, counted));
        if let Some(violation) = report::violation(&outcome) {
            print!("{violation}");
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
