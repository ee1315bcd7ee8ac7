// SPDX-License-Identifier: GPL-2.0-only
//! Compiles and links bpf/*.bpf.c, and generates the skeleton.

use std::fs;

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=../bpf");
    println!("cargo:rerun-if-env-changed=VAWARE_CLANG");

    let mut builder = scx_cargo::BpfBuilder::new()?;
    builder.enable_skel("../bpf/main.bpf.c", "bpf");
    for entry in fs::read_dir("../bpf")? {
        let path = entry?.path();
        if let Some(source) = path.to_str().filter(|path| path.ends_with(".bpf.c")) {
            builder.add_source(source);
        }
    }
    builder.compile_link_gen()
}
