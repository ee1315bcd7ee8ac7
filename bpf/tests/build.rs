// SPDX-License-Identifier: GPL-2.0-only
//! Compiles bpf/policy for this machine: the third use of the same source, next to BPF and twin.

use std::env;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let wrappers = out.join("policy.c");
    bindgen::Builder::default()
        .header("policy.h")
        .wrap_static_fns(true)
        .wrap_static_fns_path(&wrappers)
        .generate()?
        .write_to_file(out.join("policy.rs"))?;
    cc::Build::new().include(".").file(wrappers).try_compile("policy")?;
    Ok(())
}
