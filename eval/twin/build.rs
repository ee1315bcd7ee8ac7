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
    std::fs::write(out.join("names.rs"), names(&std::fs::read_to_string("../../bpf/intf.h")?))?;
    Ok(())
}

/// The names of policies and counters, from the enums of intf.h.
fn names(intf: &str) -> String {
    let list = |prefix: &str| -> Vec<String> {
        let name = |line: &str| {
            let name = line.trim().strip_prefix(prefix)?.split([',', ' ']).next()?;
            (!name.is_empty()).then(|| name.to_lowercase())
        };
        intf.lines().filter_map(name).collect()
    };
    let body = |of: &str| {
        let rest = intf.split_once(of).map_or("", |(_, rest)| rest);
        rest.split_once("};").map_or("", |(body, _)| body).to_owned()
    };
    let counters: Vec<String> = body("enum vaware_counter {")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("VAWARE_")?.split([',', ' ']).next())
        .filter(|name| *name != "NR_COUNTERS")
        .map(str::to_lowercase)
        .collect();
    let policies: String = list("VAWARE_POLICY_")
        .iter()
        .map(|name| {
            let bit = format!("shim::vaware_policy_VAWARE_POLICY_{}", name.to_uppercase());
            format!("({name:?}, {bit} as u64), ")
        })
        .collect();
    format!(
        "pub const POLICIES: &[(&str, u64)] = &[{policies}];\n\
         pub const COUNTERS: &[&str] = &{counters:?};\n"
    )
}
