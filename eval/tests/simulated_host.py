# SPDX-License-Identifier: GPL-2.0-only
"""Drive the simulated host (eval/lib/vlab/vtime/host) as the emulator does, without a guest."""

import ctypes
import functools
import heapq
import subprocess
import tempfile
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parents[1] / "lib" / "vlab" / "vtime" / "host"
US, MS = 1_000, 1_000_000
NEVER = 2**63 - 1
RUN, LIMIT, IDLE = range(3)
WHY = (
    *("in", "preempted", "halted", "throttled", "unthrottled", "woken", "migrated"),
    *("poll start", "poll end"),
)


class Turn(Structure):
    _fields_ = [("vcpu", c_int), ("pcpu", c_int), ("now_ns", c_int64), ("work_ns", c_int64)]


class Truth(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("ran_ns", "stolen_ns", "polled_ns", "overhead_ns")),
        *((name, c_int64) for name in ("slices", "halts", "migrations")),
        *(("pcpu", c_int), ("on_pcpu", c_bool), ("wants", c_bool)),
    ]


class Costs(Structure):
    _fields_ = [
        (name, c_int64)
        for name in (
            *("halt_ns", "wake_ns", "wake_polled_ns", "host_switch_ns"),
            *("ipi_ns", "ipi_latency_ns", "timer_ns"),
        )
    ]


class Event(NamedTuple):
    now_ns: int
    pcpu: int
    entity: int
    why: str


OnSwitch = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_int, c_int, c_int)


@functools.cache
def library() -> ctypes.CDLL:
    """The host, compiled with checks of undefined behavior, which end the test."""
    folder = tempfile.mkdtemp(prefix="simulated-host-")
    binary = Path(folder) / "host.so"
    checks = ["-fsanitize=undefined", "-fno-sanitize-recover"]
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *checks]
    subprocess.run(["gcc", *flags, "-o", binary, *sorted(SOURCES.glob("*.c")), "-lm"], check=True)
    lib = ctypes.CDLL(str(binary))
    for name, result, *arguments in (
        ("new", c_void_p, c_int, c_uint64),
        ("free", None, c_void_p),
        ("shape", c_int, c_void_p, c_char_p, c_int64, c_char_p, ctypes.c_size_t),
        ("wake", None, c_void_p, c_int, c_int64),
        ("halt", None, c_void_p, c_int, c_int64),
        ("poll_control", None, c_void_p, c_int, c_bool),
        ("next", c_int, c_void_p, c_int64, POINTER(Turn)),
        ("ran", None, c_void_p, c_int, c_int64, c_int64),
        ("frontier_ns", c_int64, c_void_p),
        ("advance", None, c_void_p, c_int64),
        ("pause", None, c_void_p, c_int64),
        ("truth", c_bool, c_void_p, c_int, POINTER(Truth)),
        ("competitor", c_char_p, c_void_p, c_int),
        ("on_switch", None, c_void_p, OnSwitch, c_void_p),
        ("nr_pcpus", c_int, c_void_p),
        ("costs", POINTER(Costs), c_void_p),
        ("halt_poll_ns", c_int64, c_void_p, c_int),
        ("nr_events", c_int64, c_void_p),
    ):
        function = getattr(lib, f"vt_host_{name}")
        function.restype, function.argtypes = result, arguments
    return lib


class ShapeError(Exception):
    pass


class Host:
    """A host whose vCPUs do what their lives say: a life yields (work_ns, sleep_ns) pairs.

    A vCPU without a life is halted. Costs are off unless the shape says otherwise.
    """

    def __init__(
        self,
        vcpus: int,
        shape: str = "",
        seed: int = 1,
        quantum_ns: int = 20_000,
        turn_cost_ns: int = 0,
    ):
        self.lib = library()
        self.handle = self.lib.vt_host_new(vcpus, seed)
        assert self.handle
        self.vcpus = vcpus
        self.quantum_ns, self.turn_cost_ns = quantum_ns, turn_cost_ns
        self.events: list[Event] = []
        self._call = OnSwitch(
            lambda _, now, pcpu, entity, why: self.events.append(Event(now, pcpu, entity, WHY[why]))
        )
        self.lib.vt_host_on_switch(self.handle, self._call, None)
        self.lives: dict[int, Iterator[tuple[int, int]]] = {}
        self.left: dict[int, int] = {}
        self.sleep: dict[int, int] = {}
        self.worked = [0] * vcpus
        self.turns = 0
        self.timers: list[tuple[int, int]] = []
        if shape:
            self.shape(shape)

    def __del__(self):
        if getattr(self, "handle", None):
            self.lib.vt_host_free(self.handle)

    def shape(self, text: str, plain: bool = False) -> None:
        """Replace the shape. Without costs, unless it has some or is to be taken as it is."""
        error = ctypes.create_string_buffer(300)
        if "costs=" not in text and not plain:
            text = "host costs=none\n" + text
        if self.lib.vt_host_shape(self.handle, text.encode(), self.now_ns, error, 300):
            raise ShapeError(error.value.decode())

    @property
    def now_ns(self) -> int:
        return self.lib.vt_host_frontier_ns(self.handle)

    def live(self, vcpu: int, life: Iterator[tuple[int, int]] | None = None, at: int = 0) -> None:
        """Let the vCPU begin its life (default: work for ever) at a time."""
        self.lives[vcpu] = iter(((NEVER, 0),)) if life is None else life
        self._next_step(vcpu)
        heapq.heappush(self.timers, (max(at, self.now_ns), vcpu))

    def _next_step(self, vcpu: int) -> bool:
        step = next(self.lives[vcpu], None)
        if step:
            self.left[vcpu], self.sleep[vcpu] = step
        return step is not None

    def run(self, until_ns: int) -> None:
        """Let the host come to this time."""
        turn = Turn()
        while True:
            limit = min(until_ns, self.timers[0][0] if self.timers else NEVER)
            found = self.lib.vt_host_next(self.handle, limit, byref(turn))
            if found == RUN:
                self._turn(turn)
                continue
            if found == IDLE:
                self.lib.vt_host_advance(self.handle, limit)
            if self.timers and self.timers[0][0] <= limit:
                at, vcpu = heapq.heappop(self.timers)
                self.lib.vt_host_wake(self.handle, vcpu, at)
            elif limit == until_ns:
                return

    def _turn(self, turn: Turn) -> None:
        vcpu = turn.vcpu
        self.turns += 1
        work = min(turn.work_ns, self.quantum_ns, self.left[vcpu])
        self.lib.vt_host_ran(self.handle, vcpu, work, self.turn_cost_ns)
        self.worked[vcpu] += work
        self.left[vcpu] -= work if self.left[vcpu] != NEVER else 0
        if self.left[vcpu]:
            return
        now = turn.now_ns + work  # close enough: its pCPU may be slower
        sleep = self.sleep[vcpu]
        self.lib.vt_host_halt(self.handle, vcpu, now)
        if self._next_step(vcpu):
            heapq.heappush(self.timers, (now + sleep, vcpu))

    def truth(self, entity: int) -> Truth:
        truth = Truth()
        assert self.lib.vt_host_truth(self.handle, entity, byref(truth))
        return truth

    def competitor(self, n: int) -> Truth:
        return self.truth(self.vcpus + n)

    def pause(self, ns: int) -> None:
        self.lib.vt_host_pause(self.handle, ns)

    def poll_control(self, vcpu: int, enabled: bool) -> None:
        self.lib.vt_host_poll_control(self.handle, vcpu, enabled)

    def halt_poll_ns(self, vcpu: int) -> int:
        return self.lib.vt_host_halt_poll_ns(self.handle, vcpu)

    def nr_events(self) -> int:
        return self.lib.vt_host_nr_events(self.handle)

    def costs(self) -> Costs:
        return self.lib.vt_host_costs(self.handle).contents

    def competitors(self) -> list[str]:
        names = []
        while name := self.lib.vt_host_competitor(self.handle, len(names)):
            names.append(name.decode())
        return names
