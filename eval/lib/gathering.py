# SPDX-License-Identifier: GPL-2.0-only
"""How many vCPUs the policy gather leaves open, and its factors rho and eta, while work changes.

Gleaner's figures show them over time, too. A lab VM serves requests, of another kind every phase.
The daemon's metrics are read twice a second, and drawn as SVG.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import manifest
import svg
from compare.arms import Arm, ArmFailed, in_charge
from vlab import LabError, Vm, tool, virtual_time
from vlab.clock import VIRTUAL
from vlab.errors import EX_FAILED, EX_USAGE
from workloads import programs

DESCRIPTION = """\
Runs light work, longer requests, and light work again in a lab VM with the policy gather alone,
and draws the number of open vCPUs, rho and eta.
"""
PICTURE = "docs/results/gather.svg"
BINARY = "/tmp/scx_vaware"
ARM = Arm("gather", (BINARY, "--policies", "gather"))
VCPUS = 8
SEED = 1
NS_PER_INSTRUCTION = 2
BOOTED_S = 10
SETTLE_S = 10  # until all vCPUs are known
SAMPLE_S = 0.5
LIMIT_S = 300
METRICS = "curl -sf localhost:9817/metrics"
SERIES = {
    "open": "scx_vaware_open_vcpus",
    "rho": 'scx_vaware_gather_factor_ratio{factor="rho"}',
    "eta": 'scx_vaware_gather_factor_ratio{factor="eta"}',
}


@dataclass(frozen=True)
class Phase:
    """So many requests a second, of so many us each."""

    per_s: int
    us: int
    seconds: int

    @property
    def told(self) -> str:
        return f"{self.per_s} requests/s of {self.us} us"


PHASES = (Phase(4000, 20, 14), Phase(1000, 1000, 14), Phase(4000, 20, 14))


@dataclass(frozen=True)
class Sample:
    """What the metrics said at a time, in seconds from the first request."""

    s: float
    open: float
    rho: float
    eta: float


# Drawing: a panel for the vCPUs above one for the factors.
WIDTH, LEFT, RIGHT = 860, 60, 16
TOP, PANEL_H, GAP, FOOT = 46, 110, 30, 44
FACTOR_MIN = 0.001  # drawn as the least
LIGHT = """\
.grid { stroke: #d8dee4; }
.change { stroke: #8c959f; stroke-dasharray: 3 3; }
.open, .rho, .eta { fill: none; stroke-width: 2; stroke: #2da44e; }
.rho { stroke: #0969da; }
.eta { stroke: #bc4c00; stroke-dasharray: 6 3; }
"""
DARK = """\
  .grid { stroke: #30363d; }
  .open { stroke: #3fb950; }
  .rho { stroke: #58a6ff; }
  .eta { stroke: #f0883e; }
"""


def picture(samples: Sequence[Sample], conditions: str) -> str:
    """The samples over time, with `conditions` as the last line."""
    seconds = sum(phase.seconds for phase in PHASES)
    height = TOP + 2 * PANEL_H + GAP + FOOT

    def x(s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(s, seconds) / seconds

    least = min(sample.open for sample in samples)
    told = f"gather leaves {least:g} to {VCPUS} of {VCPUS} vCPUs open, as work changes"
    low = TOP + PANEL_H + GAP
    out = [svg.opening(WIDTH, height, told, svg.style(LIGHT, DARK))]
    begin = 0
    for phase in PHASES:
        out.append(svg.text(x(begin) + 4, 16, phase.told, "small"))
        out.append(f'<path class="change" d="M{x(begin):.1f} 22V{low + PANEL_H}"/>')
        begin += phase.seconds
    out += _panel(TOP, f"{VCPUS}", "0", "open vCPUs")
    out.append(_line("open", [(x(each.s), each.open / VCPUS) for each in samples], TOP))
    out += _panel(low, "1", f"{FACTOR_MIN:g}", "rho, eta (dashed)")
    for name in ("rho", "eta"):
        points = [(x(each.s), _height(getattr(each, name))) for each in samples]
        out.append(_line(name, points, low))
    for s in range(0, seconds + 1, 7):
        out.append(svg.text(x(s), low + PANEL_H + 16, f"{s} s", "small middle"))
    return "\n".join([*out, svg.text(14, height - 6, conditions, "small"), "</svg>"]) + "\n"


def _height(factor: float) -> float:
    """Of a factor in its panel, 0 to 1: by its order of size."""
    return 1 - math.log(max(factor, FACTOR_MIN)) / math.log(FACTOR_MIN)


def _panel(top: float, most: str, least: str, name: str) -> Iterator[str]:
    for y, told in ((top, most), (top + PANEL_H, least)):
        yield f'<path class="grid" d="M{LEFT} {y:g}H{WIDTH - RIGHT}"/>'
        yield svg.text(LEFT - 8, y + 4, told, "small end")
    yield svg.text(LEFT + 4, top - 4, name, "head")


def _line(kind: str, points: Sequence[tuple[float, float]], top: float) -> str:
    """Values from 0 to 1 that hold until the next one is read."""
    path, y = "", None
    for at, value in points:
        new = top + PANEL_H * (1 - value)
        path += f"M{at:.1f} {new:.1f}" if y is None else f"H{at:.1f}V{new:.1f}"
        y = new
    return f'<path class="{kind}" d="{path}"/>'


def parse(page: str, s: float) -> Sample:
    """A sample of a metrics page. Raises LabError (1) where a series is missing."""
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    try:
        return Sample(s, **{name: float(values[series]) for name, series in SERIES.items()})
    except KeyError as why:
        raise LabError(f"the daemon does not tell {why.args[0]}", EX_FAILED) from None


def record(vm: Vm, say: Callable[[str], None]) -> list[Sample]:
    """Run the phases under the scheduler, and read the metrics meanwhile."""
    samples, began_ns = [], vm.clock.now_ns()
    for phase in PHASES:
        say(phase.told)
        until_ns = vm.clock.now_ns() + phase.seconds * 10**9
        vm.spawn(f"{programs.path('requests')} {phase.per_s} {phase.us} {VCPUS} {phase.seconds}")
        while vm.clock.now_ns() < until_ns:
            page = vm.run(METRICS, LIMIT_S)
            samples.append(parse(page.output, (vm.clock.now_ns() - began_ns) / 1e9))
            vm.sleep(SAMPLE_S)
    return samples


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    parser = tool.make_parser("gathering", DESCRIPTION)
    parser.add_argument("--out", type=Path, default=PICTURE, help=f"default {PICTURE}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what was read")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw this, and run nothing")
    parser.add_argument("--kernel", help="see vlab kernels")
    options = parser.parse_args(argv)
    return tool.run("gathering", lambda: _draw(options))


def _draw(options: argparse.Namespace) -> None:
    told = _read(options.draw) if options.draw else _measured(options.kernel)
    if options.json:
        options.json.write_text(json.dumps(told) + "\n")
    facts = told["facts"]
    conditions = (
        f"{VCPUS} honest vCPUs, scx_vaware {facts['version']}, repository {facts['build']}, "
        f"{facts['date']}, kernel {facts['kernels'][0]}, virtual time, "
        f"{facts['ns_per_instruction']} ns an instruction"
    )
    samples = [Sample(**each) for each in told["samples"]]
    manifest.write(options.out, picture(samples, conditions), facts)


def _read(file: Path) -> dict:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as why:
        raise LabError(f"{file} cannot be read ({why}); name one of --json", EX_USAGE) from None


def _measured(kernel: str | None) -> dict:
    programs.build("requests")
    virtual = virtual_time.Options(SEED, NS_PER_INSTRUCTION)
    with Vm(kernel, VCPUS, shape="honest", clock=VIRTUAL, virtual=virtual) as vm:
        vm.sleep(BOOTED_S)
        vm.put(tool.built("release/scx_vaware"), BINARY)
        version = vm.run(f"{BINARY} --version").output.split()[-1]
        try:
            with in_charge(vm, ARM, SETTLE_S) as charge:
                samples = record(vm, lambda text: print(f"gathering: {text}", flush=True))
                charge.check()
        except ArmFailed as why:
            raise LabError(f"{why}; it said: {why.output}", EX_FAILED) from None
    facts = manifest.of_vm(version, vm.kernel.release, SEED, NS_PER_INSTRUCTION)
    facts = {"command": "make gathering"} | facts
    return {"facts": facts, "samples": [asdict(sample) for sample in samples]}
