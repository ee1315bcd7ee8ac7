# SPDX-License-Identifier: GPL-2.0-only
"""Truth: trace text, duty logs and differences, without a VM."""

import os

import pytest

from vlab import LabError, VcpuTruth, machine, tracing, truth
from vlab.shapes import Duty

TRACE = """\
# tracer: nop
   CPU 0/TCG-41 [000] d 100.000100: sched_switch: prev_comm=CPU 0/TCG prev_pid=41 prev_prio=120 \
prev_state=R+ ==> next_comm=hog next_pid=9 next_prio=120
   hog-9 [000] d 100.020100: sched_switch: prev_comm=hog prev_pid=9 prev_prio=120 \
prev_state=R ==> next_comm=CPU 0/TCG next_pid=41 next_prio=120
   CPU 0/TCG-41 [000] d 100.030000: sched_switch: prev_comm=CPU 0/TCG prev_pid=41 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
      qemu-8 [001] d..2. 100.050000: sched_wakeup: comm=CPU 0/TCG pid=41 prio=120 target_cpu=000
   swapper-0 [000] d 100.050250: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=CPU 0/TCG next_pid=41 next_prio=120
"""
SPAN = 99_000_000_000, 101_000_000_000


def test_preemption_and_wakeup_delay_are_inactive_and_sleep_is_not():
    thread = tracing.off_core(TRACE.splitlines(), [41], SPAN)[41]
    assert thread == tracing.OffCore(
        preempted=[(100_000_100_000, 100_020_100_000)],
        woken=[(100_050_000_000, 100_050_250_000)],
        asleep=[(100_030_000_000, 100_050_000_000)],
    )
    assert thread.inactive == thread.preempted + thread.woken


def test_what_is_under_way_when_a_recording_begins_or_ends_is_cut_there():
    lines = TRACE.splitlines()
    comes, sleeps, wakes = lines[2:3], lines[3:4], lines[4:5]
    assert tracing.off_core(comes, [41, 42], SPAN) == {
        41: tracing.OffCore(preempted=[(SPAN[0], 100_020_100_000)]),
        42: tracing.OffCore(),
    }
    assert tracing.off_core(wakes, [41], SPAN)[41] == tracing.OffCore(
        asleep=[(SPAN[0], 100_050_000_000)], woken=[(100_050_000_000, SPAN[1])]
    )
    assert tracing.off_core(sleeps, [41], SPAN)[41] == tracing.OffCore(
        asleep=[(100_030_000_000, SPAN[1])]
    )


def test_a_return_to_user_mode_ends_a_period_whose_end_was_not_recorded():
    returns = "   CPU 0/TCG-41    [000] ..... 100.020200: rseq_update: cpu_id=0 node_id=0 mm_cid=1"
    leaves, _, sleeps = TRACE.splitlines()[1:4]
    thread = tracing.off_core([leaves, returns, sleeps], [41], SPAN)[41]
    assert thread.preempted == [(100_000_100_000, 100_020_200_000)]
    assert thread.asleep == [(100_030_000_000, SPAN[1])]


def test_a_duty_log_counts_from_where_the_recording_began(tmp_path, monkeypatch):
    def without_tracefs(*_):
        raise OSError("none here")

    monkeypatch.setattr(truth, "SwitchRecorder", without_tracefs)
    duty, log = Duty(3, 20, 30, 0), tmp_path / "duty.log"
    log.write_text("10 30\n")
    recorder = truth.Recorder("run", [7, 8], ((3,), (5,)), {duty: log})
    recorder.start()
    with log.open("a") as more:
        more.write("60 80\n110 130\n160 1")
    recorder.stop()
    assert recorder.result.source == "duty log"
    assert recorder.result.periods == {0: [(60, 80), (110, 130)]}


def test_without_any_source_there_are_no_periods(monkeypatch, capsys):
    def without_tracefs(*_):
        raise OSError("none here")

    monkeypatch.setattr(truth, "SwitchRecorder", without_tracefs)
    recorder = truth.Recorder("run", [7], ((3,),), {})
    recorder.start()
    recorder.stop()
    assert recorder.result.periods is None
    assert "duty shape" in capsys.readouterr().err


def test_a_vm_that_is_gone_is_told():
    (own,) = truth.read(os.getpid(), [os.getpid()])
    assert own.run_ns > 0
    no_thread = 1 << 30
    with pytest.raises(LabError, match="vCPU 1 is gone") as gone:
        truth.read(os.getpid(), [os.getpid(), no_thread])
    assert gone.value.exit_code == 75


def test_vcpus_are_found_among_threads_that_come_and_go(tmp_path):
    for tid, name in (("12", "CPU 1/TCG"), ("11", "CPU 0/TCG"), ("10", "qemu"), ("13", None)):
        (tmp_path / tid).mkdir()
        if name:
            (tmp_path / tid / "comm").write_text(name + "\n")
    assert machine.vcpu_tids(tmp_path) == [11, 12]
    assert machine.vcpu_tids(tmp_path / "gone") == []


def test_vcpus_that_run_in_turns_share_a_thread(tmp_path):
    (tmp_path / "11").mkdir()
    (tmp_path / "11" / "comm").write_text("ALL CPUs/TCG\n")
    assert machine.vcpu_tids(tmp_path) == [11]


def test_events_beside_the_span_of_a_recording_are_not_in_it():
    at_ns = 100_010_000_000
    late = tracing.off_core(TRACE.splitlines(), [41], (at_ns, SPAN[1]))[41]
    assert late.preempted == [(at_ns, 100_020_100_000)]
    early = tracing.off_core(TRACE.splitlines(), [41], (SPAN[0], at_ns))[41]
    assert early.inactive == [(100_000_100_000, at_ns)] and early.asleep == []
    comes = TRACE.splitlines()[2:3]
    assert tracing.off_core(comes, [41], (100_030_000_000, SPAN[1]))[41].inactive == []


def test_difference_is_what_happened_in_between():
    before = [VcpuTruth(0, 7, 100, 50, 3)]
    after = [VcpuTruth(0, 7, 400, 150, 5)]
    assert truth.difference(before, after) == [VcpuTruth(0, 7, 300, 100, 2)]
    assert "25.0" in truth.table(truth.difference(before, after))
