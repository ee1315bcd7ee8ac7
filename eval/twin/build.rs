// SPDX-License-Identifier: GPL-2.0-only
//! Compiles bpf/*.bpf.c for this machine, against the shim instead of the framework's headers.

use std::env;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=../../bpf");
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-env-changed=VAWARE_CLANG");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // clang, as for BPF: the source uses its pragmas and builtins.
    let clang = env::var("BPF_CLANG"); // see .cargo/config.toml
    let mut build = cc::Build::new();
    build
        .compiler(clang.as_deref().unwrap_or("clang"))
        .include("shim")
        .file("shim/state.c")
        .flag("-fno-strict-aliasing")
        .flag("-Wno-int-conversion") // programs take pointers for all arguments
        .opt_level(2)
        .debug(true)
        .flag("-fsanitize-coverage=func,trace-loads,trace-stores") // for src/bpf/lines.rs
        .warnings(false)
        .link_lib_modifier("+whole-archive");
    for entry in std::fs::read_dir("../../bpf")? {
        let path = entry?.path();
        if path.to_str().is_some_and(|path| path.ends_with(".bpf.c")) {
            build.file(path);
        }
    }
    build.try_compile("vaware_native")?;
    bindgen::Builder::default()
        .header("shim/twin.h")
        .clang_arg("-Ishim")
        .derive_default(true)
        .generate()?
        .write_to_file(out.join("shim.rs"))?;
    let intf = std::fs::read_to_string("../../bpf/intf.h")?;
    std::fs::write(out.join("policies.rs"), all_policies(&intf))?;
    Ok(())
}

/// The bits of enum vaware_policy together.
fn all_policies(intf: &str) -> String {
    let name = |line: &str| {
        let (name, _) = line.trim().strip_prefix("VAWARE_POLICY_")?.split_once(" = ")?;
        Some(format!("shim::vaware_policy_VAWARE_POLICY_{name} as u64"))
    };
    let bits: Vec<String> = intf.lines().filter_map(name).collect();
    format!("pub const ALL_POLICIES: u64 = {};\n", bits.join(" | "))
}
