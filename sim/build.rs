// SPDX-License-Identifier: GPL-2.0-only
//! Compiles bpf/*.bpf.c for this machine, against the shim instead of the framework's headers.

use std::env;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=../bpf");
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
    for entry in std::fs::read_dir("../bpf")? {
        let path = entry?.path();
        if path.to_str().is_some_and(|path| path.ends_with(".bpf.c")) {
            build.file(path);
        }
    }
    build.try_compile("vaware_native")?;
    bindgen::Builder::default()
        .header("shim/sim.h")
        .clang_arg("-Ishim")
        .blocklist_file(".*/bpf/intf\\.h") // the crate intf has it
        .derive_default(true)
        .generate()?
        .write_to_file(out.join("shim.rs"))?;
    Ok(())
}
