# SPDX-License-Identifier: GPL-2.0-only
"""The lab's end of a virtual clock, against an emulator that is played by a thread."""

import socket
import threading
from pathlib import Path

import pytest

from vlab import LabError, Vm, host, virtual_time, virtual_truth
from vlab.clock import VirtualClock


class Emulator:
    """Plays the emulator: `events` are (time in ns, call) that happen to the guest."""

    def __init__(self, path: Path, events=()):
        self.asked: list[str] = []
        self._now_ns = 0
        self._events = list(events)
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(path))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._line.makefile("r") as requests:
            for request in requests:
                self.asked.append(request.strip())
                word, *values = request.split()
                if word == "run":
                    self._run(int(values[0]))
                elif word == "late":
                    self._say("now 1\nok\n")
                elif word == "truth":
                    self._say("ok 2 5\n1 2 3 4 5\n6 7 8 9 10\n")
                elif word != "hold":
                    self._say("error There is no such thing.\n" if word == "shape" else "ok\n")

    def _run(self, until_ns: int) -> None:
        if self._events and not 0 <= until_ns < self._events[0][0]:
            self._now_ns, act = self._events.pop(0)
            self._say(f"held {self._now_ns} guest {act()}\n")
        elif until_ns >= 0:
            self._now_ns = until_ns
            self._say(f"held {until_ns} until 0\n")

    def _say(self, text: str) -> None:
        self._line.sendall(text.encode())


class Line:
    """The line to the guest."""

    frames = 0
    sent_bytes = 7


@pytest.fixture
def start(tmp_path):
    clocks = []

    def start(*events):
        clock = VirtualClock(tmp_path / "clock", guard_s=1)
        emulator = Emulator(tmp_path / "clock", events)
        assert clock.accept(5)
        clock.follow(Line())
        clocks.append(clock)
        return clock, emulator

    yield start
    for clock in clocks:
        clock.close()


def test_sleeping_takes_virtual_time_and_no_other(start):
    clock, emulator = start()
    clock.sleep(3600)
    clock.sleep(0.5)
    assert clock.now_ns() == 3_600_500_000_000
    assert emulator.asked[0] == "run 3600000000000 7"


def test_a_wait_ends_when_the_guest_says_so(start):
    ended = threading.Event()

    def end() -> int:
        ended.set()
        return 0

    clock, _ = start((2_000_000_000, end))
    assert clock.wait_for(threading.Condition(), ended.is_set, 10)
    assert clock.now_ns() == 2_000_000_000


def test_a_wait_that_is_in_vain_ends_at_its_time(start):
    clock, _ = start((1_000_000_000, lambda: 0), (2_000_000_000, lambda: 0))
    assert not clock.wait_for(threading.Condition(), lambda: False, 3)
    assert clock.now_ns() == 3_000_000_000


def test_of_two_who_wait_the_shorter_one_is_not_overslept(start):
    clock, _ = start()
    shorter = threading.Thread(target=clock.sleep, args=(1,))
    shorter.start()
    shorter.join()
    long = threading.Thread(target=clock.sleep, args=(5,))
    long.start()
    long.join()
    assert clock.now_ns() == 6_000_000_000


def test_the_emulators_sentence_is_passed_on(start):
    clock, _ = start()
    with pytest.raises(LabError, match="There is no such thing"):
        clock.ask("shape 0\n")


def test_a_time_that_comes_late_is_no_answer(start):
    clock, _ = start()
    assert clock.ask("late\n") == ["ok"]


def test_a_guest_that_stands_still_counts_as_hung(start):
    clock, _ = start()
    with pytest.raises(LabError, match="hangs"):
        clock.wait_for(threading.Condition(), lambda: False, None)


def test_the_truth_is_read_line_by_line(start):
    clock, _ = start()
    first, second = virtual_truth.read(clock)
    assert (first.run_ns, first.delay_ns, first.slices) == (1, 2, 3)
    assert (second.vcpu, second.run_ns) == (1, 6)


def test_periods_off_core_are_told_by_their_kind():
    log = ["10 in", "20 preempted", "35 in", "40 halted", "60 woken", "65 in"]
    of_vcpu = [f"{line.split()[0]} 0 0 {line.split()[1]}\n" for line in log]
    off = virtual_truth.off_core("".join(of_vcpu) + "70 0 4 in\n", 1)[0]
    assert off.preempted == [(20, 35)]
    assert off.asleep == [(40, 60)]
    assert off.woken == [(60, 65)]
    assert off.inactive == [(20, 35), (60, 65)]


def test_a_kernel_is_told_what_it_would_find_out_by_waiting():
    told = virtual_time.append("CONFIG_HZ_250=y\nCONFIG_HZ=250\n").split()
    assert "lpj=4000000" in told
    assert "cpuhp.parallel=0" in told
    assert not any(word.startswith("lpj=") for word in virtual_time.append("").split())


def test_only_the_largest_size_takes_another_machine():
    assert virtual_time.machine(255) == []
    assert virtual_time.machine(256) == ["-machine", "q35"]


def test_a_quantum_is_handed_on_if_one_is_asked_for():
    options = virtual_time.Options(quantum_ns=200)
    assert virtual_time.environment(options, Path("x"))["VT_QUANTUM_NS"] == "200"
    assert "VT_QUANTUM_NS" not in virtual_time.environment(virtual_time.Options(), Path("x"))


@pytest.mark.parametrize(("clock", "most"), [("virtual", 256), ("wall", 255)])
def test_a_vm_has_no_more_vcpus_than_its_machine(clock, most, monkeypatch):
    def refuse():
        raise LabError("this is past the check of the number")

    monkeypatch.setattr(host, "require_root", refuse)
    with pytest.raises(LabError, match="past the check"):
        Vm(vcpus=most, shape="honest" if clock == "virtual" else "floating:1", clock=clock)
    with pytest.raises(LabError, match=f"ask for 1 to {most}"):
        Vm(vcpus=most + 1, clock=clock)
