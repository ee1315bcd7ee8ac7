// SPDX-License-Identifier: GPL-2.0-only
//! Serves the metrics of a VM that does not exist, for tests of what reads them and to see what many
//! vCPUs cost: `cargo run --release -p userspace --example simulated -- VCPUS ADDR:PORT`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use userspace::http::{Content, Server};
use userspace::metrics::{Format, render};
use userspace::simulated::sample;

struct Simulated {
    nr_vcpus: u32,
}

impl Content for Simulated {
    fn metrics(&self, format: Format) -> String {
        render(sample(self.nr_vcpus), format)
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
    server.serve(Arc::new(Simulated { nr_vcpus }))?;
    loop {
        thread::park();
    }
}
