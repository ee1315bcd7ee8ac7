// SPDX-License-Identifier: GPL-2.0-only
//! Generates the bindings of bpf/intf.h, and the names of its enumerators.

use std::cell::RefCell;
use std::env;
use std::path::PathBuf;
use std::rc::Rc;

use bindgen::callbacks::{EnumVariantValue, ParseCallbacks};

const HEADER: &str = "../bpf/intf.h";

/// Enums whose enumerators have names outside of C: the enum, the prefix that the names lack, what
/// separates words in them, and the constant and its comment.
const NAMED: [(&str, &str, &str, &str, &str); 7] = [
    ("vaware_counter", "VAWARE_", "_", "COUNTERS", "The counters"),
    ("vaware_class", "VAWARE_CLASS_", "-", "CLASSES", "The task classes"),
    ("vaware_steal_source", "VAWARE_STEAL_", "_", "STEAL_SOURCES", "The sources of steal time"),
    ("vaware_verdict", "VAWARE_TRIAL_", "_", "VERDICTS", "The verdicts on a policy"),
    ("vaware_outcome", "VAWARE_OUTCOME_", "_", "OUTCOMES", "What policies are judged by"),
    ("vaware_target", "VAWARE_TARGET_", "_", "TARGETS", "What a vCPU did to which a wakee went"),
    (
        "vaware_policy",
        "VAWARE_POLICY_",
        "_",
        "POLICIES",
        "The policies: the one of bit n is the n-th",
    ),
];

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed={HEADER}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let found = Found::default();
    bindgen::Builder::default()
        .header(HEADER)
        .allowlist_file(HEADER)
        .prepend_enum_name(false)
        .derive_default(true)
        .parse_callbacks(Box::new(found.clone()))
        .generate()?
        .write_to_file(out.join("bindings.rs"))?;
    std::fs::write(out.join("names.rs"), names(&found.0.borrow()))?;
    Ok(())
}

/// An enumerator: its enum, its name, its value.
type Enumerator = (String, String, i64);

/// All enumerators of the header, in their order.
#[derive(Clone, Debug, Default)]
struct Found(Rc<RefCell<Vec<Enumerator>>>);

impl ParseCallbacks for Found {
    fn enum_variant_name(
        &self,
        of: Option<&str>,
        name: &str,
        value: EnumVariantValue,
    ) -> Option<String> {
        let value = match value {
            EnumVariantValue::Signed(value) => value,
            EnumVariantValue::Unsigned(value) => value as i64,
            EnumVariantValue::Boolean(value) => value.into(),
        };
        let of = of.unwrap_or_default().trim_start_matches("enum ");
        self.0.borrow_mut().push((of.into(), name.into(), value));
        None
    }
}

/// Arrays of names, and the bits of all policies together.
fn names(found: &[Enumerator]) -> String {
    let mut text = String::new();
    for (of, prefix, separator, constant, comment) in NAMED {
        let own = || found.iter().filter(|(e, ..)| e == of);
        // What comes after the number of enumerators is no kind of its own.
        let kinds = own().take_while(|(_, name, _)| !name.starts_with("VAWARE_NR_"));
        let named: Vec<_> = kinds
            .map(|(_, name, _)| {
                name.trim_start_matches(prefix).to_lowercase().replace('_', separator)
            })
            .collect();
        let number = named.len();
        text += &format!("/// {comment}.\npub const {constant}: [&str; {number}] = {named:?};\n");
    }
    let bits = found.iter().filter(|(of, ..)| of == "vaware_policy");
    let all = bits.fold(0, |all, (_, _, bit)| all | bit);
    text + &format!("/// The bits of all policies.\npub const ALL_POLICIES: u64 = {all};\n")
}
