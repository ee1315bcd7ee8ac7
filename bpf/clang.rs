// SPDX-License-Identifier: GPL-2.0-only
//! Which clang compiles bpf/*.bpf.c. For build scripts.

use std::env;
use std::process::Command;

use anyhow::bail;

/// The name of the clang to use: $BPF_CLANG, or if that is unset or empty, what setup.sh picks.
///
/// `repo` is the way from the package to the repository. Fails when there is no suitable clang.
pub fn find(repo: &str) -> anyhow::Result<String> {
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    if let Ok(name) = env::var("BPF_CLANG")
        && !name.trim().is_empty()
    {
        return Ok(name);
    }
    match Command::new(format!("{repo}/deploy/setup.sh")).arg("--print-clang").output() {
        Ok(told) if told.status.success() => Ok(String::from_utf8(told.stdout)?.trim().to_owned()),
        _ => bail!("no clang 18 or newer was found; run deploy/setup.sh build, or set BPF_CLANG"),
    }
}
