// SPDX-License-Identifier: GPL-2.0-only
//! Faults that small VMs hide: each was one once.

use hints::VcpuFacts;
use intf::ALL_POLICIES;
use sim::guest::attrs::Change;
use sim::guest::task::{NewTask, Policy, TaskId};
use sim::guest::vcpu::VcpuId;
use sim::host::Load;
use sim::script::Action;
use sim::sim::{MS, Ns, S, Sim, US};
use sim::work::compute::Compute;
use sim::work::timers;
use sim::work::{Op, Program};

use crate::{compete, compute, finished, pinned};

/// Runs for a while and sleeps for a while, without end.
struct Bursts {
    run_ns: Ns,
    sleep_ns: Ns,
    ran: bool,
}

impl Program for Bursts {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.ran = !self.ran;
        if self.ran { Op::Compute(self.run_ns) } else { Op::SleepUntil(s.now + self.sleep_ns) }
    }
}

fn on(vcpu: VcpuId, task: NewTask) -> NewTask {
    among(&[vcpu], task)
}

fn among(vcpus: &[VcpuId], task: NewTask) -> NewTask {
    NewTask { allowed: Some(vcpus.to_vec()), ..task }
}

#[test]
fn a_kernel_thread_that_hardly_sleeps_does_not_take_all() {
    let housekeeping = NewTask {
        kthread: true,
        allowed: Some(vec![0]),
        ..NewTask::new("kworker", 1, Bursts { run_ns: 2900 * US, sleep_ns: 10 * US, ran: false })
    };
    let mut tasks = compute(1, 100 * US);
    tasks.push(housekeeping);
    let work_ns = finished(pinned(1, 1, ALL_POLICIES), tasks, S).tallies["work"].sum;
    assert!(work_ns > 2 * S / 5, "the normal task got {work_ns} ns of a second");
}

#[test]
fn who_naps_all_the_time_leaves_others_more_than_switches() {
    let mut tasks = compute(1, 100 * US);
    let naps = Bursts { run_ns: 2 * US, sleep_ns: US, ran: false };
    tasks.push(NewTask::new("naps", 1, naps));
    let seen = finished(pinned(1, 1, ALL_POLICIES), tasks, S);
    let work_ns = seen.tallies["work"].sum;
    assert!(work_ns > S / 4, "the one that does not got {work_ns} ns of a second");
}

/// Sleeps until so long after each multiple of 4 ms, and takes down how late it runs.
struct OnTime {
    after_ns: Ns,
    due_ns: Ns,
    runs: bool,
}

impl Program for OnTime {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.runs = !self.runs;
        if self.runs {
            self.due_ns = s.now / (4 * MS) * 4 * MS + 4 * MS + self.after_ns;
            return Op::SleepUntil(self.due_ns);
        }
        s.tally("late", s.now - self.due_ns);
        Op::Compute(10 * US)
    }
}

#[test]
fn a_timer_soon_after_another_one_does_not_wait_for_the_tick() {
    let mut tasks = compute(1, MS);
    for (process, after_ns) in [(1, MS), (2, MS + 40 * US)] {
        let program = OnTime { after_ns, due_ns: 0, runs: false };
        tasks.push(NewTask::new("sleeper", process, program));
    }
    let late = finished(pinned(1, 1, ALL_POLICIES), tasks, S).tallies["late"].clone();
    assert!(late.count > 300, "{} timers ran out", late.count);
    assert!(late.max < MS / 2, "one was late by {} ns", late.max);
}

#[test]
fn an_idle_vcpu_is_found_beyond_the_nearest_sixteen() {
    let mut s = pinned(40, 40, ALL_POLICIES);
    s.world.warm_up_ns = 100 * MS;
    let mut capacities = [1024; 40];
    capacities[39] = 512; // so that there is something to choose
    s.tell(&capacities);
    let mut tasks: Vec<NewTask> =
        (0..20).map(|v| on(v, NewTask::new("hog", v, Compute::new("work", MS)))).collect();
    let bursts = Bursts { run_ns: 3 * MS, sleep_ns: 3 * MS, ran: false };
    let allowed = Some(vec![0]);
    let free = Change::Affinity { task: tasks.len(), allowed: (0..40).collect() };
    s.plan(50 * MS, Action::Change { by: 1, change: free });
    tasks.push(NewTask { allowed, ..NewTask::new("burst", 100, bursts) });
    let seen = finished(s, tasks, S);
    // On a vCPU that computes it would wait, or take from what runs there.
    for (name, counts) in &seen.tasks {
        let least_ns = if name == "hog" { S * 97 / 100 } else { S * 9 / 20 };
        assert!(counts.work_ns > least_ns, "{name} ran for {} ns of a second", counts.work_ns);
    }
}

#[test]
fn who_shares_a_vcpu_with_a_pinned_task_leaves_for_an_idle_one() {
    let mut s = pinned(2, 2, ALL_POLICIES);
    let free = Change::Affinity { task: 1, allowed: vec![0, 1] };
    s.plan(20 * MS, Action::Change { by: 0, change: free });
    let tasks = compute(2, MS).into_iter().map(|task| on(1, task)).collect();
    for (name, counts) in finished(s, tasks, S).tasks {
        assert!(counts.work_ns > S * 9 / 10, "{name} got {} ns of a second", counts.work_ns);
    }
}

#[test]
fn idle_vcpus_take_what_waits_however_far_away() {
    let mut s = pinned(130, 130, ALL_POLICIES);
    let hog = |v| on(v, NewTask::new("hog", v, Compute::new("work", MS)));
    let leaves =
        |v| on(v, NewTask::new("leaves", v, Bursts { run_ns: 50 * MS, sleep_ns: S, ran: false }));
    let mut tasks: Vec<NewTask> = (0..20).map(leaves).chain((20..130).map(hog)).collect();
    for task in 0..20 {
        let free = Change::Affinity { task: tasks.len(), allowed: (0..130).collect() };
        s.plan(20 * MS, Action::Change { by: 129, change: free });
        tasks.push(on(129, NewTask::new("free", 130 + task, Compute::new("free", MS))));
    }
    let free_ns = finished(s, tasks, 80 * MS).tallies["free"].sum;
    // In the last 30 ms there is a vCPU for each of them.
    assert!(free_ns > 20 * 27 * MS, "20 tasks got {free_ns} ns");
}

#[test]
fn room_for_more_vcpus_does_not_keep_work_from_those_there_are() {
    let mut s = pinned(64, 64, ALL_POLICIES);
    s.world.warm_up_ns = 300 * MS;
    for vcpu in 4..64 {
        s.plan(
            vcpu as Ns * MS,
            Action::Change { by: 0, change: Change::Online { vcpu, online: false } },
        );
    }
    let tasks = compute(6, MS);
    let seen = finished(s, tasks, 3 * S);
    let all_ns = seen.tallies["work"].sum as f64;
    assert!(all_ns > 0.97 * 4.0 * 2.7e9, "four vCPUs did {all_ns} ns of work in 2.7 s");
    for (name, counts) in &seen.tasks {
        let share =
            counts.work_ns as f64 / seen.tasks.iter().map(|(_, c)| c.work_ns as f64).sum::<f64>();
        // Six on four go round, as their phases have it; who is overlooked gets next to nothing.
        assert!(share > 0.1, "{name} got {share:.3} of the work of six");
    }
}

/// Takes a token, works, and takes the next one. The time from a packet on is tallied.
struct Server {
    semaphore: usize,
    serves: bool,
}

impl Program for Server {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.serves = !self.serves;
        if self.serves {
            return Op::Down(self.semaphore);
        }
        s.tally("late", s.now % (10 * MS));
        Op::Compute(50 * US)
    }
}

#[test]
fn nobody_follows_an_interrupt_to_the_vcpu_that_it_came_to() {
    let mut s = pinned(2, 2, ALL_POLICIES);
    // So much stolen time that to follow a waker is better than to wake another vCPU.
    compete(&mut s, 0, Load::Duty { on_ns: MS, off_ns: 9 * MS, phase_ns: 0 }, true);
    s.world.warm_up_ns = 200 * MS;
    let semaphore = s.world.semaphore(0);
    for n in 1..100 {
        s.plan(n * 10 * MS + 5 * MS, Action::Packet { by: 0, semaphore });
    }
    let tasks = vec![
        on(0, NewTask::new("hog", 0, Compute::new("work", 100 * US))),
        NewTask::new("server", 1, Server { semaphore, serves: false }),
    ];
    let late = finished(s, tasks, S).tallies["late"].clone();
    assert!(late.count > 70, "{} packets were served", late.count);
    assert!(late.max < 5 * MS + 500 * US, "one waited for {} ns more", late.max - 5 * MS);
}

/// Wakes a server now and then as it goes to sleep itself, and takes down when.
struct Waker {
    semaphore: usize,
    step: u32,
}

impl Program for Waker {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.step += 1;
        match self.step % 3 {
            1 => Op::Compute(200 * US),
            2 => {
                s.world.queues[0].push_back(s.now);
                Op::Up { semaphore: self.semaphore, count: 1, sync: true }
            }
            _ => Op::SleepUntil(s.now + 700 * US),
        }
    }
}

/// Serves wakers; the time from a wake-up to its end is tallied.
struct Woken {
    semaphore: usize,
    serves: bool,
}

impl Program for Woken {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.serves = !self.serves;
        if !self.serves {
            return Op::Compute(400 * US);
        }
        if let Some(at) = s.world.queues[0].pop_front() {
            s.tally("late", s.now - at);
        }
        Op::Down(self.semaphore)
    }
}

#[test]
fn nobody_follows_a_waker_to_a_vcpu_that_is_banned() {
    let mut s = pinned(4, 4, ALL_POLICIES);
    compete(&mut s, 0, Load::Duty { on_ns: 95 * MS, off_ns: 5 * MS, phase_ns: 0 }, true);
    let mut facts: Vec<_> = (0..4).map(VcpuFacts::unknown).collect();
    (facts[0].capacity_1024, facts[0].straggler) = (50, true);
    s.tell_facts(&facts);
    s.world.warm_up_ns = 200 * MS;
    s.world.queues.push(Default::default());
    let semaphore = s.world.semaphore(0);
    let tasks = vec![
        on(0, NewTask::new("waker", 0, Waker { semaphore, step: 0 })),
        NewTask::new("woken", 1, Woken { semaphore, serves: false }),
    ];
    let late = finished(s, tasks, 2 * S).tallies["late"].clone();
    assert!(late.count > 50, "{} wake-ups", late.count);
    // The waker itself may be stopped between the stamp and the wake-up, once in a while.
    let mean_ns = late.sum / late.count;
    assert!(mean_ns < 2 * MS, "wake-ups were served after {mean_ns} ns");
}

/// Waits for packets on vCPU 0 beside another task, and serves them wherever it may. Each packet
/// comes while that vCPU switches it out: the waker, which has another cache, then leaves it there,
/// and asks nobody where it should go.
struct Leaver {
    task: TaskId,
    semaphore: usize,
    step: u32,
}

impl Leaver {
    const WAKER: VcpuId = 2;
    const SWITCHES_AFTER_NS: Ns = 60 * US;

    fn allow(&self, s: &mut Sim, allowed: Vec<VcpuId>) {
        let change = Change::Affinity { task: self.task, allowed };
        s.plan(s.now, Action::Change { by: Self::WAKER, change });
    }
}

impl Program for Leaver {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.step += 1;
        match self.step % 4 {
            1 => {
                self.allow(s, vec![0]);
                Op::Compute(4 * MS)
            }
            2 => {
                self.allow(s, (0..4).collect());
                Op::Compute(50 * US)
            }
            3 => {
                let at = s.now + Self::SWITCHES_AFTER_NS;
                s.world.queues[0].push_back(at);
                s.plan(at, Action::Packet { by: Self::WAKER, semaphore: self.semaphore });
                Op::Down(self.semaphore)
            }
            _ => {
                if let Some(at) = s.world.queues[0].pop_front() {
                    s.tally("late", s.now - at);
                }
                Op::Compute(100 * US)
            }
        }
    }
}

#[test]
fn who_is_woken_while_it_is_switched_out_finds_an_idle_vcpu_too() {
    let mut s = pinned(4, 4, ALL_POLICIES);
    s.guest.config.caches = 2;
    s.costs.switch_ns = 100 * US;
    s.world.queues.push(Default::default());
    let semaphore = s.world.semaphore(0);
    let hog = Compute::new("work", 100 * US);
    let tasks = vec![
        NewTask::new("leaver", 0, Leaver { task: 0, semaphore, step: 0 }),
        on(0, NewTask::new("hog", 1, hog)),
    ];
    let late = finished(s, tasks, S).tallies["late"].clone();
    assert!(late.count > 50, "{} packets were served", late.count);
    let mean_ns = late.sum / late.count;
    assert!(mean_ns < 500 * US, "packets were served after {mean_ns} ns");
}

#[test]
fn who_is_changed_while_it_runs_has_not_slept() {
    let mut s = pinned(2, 2, ALL_POLICIES);
    s.world.warm_up_ns = 100 * MS;
    // Too often for a burst that shows what the task is, were each change the end of one.
    for n in 1..500 {
        let change = if n % 2 == 0 {
            Change::Nice { task: 0, nice: 0 }
        } else {
            Change::Affinity { task: 0, allowed: vec![0] }
        };
        s.plan(n * 2 * MS, Action::Change { by: 1, change });
    }
    let hog = NewTask::new("hog", 0, Compute::new("work", 100 * US));
    let tasks: Vec<_> = std::iter::once(hog)
        .chain(timers::tasks("late", 1, 5300 * US, 1))
        .map(|task| on(0, task))
        .collect();
    let late = finished(s, tasks, S).tallies["late"].clone();
    let mean_ns = late.sum / late.count.max(1);
    assert!(mean_ns < MS, "behind a CPU-bound task it waited for {mean_ns} ns");
}

/// Disables migration, works and enables it again, as kernel code does around per-CPU data.
#[derive(Default)]
struct Bound {
    step: u32,
}

impl Program for Bound {
    fn next(&mut self, _: &mut Sim) -> Op {
        self.step += 1;
        match self.step % 4 {
            1 => Op::MigrateDisable(true),
            2 => Op::Compute(9 * MS),
            3 => Op::MigrateDisable(false),
            _ => Op::Compute(200 * US),
        }
    }
}

#[test]
fn who_has_disabled_migration_runs_on_though_its_vcpu_goes_offline() {
    let mut s = pinned(2, 2, ALL_POLICIES);
    s.guest.stall_ns = 200 * MS;
    for (n, online) in (0..12).flat_map(|n| [(n, false), (n, true)]) {
        let change = Change::Online { vcpu: 1, online };
        // At another moment of what runs there each time.
        let at = n * 507 * MS + if online { 500 * MS } else { 100 * MS };
        s.plan(at, Action::Change { by: 0, change });
    }
    let tasks = (0..6).map(|n| NewTask::new("bound", n, Bound::default())).collect();
    finished(s, tasks, 6 * S);
}

/// Computes, and keeps interrupts off for a moment in between.
struct Driver {
    off: bool,
}

impl Program for Driver {
    fn next(&mut self, _: &mut Sim) -> Op {
        self.off = !self.off;
        if self.off { Op::IrqsOff(600 * US) } else { Op::Compute(49_500 * US) }
    }
}

#[test]
fn interrupts_that_are_off_are_not_stolen_time_where_there_is_a_clock() {
    let mut s = pinned(1, 1, ALL_POLICIES);
    s.guest.config.steal_clock = true;
    let driver = NewTask::new("driver", 0, Driver { off: false });
    let seen = finished(s, vec![driver], 10 * S);
    assert!(seen.activity[0].beats_stolen_ns > MS, "no beat was late");
    assert_eq!(seen.activity[0].stolen_ns, 0);
}

#[test]
fn what_a_steal_clock_misses_is_found_by_late_beats() {
    let mut s = pinned(1, 1, ALL_POLICIES);
    s.guest.config.steal_clock = true;
    s.guest.config.steal_below = true;
    compete(&mut s, 0, Load::Duty { on_ns: 5 * MS, off_ns: 45 * MS, phase_ns: 0 }, true);
    let seen = finished(s, compute(1, MS), 20 * S);
    let (stolen_ns, truth_ns) = (seen.activity[0].stolen_ns, seen.truth[0].1);
    assert!(stolen_ns > truth_ns / 2, "{stolen_ns} of {truth_ns} ns were found");
    assert!(stolen_ns < truth_ns * 5 / 4, "{stolen_ns} of {truth_ns} ns were found");
}

/// Computes for 100 us between two tokens that it gives.
struct Rings {
    bell: usize,
    rang: bool,
}

impl Program for Rings {
    fn next(&mut self, _: &mut Sim) -> Op {
        self.rang = !self.rang;
        if self.rang {
            Op::Up { semaphore: self.bell, count: 1, sync: false }
        } else {
            Op::Compute(100 * US)
        }
    }
}

#[test]
fn who_wakes_a_vcpu_knows_the_time_though_others_take_from_its_queue() {
    let mut s = pinned(4, 4, ALL_POLICIES);
    let bell = s.world.semaphore(0);
    let mut tasks = vec![
        on(0, NewTask::new("rings", 0, Rings { bell, rang: true })),
        among(&[1, 3], NewTask::new("answers", 1, Server { semaphore: bell, serves: false })),
    ];
    for process in 2..4 {
        let bursts = Bursts { run_ns: 700 * US, sleep_ns: 300 * US, ran: false };
        tasks.push(among(&[0, 2], NewTask::new("moves", process, bursts)));
    }
    let seen = finished(s, tasks, 4 * S);
    let steals = seen.stats[2].counters[intf::VAWARE_DISPATCH_STEAL as usize];
    assert!(steals > 10, "only {steals} tasks left its queue");
    let wakes = seen.activity[1].spans[intf::VAWARE_SPAN_WAKE as usize].weights;
    let (short, long) = wakes.split_at(5); // at 2^17 ns
    assert!(short.iter().sum::<u32>() > 0);
    assert_eq!(long.iter().sum::<u32>(), 0, "wake-ups took long by {wakes:?}");
}

#[test]
fn what_runs_is_billed_to_the_vcpu_that_it_runs_on() {
    let mut s = pinned(2, 2, ALL_POLICIES);
    for n in 1..1000 {
        let change = Change::Nice { task: 0, nice: 0 };
        s.plan(n * MS, Action::Change { by: 1, change });
    }
    let hog = Compute::new("work", 100 * US);
    let tasks = vec![on(0, NewTask::new("hog", 0, hog))];
    let seen = finished(s, tasks, S);
    let billed_ns: Vec<u64> = seen.stats.iter().map(|of| of.run_ns.iter().sum()).collect();
    assert!(billed_ns[0] > S * 9 / 10, "{billed_ns:?}");
    assert_eq!(billed_ns[1], 0);
}

/// Where a worker waits: its queue of wake-up times, and its semaphore.
#[derive(Clone, Copy)]
struct Desk {
    queue: usize,
    semaphore: usize,
}

/// Wakes all workers, one after the other, and sleeps until each has answered.
struct Boss {
    desks: Vec<Desk>,
    answers: usize,
    step: usize,
}

impl Program for Boss {
    fn next(&mut self, s: &mut Sim) -> Op {
        let step = self.step % (2 * self.desks.len());
        self.step += 1;
        let Some(desk) = self.desks.get(step) else { return Op::Down(self.answers) };
        s.world.queues[desk.queue].push_back(s.now);
        Op::Up { semaphore: desk.semaphore, count: 1, sync: false }
    }
}

/// Works when it is woken, and answers. The time from its wake-up on is tallied.
struct Worker {
    desk: Desk,
    answers: usize,
    step: usize,
}

impl Program for Worker {
    fn next(&mut self, s: &mut Sim) -> Op {
        self.step += 1;
        match self.step % 3 {
            1 => Op::Down(self.desk.semaphore),
            2 => {
                if let Some(at) = s.world.queues[self.desk.queue].pop_front() {
                    let waited_ns = s.now - at;
                    s.tally(if waited_ns > 100 * US { "late" } else { "soon" }, waited_ns);
                }
                Op::Compute(20 * US + s.below(300 * US))
            }
            _ => Op::Up { semaphore: self.answers, count: 1, sync: false },
        }
    }
}

#[test]
fn who_waits_for_a_vcpu_that_is_being_woken_is_seen_by_idle_ones() {
    let mut s = pinned(4, 4, ALL_POLICIES);
    s.world.warm_up_ns = 100 * MS;
    let mut tasks = Vec::new();
    for process in 0..2 {
        let answers = s.world.semaphore(0);
        let mut desks = Vec::new();
        for _ in 0..2 {
            let desk = Desk { queue: s.world.queues.len(), semaphore: s.world.semaphore(0) };
            s.world.queues.push(Default::default());
            tasks.push(NewTask::new("worker", process, Worker { desk, answers, step: 0 }));
            desks.push(desk);
        }
        tasks.push(NewTask::new("boss", process, Boss { desks, answers, step: 0 }));
    }
    let tallies = finished(s, tasks, 2 * S).tallies;
    let [soon, late] = ["soon", "late"].map(|kind| tallies.get(kind).map_or(0, |of| of.count));
    // While the bosses sleep there is a vCPU for each worker.
    assert!(soon > 1000 && late * 200 < soon, "{late} wake-ups were late, {soon} were not");
}

#[test]
fn all_of_many_best_effort_tasks_have_their_turn() {
    let mut tasks = compute(1, MS);
    let light =
        |n| NewTask { policy: Policy::Idle, ..NewTask::new("light", n, Compute::new("light", MS)) };
    tasks.extend((1..300).map(light));
    for (name, counts) in finished(pinned(1, 1, ALL_POLICIES), tasks, 8 * S).tasks {
        assert!(counts.work_ns > 0, "a task of {name} never ran");
    }
}

/// One of two that hand over to each other: each wakes the other one and waits.
struct HandsOver {
    mine: usize,
    other: usize,
    step: usize,
}

impl Program for HandsOver {
    fn next(&mut self, _: &mut Sim) -> Op {
        self.step += 1;
        match self.step % 3 {
            1 => Op::Down(self.mine),
            2 => Op::Compute(10 * US),
            _ => Op::Up { semaphore: self.other, count: 1, sync: true },
        }
    }
}

#[test]
fn two_that_hand_over_to_each_other_do_not_starve_a_best_effort_task() {
    let mut s = pinned(2, 2, ALL_POLICIES);
    s.world.warm_up_ns = 0;
    let (a, b) = (s.world.semaphore(1), s.world.semaphore(0));
    let mut tasks = vec![
        on(1, NewTask::new("hog", 1, Compute::new("work", MS))),
        NewTask::new("pair", 2, HandsOver { mine: a, other: b, step: 0 }),
        NewTask::new("pair", 2, HandsOver { mine: b, other: a, step: 0 }),
    ];
    let light = NewTask::new("light", 3, Compute::new("light", MS));
    tasks.push(on(0, NewTask { policy: Policy::Idle, ..light }));
    let light_ns = finished(s, tasks, 4 * S).tallies["light"].sum;
    assert!(light_ns > 0, "it never ran");
}
