// SPDX-License-Identifier: GPL-2.0-only
//! Compiles bpf/policy for this machine: the third use of the same source, next to BPF and the simulator.

use std::env;
use std::path::PathBuf;

use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};

/// Types of bpf/intf.h are plain: what contains them can derive what they do.
#[derive(Debug)]
struct Plain;

impl ParseCallbacks for Plain {
    fn blocklisted_type_implements_trait(
        &self,
        _: &str,
        _: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        Some(ImplementsTrait::Yes)
    }
}

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let wrappers = out.join("policy.c");
    bindgen::Builder::default()
        .header("policy.h")
        .allowlist_file(".*/policy/.*")
        .blocklist_file(".*/intf\\.h") // the crate intf has it
        .prepend_enum_name(false)
        .parse_callbacks(Box::new(Plain))
        .wrap_static_fns(true)
        .wrap_static_fns_path(&wrappers)
        .generate()?
        .write_to_file(out.join("policy.rs"))?;
    cc::Build::new().include(".").file(wrappers).try_compile("policy")?;
    Ok(())
}
