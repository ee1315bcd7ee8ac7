// SPDX-License-Identifier: GPL-2.0-only
//! Serves the metrics of a VM that does not exist, for tests of what reads them and to see what many
//! vCPUs cost: `cargo run --release -p userspace --example simulated -- VCPUS ADDR:PORT`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::Context;
use userspace::http::{Content, Server};
use userspace::metrics::{Format, render};
use userspace::simulated::{pass, sample};

struct Simulated {
    nr_vcpus: u32,
    started: Instant,
}

impl Content for Simulated {
    fn metrics(&self, format: Format) -> String {
        let mut sample = sample(self.nr_vcpus);
        pass(&mut sample, self.started.elapsed());
        render(sample, format)
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let nr_vcpus = arguments.next().context("say how many vCPUs")?.parse()?;
    let address: SocketAddr = arguments.next().context("say where, as ADDR:PORT")?.parse()?;
    let server = Server::bind(address)?;
    println!("{}", server.address()?);
    server.serve(Arc::new(Simulated { nr_vcpus, started: Instant::now() }))?;
    loop {
        thread::park();
    }
}
