// SPDX-License-Identifier: GPL-2.0-only
//! Probe the topology of this VM for so many seconds, and print each pass as a line of JSON. For
//! measurements in the lab: `vtop SECONDS [PAUSE_S] [BUDGET_S]`.

use std::time::{Duration, Instant};

use probers::thread::{Priority, monotonic_ns, set_priority};
use probers::vcpus::Vcpus;
use probers::vtop::live::Live;
use probers::vtop::prober::Prober;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |at: usize| std::env::args().nth(at).and_then(|text| text.parse::<f64>().ok());
    let length = Duration::from_secs_f64(number(1).unwrap_or(1.0));
    let pause = Duration::from_secs_f64(number(2).unwrap_or(2.0));
    let budget = Duration::from_secs_f64(number(3).unwrap_or(5.0));
    let live = Live::start(&Vcpus::read()?.online)?;
    let ids = live.vcpus().to_vec();
    // The thread that asks must not wait for the VM's work either; without the right it does.
    let _ = set_priority(Priority::Realtime);
    let mut prober = Prober::new(live, ids);
    let begin = Instant::now();
    loop {
        let (start, start_ns) = (Instant::now(), monotonic_ns());
        prober.source_mut().begin_pass(Some(start + budget));
        let found = prober.validate();
        let pass = serde_json::json!({
            "start_ns": start_ns,
            "took_ms": start.elapsed().as_secs_f64() * 1e3,
            "probes": found.cost.probes,
            "rounds": found.cost.rounds,
            "moved": found.moved,
            "undecided": found.nr_undecided,
            "stacks": found.topology.stacks,
            "cores": found.topology.cores,
            "llcs": found.topology.llcs,
            "sockets": found.topology.sockets,
        });
        println!("{pass}");
        if begin.elapsed() + pause >= length {
            return Ok(());
        }
        std::thread::sleep(pause.saturating_sub(start.elapsed()).max(pause / 2));
    }
}
