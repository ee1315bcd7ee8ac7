# SPDX-License-Identifier: GPL-2.0-only
"""The simulated host: cases derived by hand from the kernel's source, and exact times."""

import itertools
from ctypes import byref

import pytest

from simulated_host import IDLE, MS, NEVER, RUN, US, Host, ShapeError, Turn

SLICE_MS, TICK_MS = 2.8, 1.0  # defaults of a shape


def alive(vcpus: int, shape: str, seed: int = 1, seconds: float = 3.0, **more) -> Host:
    """A host on which all vCPUs have computed for so long."""
    host = Host(vcpus, shape, seed, **more)
    for vcpu in range(vcpus):
        host.live(vcpu)
    host.run(round(seconds * 1000) * MS)
    return host


def times(host: Host, entity: int, why: str) -> list[int]:
    return [event.now_ns for event in host.events if event[2:] == (entity, why)]


def cycle(work_us: float, sleep_us: float):
    return itertools.repeat((round(work_us * US), round(sleep_us * US)))


# --- shares


def test_a_vcpu_alone_loses_nothing():
    host = alive(2, "")
    assert [host.truth(vcpu).ran_ns for vcpu in range(2)] == [3000 * MS] * 2
    assert [host.truth(vcpu).stolen_ns for vcpu in range(2)] == [0] * 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weights", [(100, 100), (300, 100), (1, 100, 250), (10000, 100, 37)])
def test_shares_follow_weights(weights, seed):
    lines = [f"vcpu {vcpu} weight={weight}" for vcpu, weight in enumerate(weights)]
    host = alive(len(weights), "\n".join(["pcpus 1", *lines, "hog on=0"]), seed)
    for vcpu, weight in enumerate(weights):
        due_ms = 3000 * weight / (sum(weights) + 100)
        assert host.truth(vcpu).ran_ns / MS == pytest.approx(due_ms, abs=2 * (SLICE_MS + TICK_MS))


def test_napping_does_not_buy_more_than_a_share():
    """Delayed dequeue: who sleeps with a debt keeps it until the others have caught up."""
    host = Host(1, "pcpus 1\nhog on=0")
    host.live(0, cycle(2000, 50))
    host.run(3000 * MS)
    assert host.truth(0).ran_ns / MS == pytest.approx(1500, abs=2 * (SLICE_MS + TICK_MS))


def test_a_debt_does_not_outlast_a_long_sleep():
    """Delayed dequeue: it leaves the queue when it is due, with no lag; so it waits one slice."""
    host = Host(1, "pcpus 1\nhog on=0", seed=3)
    host.live(0, iter([(9 * MS, 50 * MS), (MS, 0)]))
    host.run(200 * MS)
    woken = times(host, 0, "woken")[1]
    began = next(at for at in times(host, 0, "in") if at >= woken)
    assert began - woken <= 3 * MS  # the hog's slice, as the tick sees it


# --- times, by hand


@pytest.mark.parametrize("seed", range(6))
def test_a_first_wakeup_waits_until_the_tick_at_which_the_slice_of_the_other_is_over(seed):
    """
    The hog runs from 0, so its vruntime is the time. Each third tick renews its deadline, last at
    L, to L + 2.8. The vCPU that wakes at w has no lag: vruntime w, deadline w + 2.8. Both are
    eligible, and the hog's deadline is earlier; it is over at tick L + 3, and then the hog, which
    is ahead, is not eligible.
    """
    host = Host(1, "pcpus 1\nhog on=0", seed)
    woken = 10_300 * US
    host.live(0, at=woken)
    host.run(40 * MS)
    switches = times(host, 0, "in")
    phase = switches[0] % MS  # of the host's ticks
    first = phase + 2 * MS if phase >= 800 * US else phase + 3 * MS  # 2.8 ms or later
    last = first + (woken - first) // (3 * MS) * 3 * MS
    assert switches[0] == last + 3 * MS
    assert times(host, 0, "preempted")[0] == switches[0] + 3 * MS


@pytest.mark.parametrize("seed", range(6))
def test_a_vcpu_that_is_owed_time_preempts_at_its_wakeup(seed):
    """
    As above, but it works for 0.2 ms. Then its vruntime is w + 0.2, the hog's L + 3: if w < L + 2.8
    it is owed half of the difference, which it has again at its next wake-up; the hog's lag is as
    negative, so the hog is not eligible, and protected no more. Else it is not owed anything.
    """
    host = Host(1, "pcpus 1\nhog on=0", seed)
    woken = 10_300 * US
    host.live(0, iter([(200 * US, 7 * MS), (200 * US, 0)]), at=woken)
    host.run(60 * MS)
    began, again = times(host, 0, "in")
    owed = woken < began - 200 * US
    assert times(host, 0, "woken") == [woken, began + 7200 * US]
    assert (again == began + 7200 * US) == owed


def test_a_slice_that_began_is_not_cut_by_a_wakeup():
    """
    RUN_TO_PARITY: vCPU 1 wakes with no lag, and by its weight with an earlier deadline, 0.1 + 0.7
    of virtual time against 2.8; but vCPU 0 is eligible as well, and has not had its slice.
    """
    host = Host(2, "pcpus 1\nvcpu 1 weight=400", seed=1)
    host.live(0)
    host.live(1, at=100 * US)
    host.run(20 * MS)
    began = times(host, 1, "in")[0]
    assert began == times(host, 0, "preempted")[0]
    assert 2.8 * MS <= began < 3.8 * MS


def test_slices_of_hosts_with_250_hz_are_4_ms():
    host = alive(1, "host hz=250\npcpus 1\nhog on=0")
    preempted, began = times(host, 0, "preempted"), times(host, 0, "in")
    assert {stop - start for start, stop in zip(began[1:], preempted[1:], strict=False)} == {4 * MS}


def test_a_duty_takes_its_time_exactly():
    host = alive(1, "pcpus 1\nduty 3/7 on=0 phase=1")
    assert host.truth(0).stolen_ns == 900 * MS
    assert host.competitor(0).ran_ns == 900 * MS
    assert times(host, 0, "preempted") == [(1 + 10 * k) * MS for k in range(300)]
    assert times(host, 0, "in")[1:] == [(4 + 10 * k) * MS for k in range(300)]


def test_a_record_repeats_exactly():
    host = Host(1, "pcpus 1\nrecorded 2/3,1/4 on=0")
    host.run(1000 * MS)
    began = times(host, 1, "in")
    assert began[:200] == [k * 5 * MS for k in range(200)]
    assert host.competitor(0).ran_ns == 300 * MS


def test_bursts_have_their_means():
    host = Host(1, "pcpus 1\nbursty 3/7 on=0", seed=5)
    host.run(20_000 * MS)
    truth = host.competitor(0)
    # 2000 cycles: the mean of as many exponential draws is within 7 % (three sigma)
    assert truth.ran_ns / 20_000 / MS == pytest.approx(0.3, rel=0.1)
    assert truth.slices == pytest.approx(2000, rel=0.1)


# --- quotas


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("on", "period"), [(5, 100), (20, 50), (30, 60), (3, 4), (100, 1000)])
def test_a_quota_is_kept_within_a_bandwidth_slice(on, period, seed):
    shape = f"pcpus 2\nvcpu 0 on=0\nvcpu 1 on=1\nquota {on}/{period} vcpu=0"
    host = alive(2, shape, seed)
    due_ms = 3000 * on / period
    # The first period is shorter by the timer's phase, with a whole runtime; a tick may be owed.
    assert due_ms - 5 - TICK_MS <= host.truth(0).ran_ns / MS <= due_ms + on + TICK_MS
    assert host.truth(1).ran_ns == 3000 * MS
    assert host.truth(0).stolen_ns == 3000 * MS - host.truth(0).ran_ns


def test_a_quota_begins_anew_at_its_period():
    host = alive(1, "pcpus 1\nquota 10/50 vcpu=0 phase=7", seconds=1)
    assert times(host, 0, "unthrottled")[:3] == [57 * MS, 107 * MS, 157 * MS]


def test_unused_runtime_does_not_add_up():
    host = Host(1, "pcpus 1\nquota 5/100 vcpu=0 phase=0")
    host.live(0, at=1001 * MS)
    host.run(1099 * MS)
    assert 5 <= host.truth(0).ran_ns / MS <= 5 + TICK_MS


def test_a_shared_quota_bounds_the_sum_and_is_taken_by_those_who_run():
    host = Host(4, "pcpus 4\n" + "\n".join(f"vcpu {i} on={i}" for i in range(4)))
    host.shape(
        "pcpus 4\n"
        + "\n".join(f"vcpu {i} on={i}" for i in range(4))
        + "\nquota 60/100 vcpu=0-3 shared"
    )
    for vcpu in range(3):  # vCPU 3 stays halted
        host.live(vcpu)
    host.run(3000 * MS)
    ran_ms = [host.truth(vcpu).ran_ns / MS for vcpu in range(4)]
    assert sum(ran_ms) == pytest.approx(1800, abs=60 + 3 * (5 + TICK_MS))
    assert min(ran_ms[:3]) > 500
    assert ran_ms[3] == 0


def test_own_and_shared_quotas_both_hold():
    shape = "pcpus 2\nvcpu 0 on=0\nvcpu 1 on=1\nquota 10/100 vcpu=0\nquota 50/100 vcpu=0-1 shared"
    host = alive(2, shape)
    assert host.truth(0).ran_ns / MS == pytest.approx(300, abs=10 + 5 + TICK_MS)
    assert host.truth(1).ran_ns / MS == pytest.approx(1200, abs=50 + 2 * (5 + TICK_MS))


# --- cores


def test_smt_siblings_share_a_core():
    host = Host(3, "pcpus 4 smt=0.6\nvcpu 0 on=0\nvcpu 1 on=1\nvcpu 2 on=2", quantum_ns=US)
    for vcpu in range(3):
        host.live(vcpu)
    host.run(100 * MS)
    worked_ms = [worked / MS for worked in host.worked]
    assert worked_ms == pytest.approx([60, 60, 100], rel=0.001)


def test_a_sibling_that_halts_gives_the_core_back():
    host = Host(2, "pcpus 2 smt=0.6\nvcpu 0 on=0\nvcpu 1 on=1", quantum_ns=US)
    host.live(0)
    host.live(1, iter([(30 * MS, 0)]))  # 50 ms at 0.6
    host.run(100 * MS)
    assert host.worked[0] / MS == pytest.approx(50 * 0.6 + 50, rel=0.001)


def test_work_takes_longer_on_a_slow_pcpu():
    host = alive(2, "pcpus 2\nspeed 0.37 on=1\nvcpu 0 on=0\nvcpu 1 on=1", seconds=1)
    assert [worked / MS for worked in host.worked] == pytest.approx([1000, 370], rel=1e-5)
    assert host.truth(1).ran_ns == pytest.approx(1000 * MS, abs=3)


# --- floating


@pytest.mark.parametrize(("vcpus", "pcpus"), [(3, 2), (5, 4), (8, 4)])
def test_floating_vcpus_get_near_even_shares(vcpus, pcpus):
    host = alive(vcpus, f"pcpus {pcpus}", seconds=60, quantum_ns=MS)
    ran_ms = [host.truth(vcpu).ran_ns / MS for vcpu in range(vcpus)]
    assert ran_ms == pytest.approx([60_000 * pcpus / vcpus] * vcpus, rel=0.02)
    assert sum(ran_ms) == pytest.approx(60_000 * pcpus, abs=pcpus)  # none is idle


def test_a_floating_vcpu_wakes_on_an_idle_pcpu():
    host = Host(2, "pcpus 3\nvcpu 0 on=0\nvcpu 1 on=0-2", seed=2)
    host.live(1, cycle(100, 500))
    host.run(5 * MS)
    first = host.truth(1).pcpu
    assert host.truth(1).migrations == 0  # the previous pCPU was idle, too
    host.shape(f"pcpus 3\nvcpu 0 on={first}\nvcpu 1 on=0-2")
    host.live(0)
    host.run(20 * MS)
    assert host.truth(1).pcpu != first
    assert host.truth(1).stolen_ns == 0


def test_an_idle_core_is_taken_before_an_idle_sibling():
    host = Host(2, "pcpus 4 smt=0.6\nvcpu 0-1 on=0")
    host.shape("pcpus 4 smt=0.6\nvcpu 0 on=0\nvcpu 1 on=0-3")
    host.live(0)
    host.live(1, cycle(100, 500), at=MS)  # its previous pCPU is busy, and 1 is the sibling of that
    host.run(10 * MS)
    assert host.truth(1).pcpu == 2


def test_two_that_share_a_core_part_when_another_core_is_idle():
    """Active balance; each then works at its full speed."""
    host = Host(2, "pcpus 4 smt=0.6\nvcpu 0 on=0\nvcpu 1 on=1")
    host.live(0)
    host.live(1)
    host.run(MS)
    host.shape("pcpus 4 smt=0.6\nvcpu 0 on=0,2\nvcpu 1 on=1,3")
    host.run(200 * MS)
    assert {host.truth(vcpu).pcpu // 2 for vcpu in range(2)} == {0, 1}
    before = sum(host.worked)
    host.run(300 * MS)
    assert sum(host.worked) - before == pytest.approx(200 * MS, rel=0.001)


def test_who_waits_is_pulled_by_a_pcpu_that_falls_idle():
    """vCPU 2 has had a slice, 100 times its share, and waits on pCPU 0, long after it ran."""
    host = Host(3, "pcpus 2\nvcpu 0 on=0 weight=10000\nvcpu 1 on=1 weight=10000", seed=4)
    host.live(0)
    host.live(1, iter([(25 * MS, 0)]))
    host.live(2, at=US)
    host.run(40 * MS)
    halted = times(host, 1, "halted")[0]
    assert host.truth(2).pcpu == 1
    assert halted in [event.now_ns for event in host.events if event[1:] == (1, 2, "in")]


# --- halt polling


def test_halt_polling_grows_and_shrinks_as_kvm_does():
    """
    kvm_vcpu_halt(): blocked for 50 us it begins at 10 us and doubles until the polling finds the
    wake-up; blocked for 1 ms, which is above the maximum, it halves, and below 10 us becomes 0.
    """
    host = Host(1, "pcpus 1", seed=1)
    naps = [(20 * US, 50 * US)] * 6 + [(20 * US, 1000 * US)] * 5 + [(20 * US, 0)]
    polls = []

    def life():
        for nap in naps:
            yield nap
            polls.append(host.halt_poll_ns(0))

    host.live(0, life())
    host.run(20 * MS)
    # at each halt, how long it polls
    assert [poll / US for poll in polls] == [0, 10, 20, 40, 80, 80, 80, 40, 20, 10, 0, 0]


def test_polling_keeps_the_pcpu_and_is_not_steal():
    host = Host(1, "pcpus 1")
    host.live(0, cycle(20, 50))
    host.run(100 * MS)
    truth = host.truth(0)
    assert truth.polled_ns > 0.6 * 100 * MS
    assert truth.stolen_ns == 0
    assert truth.ran_ns + truth.polled_ns <= 100 * MS


def test_the_host_does_not_poll_while_another_task_waits():
    host = Host(1, "pcpus 1\nhog on=0")
    host.live(0, cycle(20, 50))
    host.run(100 * MS)
    assert host.truth(0).polled_ns == 0


def test_polling_ends_when_another_task_comes():
    host = Host(2, "host poll=5 poll_start=5\npcpus 1")
    host.live(0, iter([(20 * US, 50 * US), (20 * US, 100 * US), (20 * US, 0)]))
    host.live(1, iter([(500 * US, 0)]), at=150 * US)
    host.run(2 * MS)
    # the second halt, at 90 us, is the first with something to poll for
    assert times(host, 0, "poll start")[0] == 90 * US
    assert times(host, 0, "poll end")[0] == times(host, 1, "in")[0] == 150 * US


def test_the_guest_can_forbid_polling():
    host = Host(1, "pcpus 1")
    host.poll_control(0, False)
    host.live(0, cycle(20, 50))
    host.run(10 * MS)
    assert host.truth(0).polled_ns == 0
    assert host.halt_poll_ns(0) == 0


def test_no_polling_with_a_maximum_of_0():
    host = Host(1, "host poll=0\npcpus 1")
    host.live(0, cycle(20, 50))
    host.run(10 * MS)
    assert host.truth(0).polled_ns == 0


# --- costs


def test_costs_are_charged_where_they_arise():
    costs = "halt_ns=1000 wake_ns=5000 wake_polled_ns=700 host_switch_ns=3000"
    host = Host(1, f"host costs=none {costs} poll=0\npcpus 1")
    host.live(0, cycle(100, 900))
    host.run(10 * MS)
    assert host.truth(0).overhead_ns == pytest.approx(10 * (1000 + 5000), abs=6000)
    host.shape(f"host costs=none {costs}\npcpus 1\nduty 1/1 on=0")
    host.live(0)
    before = host.truth(0).overhead_ns
    host.run(30 * MS)
    assert host.truth(0).overhead_ns - before == pytest.approx(10 * 3000, abs=10_000)


def test_profiles_differ_in_what_traps():
    posted, exits = (Host(1, f"host costs={name}\npcpus 1").costs() for name in ("posted", "exits"))
    assert posted.ipi_ns < exits.ipi_ns
    assert posted.ipi_latency_ns < exits.ipi_latency_ns
    assert posted.timer_ns < exits.timer_ns
    assert posted.wake_ns < exits.wake_ns
    assert posted.halt_ns == exits.halt_ns
    assert posted.host_switch_ns == exits.host_switch_ns


def test_the_callers_costs_take_time_but_no_work():
    host = Host(1, "pcpus 1", turn_cost_ns=500, quantum_ns=2000)
    host.live(0)
    host.run(10 * MS)
    assert host.truth(0).ran_ns == pytest.approx(10 * MS, abs=2500)
    assert host.truth(0).overhead_ns == pytest.approx(2 * MS, rel=0.01)
    assert host.worked[0] == pytest.approx(8 * MS, rel=0.01)


# --- over time


def test_sections_follow_each_other_and_repeat():
    shape = "cycle 30\npcpus 1\nat 10\npcpus 1\nduty 1/1 on=0\nat 20\npcpus 1\nduty 3/1 on=0"
    host = alive(1, shape, seconds=0.06)
    stolen = [0, 0, 0]
    last = None
    for event in host.events:
        if event.entity == 0 and event.why == "preempted":
            last = event.now_ns
        elif event.entity == 0 and event.why == "in" and last is not None:
            stolen[last // (10 * MS) % 3] += event.now_ns - last
    assert stolen == [0, 2 * 5 * MS, pytest.approx(2 * 8 * MS, abs=2 * MS)]


def test_a_new_shape_replaces_the_old_one_and_keeps_the_truth():
    host = alive(2, "pcpus 1\nvcpu 0-1 on=0", seconds=0.1)
    before = [host.truth(vcpu).ran_ns for vcpu in range(2)]
    assert sum(before) == 100 * MS
    host.shape("")
    host.run(200 * MS)
    assert [host.truth(vcpu).ran_ns - ran for vcpu, ran in enumerate(before)] == [100 * MS] * 2


def test_a_bad_shape_leaves_the_old_one():
    host = alive(1, "pcpus 1\nhog on=0", seconds=0.1)
    with pytest.raises(ShapeError):
        host.shape("pcpus 0")
    host.run(200 * MS)
    assert host.competitors() == ["hog 0 on 0"]
    assert host.truth(0).ran_ns == pytest.approx(100 * MS, abs=4 * MS)


def test_a_pause_is_not_steal():
    host = alive(1, "pcpus 1\nduty 1/1 on=0", seconds=0.1)
    host.pause(500 * MS)
    assert host.now_ns == 600 * MS
    host.run(700 * MS)
    assert host.truth(0).ran_ns == 100 * MS
    assert host.truth(0).stolen_ns == 100 * MS
    assert max(event.now_ns for event in host.events) >= 699 * MS


# --- what a caller may do wrong


def test_calls_that_make_no_sense_have_no_effect():
    host = Host(1, "pcpus 1")
    for vcpu in (-1, 1, 1000):
        host.lib.vt_host_wake(host.handle, vcpu, 0)
        host.lib.vt_host_halt(host.handle, vcpu, 0)
        host.lib.vt_host_ran(host.handle, vcpu, 1000, 0)
        host.lib.vt_host_poll_control(host.handle, vcpu, True)
    host.lib.vt_host_halt(host.handle, 0, 0)  # it is halted
    host.lib.vt_host_ran(host.handle, 0, 1000, 0)
    host.lib.vt_host_pause(host.handle, -5)
    host.run(10 * MS)
    assert host.truth(0).ran_ns == 0
    host.live(0)
    host.lib.vt_host_wake(host.handle, 0, 20 * MS)  # it is awake already, or will be
    host.run(20 * MS)
    assert host.truth(0).ran_ns == 10 * MS
    assert host.events[-1].why == "in"


def test_a_vcpu_that_waits_can_halt():
    host = Host(2, "pcpus 1\nvcpu 0-1 on=0")
    host.live(0)
    host.live(1, at=MS)
    host.run(2 * MS)
    assert host.truth(1).wants and not host.truth(1).on_pcpu
    host.lib.vt_host_halt(host.handle, 1, 2 * MS)
    host.run(50 * MS)
    assert not host.truth(1).wants
    assert (host.truth(1).ran_ns, host.truth(1).stolen_ns) == (0, MS)
    assert host.truth(0).ran_ns == 50 * MS


def test_a_throttled_vcpu_can_halt():
    host = Host(1, "pcpus 1\nquota 5/100 vcpu=0 phase=0")
    host.live(0)
    host.run(50 * MS)
    assert host.events[-1].why == "throttled"
    host.lib.vt_host_halt(host.handle, 0, 50 * MS)
    host.run(150 * MS)
    assert not host.truth(0).wants
    assert host.truth(0).ran_ns + host.truth(0).stolen_ns == 50 * MS
    host.live(0)
    host.run(152 * MS)  # a new period has begun
    assert host.truth(0).on_pcpu


def test_a_halt_voids_a_wakeup_on_its_way():
    host = Host(1, "pcpus 1")
    host.lib.vt_host_wake(host.handle, 0, 5 * MS)
    host.lib.vt_host_halt(host.handle, 0, MS)
    host.run(10 * MS)
    assert host.events == []
    host.live(0)
    host.run(20 * MS)
    assert host.truth(0).ran_ns == 10 * MS


def test_a_wakeup_in_the_past_happens_now():
    host = Host(1, "pcpus 1")
    host.run(10 * MS)
    host.live(0, at=0)
    host.lib.vt_host_wake(host.handle, 0, 1)
    host.run(20 * MS)
    assert times(host, 0, "woken") == [10 * MS]


def test_a_host_without_a_limit_ends_when_all_are_halted():
    host = Host(2, "pcpus 1\nhog on=0")
    turn = Turn()
    assert host.lib.vt_host_next(host.handle, NEVER, byref(turn)) == IDLE
    host.lib.vt_host_wake(host.handle, 1, 3 * MS)
    assert host.lib.vt_host_next(host.handle, NEVER, byref(turn)) == RUN
    assert (turn.vcpu, turn.pcpu) == (1, 0)
    host.lib.vt_host_ran(host.handle, 1, 1000, 0)
    host.lib.vt_host_halt(host.handle, 1, turn.now_ns + 1000)
    assert host.lib.vt_host_next(host.handle, NEVER, byref(turn)) == IDLE


def test_the_number_of_vcpus_has_bounds():
    lib = Host(1).lib
    assert lib.vt_host_new(0, 1) is None
    assert lib.vt_host_new(257, 1) is None


def test_events_are_bounded_by_ticks_and_toggles():
    host = alive(8, "pcpus 4\nhog on=0-3\nduty 5/5 on=0", seconds=1)
    assert host.nr_events() <= 4 * 1000 * 1.01 + 2 * 100 + 16


def test_an_idle_guest_costs_no_events():
    host = Host(8, "pcpus 4\nvcpu 0-7 on=0\nhog on=0-3")
    host.run(10_000 * MS)
    assert host.nr_events() < 20


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hog on=0", "line 1: 'hog' comes before the section's 'pcpus'; begin with that"),
        ("pcpus 2\nhog on=7", "line 2: on= is '7'; it takes a number from 0 to 1"),
        ("pcpus 2\nhog", "line 2: on= is missing; it takes a list such as 0-3,6"),
        ("pcpus 0", "line 1: the number of pCPUs is '0'; it takes a number from 1 to 256"),
        ("pcpus", "line 1: 'pcpus' lacks its argument"),
        ("pcpus 1\npcpus 1", "line 2: the section already has its pCPUs"),
        ("pcpus 1\nspin on=0", "line 2: 'spin' is unknown; begin with"),
        ("pcpus 1\nduty 5 on=0", "line 2: the time after '/' is ''"),
        ("pcpus 1\nduty 5/0 on=0", "line 2: the time after '/' is '0'"),
        ("pcpus 1\nquota 0.5/10 vcpu=0", "line 2: the kernel takes run times from 1 ms"),
        ("pcpus 1\nquota 1/10 vcpu=0\nquota 1/10 vcpu=0", "line 3: a vCPU has two quotas"),
        ("pcpus 1\nvcpu 3", "line 2: the vCPU is '3'"),
        ("pcpus 1\nvcpu 0 on=0 wait=3", "line 2: 'wait=3' does not belong to 'vcpu'"),
        ("pcpus 1\nhog on=0 weight=0", "line 2: weight is '0'"),
        ("host costs=free\npcpus 1", "line 1: costs are 'free'; name none, posted or exits"),
        ("pcpus 1\nhost hz=1000", "line 2: 'host' holds for the whole text"),
        ("pcpus 1\nat 5", "the last section has no 'pcpus'"),
        ("pcpus 1\nat 5\npcpus 1\nat 5\npcpus 1", "line 4: sections come in order of time"),
        ("cycle 5\npcpus 1\nat 5\npcpus 1", "the cycle ends before its last section begins"),
        ("pcpus 1\nduty 0.0005/1 on=0", "line 2: the first time is '0.0005'"),
        ("cycle 0.5\npcpus 1", "line 1: the cycle is '0.5'; it takes a number from 1 to"),
        ("pcpus 1\nrecorded 1/2,3 on=0", "line 2: the time after '/' is ''"),
    ],
)
def test_a_bad_line_is_named(text, sentence):
    with pytest.raises(ShapeError) as error:
        Host(1).shape(text, plain=True)
    assert str(error.value).startswith(sentence)
