# SPDX-License-Identifier: GPL-2.0-only
"""What holds on every simulated host: random shapes and lives, by seed."""

import random
from collections import defaultdict

import pytest

from simulated_host import MS, US, Host, ShapeError

RUN_NS = 400 * MS
QUANTUM_NS = 20 * US
SEEDS = range(30)


def cpus(dice: random.Random, count: int) -> str:
    return ",".join(map(str, sorted(dice.sample(range(count), dice.randint(1, count)))))


def section(dice: random.Random, vcpus: int, smt: bool) -> str:
    """A random description of one section."""
    pcpus = dice.randint(1, 6)
    lines = [f"pcpus {pcpus}" + (" smt=0.6" if smt else "")]
    if dice.random() < 0.4:
        lines.append(f"speed {dice.uniform(0.1, 1):.3f} on={cpus(dice, pcpus)}")
    for vcpu in range(vcpus):
        if dice.random() < 0.7:
            weight = dice.choice([10, 100, 100, 400])
            lines.append(f"vcpu {vcpu} on={cpus(dice, pcpus)} weight={weight}")
        if dice.random() < 0.25:
            period = dice.choice([5, 20, 100])
            lines.append(f"quota {dice.randint(1, period)}/{period} vcpu={vcpu}")
    if dice.random() < 0.3:
        lines.append(f"quota {dice.randint(10, 100)}/50 vcpu={cpus(dice, vcpus)} shared")
    for kind in ("hog", "bursty 2/3", "recorded 1/2,0.3/0.1,5/1", "duty 2/5"):
        if dice.random() < 0.35:
            floating = " floating=2" if "duty" not in kind and dice.random() < 0.3 else ""
            lines.append(f"{kind} on={cpus(dice, pcpus)}{floating}")
    return "\n".join(lines)


def life(dice: random.Random):
    if dice.random() < 0.3:
        yield 10**12, 0
    mean_us = 10 ** dice.uniform(1, 4)
    while True:
        yield (
            1 + round(dice.expovariate(1 / mean_us) * US),
            round(dice.expovariate(2 / mean_us) * US),
        )


def random_host(seed: int, host_seed: int | None = None) -> Host:
    dice = random.Random(seed)
    vcpus = dice.randint(1, 8)
    costs = dice.choice(["none", "posted", "exits"])
    smt = dice.random() < 0.3
    text = f"host costs={costs} hz={dice.choice([250, 1000])}\n" + section(dice, vcpus, smt)
    if dice.random() < 0.4:
        text += f"\nat 70\n{section(dice, vcpus, smt)}\ncycle 150"
    host = Host(vcpus, text, seed if host_seed is None else host_seed, QUANTUM_NS)
    for vcpu in range(vcpus):
        host.live(vcpu, life(random.Random(seed * 100 + vcpu)), at=dice.randint(0, 5 * MS))
    host.run(RUN_NS)
    return host


def check_log(host: Host) -> None:
    """The log makes sense: one entity per pCPU at a time, and each in one place."""
    on: dict[int, int] = {}  # pCPU: entity
    clock: dict[int, int] = defaultdict(int)
    where: dict[int, int] = {}
    for now_ns, pcpu, entity, why in host.events:
        if why == "in":
            assert pcpu not in on and entity not in where
            on[pcpu], where[entity] = entity, pcpu
        elif why in ("preempted", "halted", "throttled") and where.get(entity) is not None:
            assert where.pop(entity) == pcpu
            assert on.pop(pcpu) == entity
        if why in ("in", "preempted"):
            assert now_ns >= clock[pcpu]
            clock[pcpu] = now_ns
        if why == "in" and entity >= host.vcpus and now_ns > RUN_NS:
            raise AssertionError("a competitor ran after the end")


def sums(host: Host) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """By the log: time on a pCPU, of that polled, and time from wake-up to halt, per vCPU."""
    ran, polled, wanted = defaultdict(int), defaultdict(int), defaultdict(int)
    since: dict[tuple[int, str], int] = {}

    def begin(entity, what, now):
        since.setdefault((entity, what), now)

    def end(entity, what, now, total):
        begun = since.pop((entity, what), None)
        if begun is not None:
            total[entity] += now - begun

    for now_ns, _, entity, why in host.events:
        if entity >= host.vcpus:
            continue
        if why == "in":
            begin(entity, "on", now_ns)
        elif why in ("preempted", "throttled", "halted"):
            end(entity, "on", now_ns, ran)
        if why == "woken":
            begin(entity, "wants", now_ns)
        elif why in ("halted", "poll start"):
            end(entity, "wants", now_ns, wanted)
        if why == "poll start":
            begin(entity, "polls", now_ns)
        elif why == "poll end":
            end(entity, "polls", now_ns, polled)
    for (entity, what), begun in since.items():
        end_ns = max(RUN_NS, begun)
        {"on": ran, "wants": wanted, "polls": polled}[what][entity] += end_ns - begun
    return ran, polled, wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_time_is_conserved(seed):
    host = random_host(seed)
    check_log(host)
    ran, polled, wanted = sums(host)
    for vcpu in range(host.vcpus):
        truth = host.truth(vcpu)
        on = truth.ran_ns + truth.polled_ns
        assert on == pytest.approx(ran[vcpu], abs=QUANTUM_NS * 10)
        assert truth.polled_ns == pytest.approx(polled[vcpu], abs=QUANTUM_NS)
        assert truth.overhead_ns <= truth.ran_ns
        assert host.worked[vcpu] <= truth.ran_ns - truth.overhead_ns + truth.slices
        assert on + truth.stolen_ns <= RUN_NS + QUANTUM_NS * 10
        assert truth.ran_ns + truth.stolen_ns == pytest.approx(
            wanted[vcpu] + woken_by_polling(host, vcpu), abs=QUANTUM_NS * 10
        )


def woken_by_polling(host: Host, vcpu: int) -> int:
    """Time that the vCPU wanted after it was woken out of polling: that has no 'woken'."""
    total, since = 0, None
    halted = {event.now_ns for event in host.events if event[2:] == (vcpu, "halted")}
    for now_ns, _, entity, why in host.events:
        if entity != vcpu:
            continue
        if why == "poll end" and now_ns not in halted:
            since = now_ns
        elif why in ("halted", "poll start") and since is not None:
            total, since = total + now_ns - since, None
    return total + (max(RUN_NS - since, 0) if since is not None else 0)


@pytest.mark.parametrize("seed", range(10))
def test_nobody_starves_and_no_pcpu_idles_while_somebody_waits(seed):
    """One pCPU, no quotas: it is never idle, and all shares are within bounds."""
    dice = random.Random(seed)
    weights = [dice.choice([50, 100, 300]) for _ in range(dice.randint(2, 5))]
    lines = [f"vcpu {i} weight={weight}" for i, weight in enumerate(weights)]
    host = Host(len(weights), "\n".join(["pcpus 1", *lines]), seed)
    for vcpu in range(len(weights)):
        host.live(vcpu)
    host.run(2000 * MS)
    ran = [host.truth(vcpu).ran_ns for vcpu in range(len(weights))]
    assert sum(ran) == 2000 * MS
    for vcpu, weight in enumerate(weights):
        assert ran[vcpu] / MS == pytest.approx(2000 * weight / sum(weights), abs=2 * (2.8 + 1))


@pytest.mark.parametrize("seed", [14, 31, 35, *range(5)])
def test_a_quota_keeps_nobody_out_for_longer_than_its_periods(seed):
    """Also if it wakes from a delayed dequeue at the moment at which it is throttled."""
    host = Host(4, "pcpus 2\nvcpu 0-3 on=0-1\nquota 5/100 vcpu=3", seed)
    for vcpu in range(4):
        host.live(vcpu, short_bursts(random.Random(seed * 9 + vcpu)))
    ran_ns = 0
    for step in range(1, 15):
        host.run(step * 300 * MS)
        before_ns, ran_ns = ran_ns, host.truth(3).ran_ns
        assert ran_ns > before_ns, step


def short_bursts(dice: random.Random):
    while True:
        yield tuple(
            1 + round(dice.expovariate(1 / dice.choice([m, 10 * m, 100 * m])) * US)
            for m in (30, 20)
        )


@pytest.mark.parametrize("seed", range(10))
def test_the_same_seed_gives_the_same_log(seed):
    first, second, other = random_host(seed), random_host(seed), random_host(seed, 1000 + seed)
    assert first.events == second.events
    assert first.worked == second.worked
    assert first.events != other.events


@pytest.mark.parametrize("seed", range(10))
def test_the_work_inside_is_bounded_by_what_happens(seed):
    """Events are ticks, toggles, quotas, wake-ups, polls: none is handled twice."""
    host = random_host(seed)
    ticks = 6 * RUN_NS // MS
    wakeups = sum(event.why in ("woken", "poll end") for event in host.events)
    toggles = sum(event.entity >= host.vcpus for event in host.events)
    quotas = 9 * RUN_NS // (5 * MS) * 2
    assert host.nr_events() <= 1.1 * (ticks + wakeups + toggles + quotas) + 50


@pytest.mark.parametrize("seed", range(5))
def test_any_text_is_taken_or_refused_by_a_sentence(seed):
    dice = random.Random(seed)
    host = Host(4)
    taken = 0
    for _ in range(100):
        text = list(f"host costs=posted hz=250\n{section(dice, 4, True)}\nat 7\npcpus 1\ncycle 9")
        for _ in range(dice.randint(0, 3)):
            at = dice.randrange(len(text))
            text[at : at + dice.randint(0, 6)] = dice.choice(
                ["", "9", "-", "=", "\n", " on=0 ", "\xff"]
            )
        try:
            host.shape("".join(text), plain=True)
            taken += 1
        except ShapeError as error:
            assert len(str(error)) > 20
        host.run(host.now_ns + MS)
    assert 0 < taken < 100
