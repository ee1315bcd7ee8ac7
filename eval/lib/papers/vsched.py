# SPDX-License-Identifier: GPL-2.0-only
"""vSched, EuroSys 2025."""

from .loads import beside_idle_work, computing, named
from .model import Paper, Row, Scenario, Unshown

NO_CACHES = "the simulated host has no caches, by which siblings and last-level caches are found"
SPREAD = 0.618  # of a period: phases of neighbouring cores are far apart, and hardly repeat


def stops(ms: float, cores: range) -> str:
    """Terms for cores that are another's for so long, then the VM's for as long."""
    return "".join(
        f"+duty:{ms:g}/{ms:g}:{2 * ms * (core * SPREAD % 1):.3f}@{core}" for core in cores
    )


def _latency(ms: int) -> Scenario:
    return Scenario(
        f"vsched-fig2-{ms}ms",
        f"honest{stops(ms, range(16))}",
        (
            Row(
                "Figure 2",
                f"requests, p95, vCPUs stop for {ms} ms",
                named("requests"),
                (20.0,),
                "the most: p95 with stops of 2 ms against 16 ms",
                "p95",
            ),
        ),
        vcpus=16,
        part=("bvs",),
    )


def _whole(
    name: str, figure: str, rate: tuple[float, float], latency: tuple[float, float]
) -> Scenario:
    """All of vSched on one of its two VMs: with bvs and ivh, and without."""
    rates = ("parallel-dynamic", "parallel-static", "barrier-block", "mutex-block")
    of = "mean of the programs against CFS; bvs and ivh alone {:.2f}"
    return Scenario(
        f"vsched-{name}",
        name,
        (
            *(
                Row(
                    figure,
                    f"{what}, a thread per vCPU",
                    named(what),
                    rate[:1],
                    of.format(rate[0] / rate[1]),
                )
                for what in rates
            ),
            *(
                Row(
                    figure,
                    f"{what}, p95",
                    named(what),
                    latency[:1],
                    of.format(latency[0] / latency[1]),
                    "p95",
                )
                for what in ("requests", "requests-best-effort")
            ),
        ),
        part=("bvs", "ivh"),
    )


_FIG14 = (
    Row(
        "Figure 14",
        "requests, p95",
        named("requests"),
        (1.72,),
        "mean of 8 programs, bvs against none",
        "p95",
    ),
    Row(
        "Figure 14",
        "requests beside idle work, p95",
        named("requests-best-effort"),
        (1.72,),
        "mean of 8 programs, bvs against none",
        "p95",
    ),
    Row(
        "Table 3",
        "masstree as requests, p95",
        named("requests"),
        (3.26,),
        "33.44 ms to 10.25 by bvs",
        "p95",
    ),
    Row(
        "Table 3",
        "the same beside idle work, p95",
        named("requests-best-effort"),
        (1.78,),
        "21.28 ms to 11.95 by bvs",
        "p95",
    ),
)

_FIG15 = (
    Row("Figure 15", "1 thread that computes", computing(1), (1.82,), "the most, ivh against none"),
    Row("Figure 15", "4 threads that compute", computing(4), (), "ivh against none"),
    Row(
        "Figure 15",
        "parallel-dynamic, 16 threads",
        named("parallel-dynamic"),
        (1.17,),
        "mean at 16 threads, ivh against none",
    ),
    Row("Figure 15", "barrier-block, 16 threads", named("barrier-block"), (1.17,), "the same"),
    Row(
        "Table 4",
        "canneal as 1 thread that computes",
        computing(1),
        (1.17,),
        "ivh that wakes its target first against ivh that does not",
    ),
    Row(
        "Table 4",
        "canneal as parallel-dynamic, 16 threads",
        named("parallel-dynamic"),
        (1.24,),
        "the same",
    ),
)

_LEFT_IDLE = "the most, the bad vCPUs left idle against used"

PAPER = Paper(
    "vsched",
    "vSched (EuroSys 2025)",
    (
        _latency(2),
        _latency(16),
        Scenario(
            "vsched-fig3",
            f"honest{stops(5, range(4))}",
            (
                Row(
                    "Figure 3",
                    "1 thread that computes",
                    computing(1),
                    (2.0,),
                    "the thread moves itself every 4 ms against never",
                ),
            ),
            vcpus=4,
            part=("ivh",),
        ),
        Scenario(
            "vsched-fig4-straggler",
            "straggler",
            tuple(
                Row("Figure 4", f"{what}, one straggler", named(what), (1.43,), _LEFT_IDLE)
                for what in ("barrier-block", "parallel-static")
            ),
            part=("rwc",),
        ),
        Scenario(
            "vsched-fig4-stacked",
            "stacked",
            (
                Row(
                    "Figure 4",
                    "barrier-block, stacked in pairs",
                    named("barrier-block"),
                    (1.3,),
                    _LEFT_IDLE,
                ),
                Row(
                    "Figure 4",
                    "8 threads, idle work on one of each pair",
                    beside_idle_work("barrier-block", 8, range(0, 16, 2)),
                    (6.7,),
                    _LEFT_IDLE,
                ),
            ),
            part=("rwc",),
        ),
        Scenario(
            "vsched-fig11a",
            "asymmetric-capacity",
            (
                Row(
                    "Figure 11",
                    "4 threads that compute",
                    computing(4),
                    (1.32,),
                    "vcap against none",
                ),
            ),
            part=("capacity",),
        ),
        Scenario(
            "vsched-fig11b",
            "symmetric-50",
            (
                Row(
                    "Figure 11",
                    "4 threads, equal vCPUs",
                    computing(4),
                    (1.04,),
                    "vcap against none",
                ),
            ),
            part=("capacity",),
        ),
        Scenario(
            "vsched-fig12",
            "smt",
            (
                Row(
                    "Figure 12",
                    "16 threads that compute, 16 pairs of siblings",
                    computing(16),
                    (1.25, 1.45),
                    "cores in use, vtop against none",
                ),
            ),
            limit=NO_CACHES,
        ),
        Scenario(
            "vsched-fig14",
            f"honest{stops(8, range(8))}{stops(16, range(8, 16))}",
            _FIG14,
            vcpus=16,
            part=("bvs",),
        ),
        Scenario("vsched-fig15", "symmetric-50", _FIG15, part=("ivh",)),
        Scenario(
            "vsched-fig16",
            "changing",
            (
                Row(
                    "Figure 16",
                    "nginx through all phases",
                    named("nginx"),
                    (),
                    "vSched against CFS",
                ),
                Row(
                    "Figure 16",
                    "parallel-dynamic through all phases",
                    named("parallel-dynamic"),
                    (),
                    "vSched against CFS",
                ),
            ),
            part=("ivh", "rwc"),
            seconds=6.0,
        ),
        Scenario(
            "vsched-fig17",
            "neighbours",
            tuple(
                Row(
                    "Figure 17",
                    what,
                    named(what),
                    (1.15, 1.24),
                    "vSched against CFS, by neighbours",
                )
                for what in ("nginx", "parallel-dynamic")
            ),
            part=("ivh",),
            seconds=6.0,
        ),
        _whole("rcvm", "Figure 18", (1.69, 1.59), (1.6, 1.4)),
        _whole("hpvm", "Figure 19", (1.18, 1.13), (2.3, 1.5)),
    ),
    (
        Unshown("Figure 12, mixed work", "1.18 at most", f"{NO_CACHES}, and no memory bandwidth"),
        Unshown("Figure 13, last-level caches", "1.26 on average", NO_CACHES),
        Unshown(
            "Table 3, bvs without the state of vCPUs",
            "16.29 ms against 11.95 with it",
            "the policy cannot be told to ignore it; its rows are against no bvs",
        ),
    ),
)
