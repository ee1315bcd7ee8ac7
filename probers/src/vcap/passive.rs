// SPDX-License-Identifier: GPL-2.0-only
//! What is known of the vCPUs free of charge, from the work that the user does on them.

use std::fs;

/// What one vCPU has done so far, in ns. Differences of two readings count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Ran the user's work or the kernel's.
    pub run_ns: u64,
    /// Had work, and was stopped by the hypervisor.
    pub stolen_ns: u64,
    /// Had nothing to do.
    pub idle_ns: u64,
}

impl Times {
    /// What has happened since `before`. Counters that went backwards count as not moved.
    pub fn since(self, before: Self) -> Self {
        Self {
            run_ns: self.run_ns.saturating_sub(before.run_ns),
            stolen_ns: self.stolen_ns.saturating_sub(before.stolen_ns),
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
        }
    }
}

/// A source of times: the kernel's own accounting, or a scheduler that knows better.
pub trait TimesSource: Send {
    /// What to call it before people.
    fn name(&self) -> &'static str;

    /// Whether it sees all stolen time of a busy vCPU. If not, what it says is a lower bound.
    fn sees_all_stolen(&self) -> bool;

    /// The times of each online vCPU, by its number.
    ///
    /// # Errors
    /// A sentence; probing goes on without.
    fn read(&mut self) -> Result<Vec<(u32, Times)>, String>;
}

/// `/proc/stat`, the same for every kernel. Its steal clock is the hypervisor's, 0 where there is none.
pub struct ProcStat {
    steal_clock: bool,
    /// USER_HZ: the unit of the file, whatever the kernel's tick is.
    tick_ns: u64,
}

impl ProcStat {
    /// `steal_clock`: whether the hypervisor announces one.
    pub fn new(steal_clock: bool) -> Self {
        // SAFETY: takes a constant, returns a number.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Self {
            steal_clock,
            tick_ns: 1_000_000_000 / u64::try_from(per_second).unwrap_or(100).max(1),
        }
    }
}

impl TimesSource for ProcStat {
    fn name(&self) -> &'static str {
        if self.steal_clock { "steal clock of the hypervisor" } else { "probe" }
    }

    fn sees_all_stolen(&self) -> bool {
        self.steal_clock
    }

    fn read(&mut self) -> Result<Vec<(u32, Times)>, String> {
        let text = fs::read_to_string("/proc/stat")
            .map_err(|error| format!("cannot read /proc/stat: {error}; is /proc mounted?"))?;
        let times = parse(&text, self.tick_ns);
        if times.is_empty() {
            return Err("/proc/stat names no vCPU; is /proc restricted here?".into());
        }
        Ok(times)
    }
}

/// The vCPUs' lines: user nice system idle iowait irq softirq steal (kernel:
/// `Documentation/filesystems/proc.rst`); guest time is part of user time.
fn parse(text: &str, tick_ns: u64) -> Vec<(u32, Times)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
            let id = words.next()?.parse().ok()?;
            let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = *ticks.as_slice()
            else {
                return None;
            };
            let ns = |ticks: &[u64]| {
                let ticks = ticks.iter().copied().fold(0, u64::saturating_add);
                ticks.saturating_mul(tick_ns)
            };
            let times = Times {
                run_ns: ns(&[user, nice, system, irq, softirq]),
                stolen_ns: ns(&[steal]),
                idle_ns: ns(&[idle, iowait]),
            };
            line.as_bytes().get(3)?.is_ascii_digit().then_some((id, times))
        })
        .collect()
}

/// What a vCPU did within `wall_ns` by the kernel's accounting, and what is missing from it.
///
/// The kernel accounts run time tick by tick, and idle time by the clock. Of the ticks that pass while
/// the vCPU is stopped it handles one, so time that is in no account was stolen: a lower bound, as each
/// stop keeps one tick, and none at all where a kernel accounts by the clock only.
pub fn with_lost_ticks(times: Times, wall_ns: u64) -> Times {
    /// The file's unit rounds each of two readings.
    const ROUNDING_NS: u64 = 20_000_000;
    let accounted_ns = times.run_ns.saturating_add(times.stolen_ns).saturating_add(times.idle_ns);
    let missing_ns = wall_ns.saturating_sub(accounted_ns);
    let lost_ns = if missing_ns > ROUNDING_NS { missing_ns } else { 0 };
    Times { stolen_ns: times.stolen_ns + lost_ns, ..times }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const STAT: &str = "\
cpu  300 0 100 1000 50 10 20 40 0 0
cpu0 100 1 50 500 25 5 10 20 7 0
cpu3 200 0 50 500 25 5 10 20 0 0
cpux 1 2 3 4 5 6 7 8
cpu4 1 2 3
intr 12345
";

    #[test]
    fn lines_of_vcpus_are_read_and_others_are_not() {
        let times = parse(STAT, 10);
        assert_eq!(times.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(times[0].1, Times { run_ns: 1660, stolen_ns: 200, idle_ns: 5250 });
    }

    /// Text in the manner of /proc/stat, right and wrong.
    fn near_stat() -> impl Strategy<Value = String> {
        let word = prop_oneof![4 => "[0-9]{1,20}", 1 => "[a-z0-9 -]{0,4}"];
        let line = (prop_oneof![4 => "cpu[0-9]{0,5}", 1 => "[a-z0-9]{0,6}"], vec(word, 0..12))
            .prop_map(|(name, words)| name + " " + &words.join(" "));
        vec(line, 0..8).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn any_account_of_times_is_read_or_left_out(
            text in prop_oneof![near_stat(), any::<String>()], tick_ns: u64, wall_ns: u64,
        ) {
            for (_, times) in parse(&text, tick_ns) {
                let with_lost = with_lost_ticks(times, wall_ns);
                prop_assert!(with_lost.stolen_ns >= times.stolen_ns);
                prop_assert!(with_lost.stolen_ns - times.stolen_ns <= wall_ns);
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_the_file_holds_nothing_breaks(text in "(cpu[0-9]{0,3}[ 0-9a-z]{0,40}\n){0,8}") {
            parse(&text, 10_000_000);
        }

        /// Nothing is stolen when all time is accounted, and all that is missing when it is not.
        #[test]
        fn missing_time_is_stolen(run_ns in 0..1u64 << 40, idle_ns in 0..1u64 << 40, lost_ns in 0..1u64 << 40) {
            let times = Times { run_ns, idle_ns, stolen_ns: 0 };
            let found = with_lost_ticks(times, run_ns + idle_ns + lost_ns).stolen_ns;
            prop_assert!(found == lost_ns || (found == 0 && lost_ns <= 20_000_000));
        }
    }
}
