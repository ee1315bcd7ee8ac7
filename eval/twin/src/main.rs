// SPDX-License-Identifier: GPL-2.0-only
//! The twin's command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, Subcommand};
use twin::fuzz::{Case, Failure, generate, minimise};
use twin::{arm, compare, report, run, scale, scenario, vtop};

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
        /// Write the last scheduler's run as JSON for eval/timeline --draw
        #[arg(long)]
        timeline: Option<PathBuf>,
    },
    /// Print the table of the twin beside lab VMs (docs/twin-trust.md)
    Trust {
        #[arg(long, default_value = "eval/twin/trust")]
        folder: PathBuf,
        #[arg(long, default_value_t = 5)]
        seeds: u64,
    },
    /// Print the table of the twin beside the papers' figures (docs/twin-papers.md)
    Papers {
        #[arg(long, default_value = "eval/twin/papers")]
        folder: PathBuf,
        #[arg(long, default_value_t = 3)]
        seeds: u64,
    },
    /// Print what a decision and finding the topology cost at 12 to 1024 vCPUs (docs/twin-scale.md)
    Scale,
    /// Run random cases; a failing one is made small and printed as a file for tests/cases
    Fuzz {
        /// How many seeds
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first one
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Begin no more of them after so many seconds
        #[arg(long, default_value_t = u64::MAX)]
        seconds: u64,
    },
    /// Run a case that the fuzzer printed; print the end of the trace that led to a violation
    Replay {
        case: PathBuf,
        /// Write the whole trace to this file
        #[arg(long)]
        trace: Option<PathBuf>,
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
        Command::Run { scenario, schedulers, seed, trace, timeline } => {
            let text = std::fs::read_to_string(&scenario)
                .with_context(|| format!("reading {}", scenario.display()))?;
            let scenario = scenario::parse(&text)
                .map_err(|what| anyhow::anyhow!("{}: {what}", scenario.display()))?;
            run_scenario(&scenario, &schedulers, seed, trace, timeline.as_deref())
        }
        Command::Trust { folder, seeds } | Command::Papers { folder, seeds } => {
            print!("{}", compare::table(&folder, seeds)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Scale => {
            println!("{}\n{}", scale::table()?, vtop::table());
            Ok(ExitCode::SUCCESS)
        }
        Command::Fuzz { seeds, from, seconds } => run_fuzz(from, seeds, seconds),
        Command::Replay { case, trace } => replay(&case, trace.as_deref()),
    }
}

/// Exit codes as below.
fn replay(file: &Path, trace: Option<&Path>) -> anyhow::Result<ExitCode> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let case: Case = toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
    let outcome = case.run(trace.is_some())?;
    if let Some(file) = trace {
        let lines = outcome.all.iter().flatten().map(|entry| format!("{entry}\n"));
        std::fs::write(file, lines.collect::<String>())
            .with_context(|| format!("writing {}", file.display()))?;
    }
    match report::violation(&outcome) {
        Some(violation) => {
            print!("{violation}");
            Ok(ExitCode::FAILURE)
        }
        None => {
            println!("no violation; trace {:016x}", outcome.hash);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Exit codes: 0 all went well, 1 a violation, 2 bad input.
fn run_scenario(
    scenario: &scenario::Scenario,
    schedulers: &str,
    seed: u64,
    trace: bool,
    timeline: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    if !scenario.about.is_empty() {
        println!("{}", scenario.about);
    }
    let mut code = ExitCode::SUCCESS;
    for name in schedulers.split(',') {
        let class = arm::parse(name).map_err(anyhow::Error::msg)?;
        let (mut sim, tasks) = scenario.build(class, seed);
        sim.record.all = (trace || timeline.is_some()).then(Vec::new);
        let began = Instant::now();
        let outcome = run::run(sim, tasks, scenario.length_ns())?;
        let wall = began.elapsed().as_secs_f64();
        if let Some(file) = timeline {
            let title = format!("{name}: {}", scenario.about);
            std::fs::write(file, twin::timeline::json(&title, &outcome))
                .with_context(|| format!("writing {}", file.display()))?;
        }
        for entry in outcome.all.iter().flatten().filter(|_| trace) {
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

/// How long a failing case is made smaller.
const MINIMISE: Duration = Duration::from_secs(60);

/// Exit codes as above; the first failing seed ends it.
fn run_fuzz(from: u64, seeds: u64, seconds: u64) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let (mut ran, mut simulated_ms, mut events) = (0, 0, 0);
    for seed in (from..from + seeds).take_while(|_| began.elapsed().as_secs() < seconds) {
        let case = generate(seed);
        let (failure, seen) = case.check()?;
        if let Some(failure) = failure {
            eprintln!("seed {seed} fails: {failure:?}; making it smaller");
            let small = smaller(&case, &failure);
            println!("# seed {seed}: {failure:?}\n{}", toml::to_string(&small)?);
            return Ok(ExitCode::FAILURE);
        }
        ran += 1;
        simulated_ms += 2 * case.length_ms;
        events += 2 * seen;
    }
    let wall = began.elapsed().as_secs_f64();
    println!(
        "{ran} seeds from {from}, each twice: no failure, {wall:.1} s; {:.2} simulated seconds and \
         {:.0} events a second",
        simulated_ms as f64 / 1e3 / wall,
        events as f64 / wall
    );
    Ok(ExitCode::SUCCESS)
}

/// The smallest case like `case` that can be found in the time and still fails alike.
fn smaller(case: &Case, failure: &Failure) -> Case {
    let alike = |a: &Failure, b: &Failure| match (a, b) {
        // Numbers in the text may differ: the kind of violation is in its first words.
        (Failure::Violation(a), Failure::Violation(b)) => {
            a.split_whitespace().take(2).eq(b.split_whitespace().take(2))
        }
        _ => a == b,
    };
    let began = Instant::now();
    minimise(case, &mut |smaller: &Case| {
        began.elapsed() < MINIMISE
            && matches!(smaller.check(), Ok((Some(other), _)) if alike(failure, &other))
    })
}
