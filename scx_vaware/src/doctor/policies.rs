// SPDX-License-Identifier: GPL-2.0-only
//! What the governor of a running scheduler has found out about its policies, with the reason.

use intf::{OUTCOMES, POLICIES, VERDICTS};
use userspace::config::{Config, Settings};
use userspace::kernel;
use userspace::obstacles::KernelFacts;
use userspace::scrape::Scrape;
use userspace::verdicts::sentence;

use super::finding::{Finding, Level};

const CHECK: &str = "policies";

/// The verdicts of a scheduler of ours that is loaded; nothing if none is.
pub fn check(facts: &KernelFacts) -> Option<Finding> {
    facts.loaded.as_deref().filter(|name| kernel::is_ours(name))?;
    let Some(address) = Config::from(Settings::installed()).listen.reachable() else {
        let text = "the daemon's metrics are off, so nothing is known of its verdicts";
        return Some(Finding::new(CHECK, Level::Unknown, text).advise("set listen, and reload"));
    };
    Some(match Scrape::read(address) {
        Ok(page) => judge(&page),
        Err(why) => {
            let text = format!("the daemon does not answer at {address} ({why:#})");
            let advice = "set listen in /etc/scx_vaware.toml to where it serves its metrics";
            Finding::new(CHECK, Level::Unknown, text).advise(advice)
        }
    })
}

/// What the metrics say. A policy that is off because it does not pay is no fault.
fn judge(page: &Scrape) -> Finding {
    let told = POLICIES.iter().filter_map(|policy| {
        let is_so = |verdict: &&&str| {
            let labels = [("policy", *policy), ("verdict", **verdict)];
            page.value("scx_vaware_policy_verdict", &labels) == Some(1.0)
        };
        let verdict = VERDICTS.iter().find(is_so).filter(|verdict| **verdict != "open")?;
        let gain = |outcome| {
            let labels = [("policy", *policy), ("outcome", outcome)];
            page.value("scx_vaware_policy_gain_ratio", &labels)
        };
        Some(sentence(policy, verdict, OUTCOMES.map(gain)))
    });
    let told: Vec<_> = told.collect();
    Finding::ok(
        CHECK,
        match told.is_empty() {
            true => "none has been judged: nothing was wrong, or not for long enough".into(),
            false => told.join("; "),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(page: &str) -> String {
        judge(&Scrape::parse(page)).text
    }

    #[test]
    fn each_verdict_comes_with_its_reason() {
        let text = judged(
            "scx_vaware_policy_verdict{policy=\"ivh\",verdict=\"wins\"} 1\n\
             scx_vaware_policy_verdict{policy=\"ivh\",verdict=\"open\"} 0\n\
             scx_vaware_policy_gain_ratio{policy=\"ivh\",outcome=\"progress\"} 1.623\n\
             scx_vaware_policy_verdict{policy=\"bvs\",verdict=\"loses\"} 1\n\
             scx_vaware_policy_verdict{policy=\"rwc\",verdict=\"open\"} 1\n",
        );
        assert!(text.contains("ivh pays here (progress 1.62 times as good)"), "{text}");
        assert!(text.contains("bvs does not pay here") && !text.contains("rwc"), "{text}");
    }

    #[test]
    fn before_any_verdict_it_says_so() {
        assert!(judged("").contains("none has been judged"));
    }
}
