# SPDX-License-Identifier: GPL-2.0-only
"""What containers get, and what that costs.

Four vCPUs by virtual time, a VM for each seed, first under EEVDF, then under scx_vaware. Groups
have more work than they are due. What they get is counted in turns of a loop, so that time that the
hypervisor stole is no part of it. A cell has the median of the seeds and, in parentheses, the
least and the most.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import geometric_mean, median

from .cases import DEPTHS, HONEST, SHARES
from .run import ARMS

SHARE_MIN = 0.01  # of the VM: what is due less is judged by parts of the VM, not of itself
FILE = "docs/results/containers.md"
NAMES = {"eevdf": "EEVDF", "scx_vaware": "scx_vaware"}
HEADINGS = {
    "shares": f"""\
## Weights

The error of a group is what it got against its part by weights, in percent of that. The worst
group of each run counts, of those that are due {100 * SHARE_MIN:g} % of the VM or more. What the
others got too much or too little is in percent of the VM.
""",
    "limits": """\
## Limits

`cpu.max` in percent of a vCPU, with a period of 100 ms. The error is in percent of the limit: on
honest vCPUs that of CPU time, on stolen ones that of the work done, as EEVDF in this kernel counts
stolen time as used. The longest wait is that of any task for its next turn, in seconds.
""",
    "costs": """\
## Depth

The time of a workload below so many cgroups with weights, as a ratio to none: 1.01 is 1 % slower.
""",
}


def table(records: Sequence[dict]) -> str:
    """All that was measured, as markdown."""
    makers = {"shares": _shares, "limits": _limits, "costs": _costs}
    told = []
    for part, make in makers.items():
        if mine := [record for record in records if record["part"] == part]:
            told += [HEADINGS[part], _of(mine), "", *make(mine), ""]
    return "\n".join(told).rstrip()


def builds(records: Iterable[dict]) -> list[str]:
    """Of which commits these were measured, in that order."""
    return list(dict.fromkeys(record["versions"]["repository"] for record in records))


def _of(records: Sequence[dict]) -> str:
    kernels = sorted({record["kernel"] for record in records})
    return f"Kernel {', '.join(kernels)}, build {', '.join(builds(records))}."


def page(records: Sequence[dict], facts: dict) -> str:
    """The page of these records, which are not empty; `facts` is its entry in the manifest."""
    title, _, meaning = __doc__.partition("\n\n")
    return f"""\
# {title.rstrip(".")}

Written by `{facts["command"]}`.

{meaning}
- {facts["date"]}, kernel {", ".join(facts["kernels"])}, {facts["ns_per_instruction"]} ns an \
instruction, seeds {facts["seeds"]}, build {", ".join(facts["builds"])}

{table(records)}
"""


def errors(record: dict) -> tuple[float, float]:
    """Of a record of shares: the worst error in percent of what was due, and of the VM.

    The second is that of groups that are due less than SHARE_MIN.
    """
    due = next(case.due for case in SHARES if case.name == record["case"])
    large, small = [0.0], [0.0]
    for path, got in record["got"].items():
        if due[path] >= SHARE_MIN:
            large.append(100 * abs(got / due[path] - 1))
        else:
            small.append(100 * abs(got - due[path]))
    return max(large), max(small)


def _excess(record: dict) -> float:
    """Of a record of limits: what was got above the limit, in percent of it."""
    got = record["vcpus"] if record["shape"] == HONEST else record["work"]
    return 100 * (100 * got / record["percent"] - 1)


def _spread(values: Sequence[float], form: str) -> str:
    middle, low, high = (
        format(value, form) for value in (median(values), min(values), max(values))
    )
    return f"{middle} ({low}, {high})" if len(values) > 1 else middle


def _cells(records: Iterable[dict], of: Callable[[dict], float], form: str) -> list[str]:
    """A cell for each arm."""
    by_arm = {arm: [of(record) for record in records if record["arm"] == arm] for arm in ARMS}
    return [_spread(values, form) if values else "" for values in by_arm.values()]


def _head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|---|" + "---|" * (len(columns) - 1)]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _both(what: str) -> list[str]:
    return [f"{what}, {NAMES[arm]}" for arm in ARMS]


def _shares(records: list[dict]) -> list[str]:
    lines = _head("groups", *_both("error, %"), *_both("of the VM, %"))
    for name in dict.fromkeys(record["case"] for record in records):
        mine = [record for record in records if record["case"] == name]
        large = _cells(mine, lambda record: errors(record)[0], ".1f")
        small = _cells(mine, lambda record: errors(record)[1], ".2f")
        lines.append(_row(name, *large, *small))
    return lines


def _limits(records: list[dict]) -> list[str]:
    lines = _head("vCPUs", "tasks", "limit, %", *_both("error, %"), *_both("longest wait, s"))
    cases = dict.fromkeys(
        (record["shape"], record["case"], record["percent"]) for record in records
    )
    for shape, name, percent in cases:
        mine = [
            r for r in records if (r["shape"], r["case"], r["percent"]) == (shape, name, percent)
        ]
        error = _cells(mine, lambda record: _excess(record), "+.1f")
        waited = _cells(mine, lambda record: record["waited_s"], ".2f")
        vcpus = "honest" if shape == HONEST else "half stolen"
        lines.append(_row(vcpus, name, f"{percent}", *error, *waited))
    return lines


def _costs(records: list[dict]) -> list[str]:
    lines = _head("workload", "scheduler", *(f"depth {depth}" for depth in DEPTHS[1:]))
    for name in dict.fromkeys(record["case"] for record in records):
        for arm in ARMS:
            times = {
                (record["seed"], record["depth"]): record["s"]
                for record in records
                if record["case"] == name and record["arm"] == arm
            }
            seeds = sorted({seed for seed, _ in times})
            cells = []
            for depth in DEPTHS[1:]:
                ratios = [
                    times[seed, depth] / times[seed, 0] for seed in seeds if (seed, depth) in times
                ]
                spread = f" ({min(ratios):.3f}, {max(ratios):.3f})" if ratios else ""
                cells.append(f"{geometric_mean(ratios):.3f}{spread}" if ratios else "")
            lines.append(_row(name, NAMES[arm], *cells))
    return lines
