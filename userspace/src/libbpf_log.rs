// SPDX-License-Identifier: GPL-2.0-only
//! What libbpf says. It warns of much that is normal on older kernels, so its words are kept, and
//! shown only when the load fails.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

static SAID: Mutex<String> = Mutex::new(String::new());

/// Keep libbpf's warnings from now on, and forget earlier ones.
pub fn keep() {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    set_print(Some((PrintLevel::Warn, |_, line| {
        SAID.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line);
    })));
}

/// What libbpf has said, in lines.
pub fn said() -> String {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
