# SPDX-License-Identifier: GPL-2.0-only
"""Results on disk, their table, and the command line around them."""

import errno
import io
import json
from pathlib import Path

import pytest

from compare import arms, bpfcost, cli, options, page, report
from compare.progress import Progress
from compare.records import Journal, read
from vlab import LabError


def run_of(arm: str, seed: int, value: float, **more) -> dict:
    metrics = {"time": {"value": value, "unit": "s", "better": "lower"}}
    return {
        "kernel": "7.2",
        "shape": "floating:2",
        "vcpus": 4,
        "accel": "tcg",
        "paravirt_time": False,
        "clock": "wall",
        "ns_per_instruction": None,
        "settle_s": 12.0,
        "rehearsed": False,
        "versions": {"repository": "abc"},
        "date": "2026-11-21T05:00:00",
        "workload": "hackbench",
        "command": "hackbench -g 4",
        "baseline": "eevdf",
        "arms": ["eevdf", "scx_a"],
        "arm": arm,
        "seed": seed,
        "ok": True,
        "metrics": metrics,
    } | more


def some_runs(blocks: int = 10, **more) -> list[dict]:
    return [
        run_of(arm, seed, value, **more)
        for seed in range(blocks)
        for arm, value in (("eevdf", 4.0), ("eevdf'", 4.0), ("scx_a", 5.0))
    ]


def write(path: Path, runs: list[dict]) -> Path:
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return path


def test_what_is_written_is_read_again(tmp_path):
    journal = Journal(tmp_path / "out.jsonl")
    for run in some_runs(2):
        journal.add(run)
    assert read(tmp_path / "out.jsonl") == some_runs(2)


def test_a_torn_last_line_is_dropped_when_resuming(tmp_path):
    path = write(tmp_path / "out.jsonl", some_runs(1))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kernel": "7.')
    journal = Journal(path, resume=True)
    assert len(journal.records) == 3
    journal.add(run_of("eevdf", 1, 4.0))
    assert len(read(path)) == 4


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    path = write(tmp_path / "out.jsonl", some_runs(1))
    with pytest.raises(LabError, match="--resume") as refused:
        Journal(path)
    assert refused.value.exit_code == 64
    assert len(read(path)) == 3


@pytest.mark.parametrize("line", ["no json", "[]", '{"kernel": 1}'])
def test_a_file_of_something_else_is_refused(tmp_path, line):
    path = tmp_path / "other"
    path.write_text(line + "\n")
    with pytest.raises(LabError, match="line 1"):
        read(path)


@pytest.mark.parametrize("name", run_of("eevdf", 1, 1.0))
def test_a_record_that_lacks_something_is_refused_or_does_without(tmp_path, capsys, name):
    runs = some_runs()
    del runs[0][name]
    path = write(tmp_path / "out", runs)
    for more in ([], ["--html", str(tmp_path / "html")], ["--page", str(tmp_path / "page")]):
        code = cli.main(["report", str(path), *more])
        assert code == 0 or (code == 64 and "line 1 of" in capsys.readouterr().err)


def test_two_files_with_the_same_seeds_are_refused(tmp_path, capsys):
    paths = [str(write(tmp_path / name, some_runs())) for name in ("one", "two")]
    assert cli.main(["report", *paths]) == 64
    assert "hackbench under eevdf has run twice with seed 0" in capsys.readouterr().err


def test_a_full_disk_is_told_and_keeps_what_was_written(tmp_path):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    journal = Journal(tmp_path / "out.jsonl")
    journal.add(run_of("eevdf", 0, 4.0))
    journal._file = Full()
    with pytest.raises(LabError, match="No space left.*1 runs before.*--resume") as full:
        journal.add(run_of("eevdf", 1, 4.0))
    assert full.value.exit_code == 69
    assert len(read(tmp_path / "out.jsonl")) == 1


def p_values(runs: list[dict]) -> list[float]:
    return [row.p for table in report.tables(runs) for row in table.rows]


def test_the_correction_is_over_all_cells_of_a_page():
    one = p_values(some_runs())
    for other in ({"workload": "other"}, {"shape": "honest"}):
        assert p_values(some_runs() + some_runs(**other)) == pytest.approx([2 * one[0]] * 2)
    assert p_values(some_runs(page_cells=40)) == pytest.approx([40 * one[0]])


@pytest.mark.parametrize(
    "more, words",
    [
        ({"versions": {"repository": "def"}}, "mix builds .repository abc and repository def."),
        ({"settle_s": 1.0}, "mix settle times .12.0 and 1.0."),
        ({"arms": ["eevdf", "scx_b"]}, "mix arm sets .eevdf, scx_a and eevdf, scx_b."),
        ({"clock": "virtual", "ns_per_instruction": 1.0}, "mix clocks .wall and virtual."),
        ({"rehearsed": True}, "with and without a rehearsal"),
    ],
)
def test_runs_that_make_no_page_are_refused(tmp_path, capsys, more, words):
    mixed = some_runs() + some_runs(shape="honest", **more)
    with pytest.raises(LabError, match=words) as refused:
        report.render(mixed)
    assert refused.value.exit_code == 64
    assert cli.main(["report", str(write(tmp_path / "mixed", mixed))]) == 64
    assert "make no page; report one comparison at a time" in capsys.readouterr().err


def test_the_headline_counts_cells_and_names_the_worst():
    fast = [run | {"arm": "scx_b"} for run in some_runs() if run["arm"] == "scx_a"]
    for run in fast:
        run["metrics"] = {"time": run["metrics"]["time"] | {"value": 2.0}}
    runs = some_runs() + fast + some_runs(workload="other")
    by_arm = report.scores(report.tables(runs))
    assert by_arm["scx_b"].counts == (1, 0, 0, 0, 0)
    assert by_arm["scx_a"].counts == (0, 0, 2, 0, 0)
    assert by_arm["scx_a"].worst.ratio.ratio == pytest.approx(0.8)
    lines = [" ".join(line.split()) for line in report.render(runs).splitlines()]
    assert "scx_b 1 0 0 0 0 2.000 (1.999-2.001) hackbench, floating:2, 4 vCPUs" in lines


def test_a_latency_that_is_not_the_first_metric_has_no_verdict():
    runs = some_runs()
    for run in runs:
        run["metrics"] = run["metrics"] | {"p99": {"value": 1.0, "unit": "us", "better": "lower"}}
    first, second = report.tables(runs)[0].rows
    assert (first.verdict, second.verdict) == ("worse", "")
    assert report.scores(report.tables(runs))["scx_a"].cells == 1


def test_stolen_time_that_differs_between_arms_is_remarked():
    runs = [
        run | {"run_ns": [50], "run_delay_ns": [50 if run["arm"] == "scx_a" else 10]}
        for run in some_runs()
    ]
    assert "50% was stolen under scx_a and 17% under eevdf" in report.render(runs)
    assert "17%/50%" in report.render(runs)


def test_a_baseline_that_differs_from_itself_is_remarked():
    runs = some_runs()
    assert "not quiet" not in report.render(runs)
    for run in runs:
        if run["arm"] == "eevdf'":
            run["metrics"] = {"time": run["metrics"]["time"] | {"value": 6.0 + run["seed"] / 10}}
    assert "the machine was not quiet" in report.render(runs)


def test_neighbours_of_a_baseline_that_never_finished_are_not_remarked():
    runs = [
        run | ({"ok": False} if run["arm"] == "eevdf" else {"neighbours_run_ns": [60]})
        for run in some_runs(2, duration_s=1.0)
    ]
    assert "neighbours" not in report.render(runs)


def test_what_the_neighbours_lose_is_remarked():
    runs = [
        run | {"neighbours_run_ns": [30, 60 if run["arm"] == "scx_a" else 70], "duration_s": 1.0}
        for run in some_runs()
    ]
    assert "CPU time of the neighbours: -10% under scx_a" in report.render(runs)


def test_percentiles_of_all_runs_together_need_samples():
    runs = some_runs(latencies={"100": 900, "1000": 90, "20000": 10})
    few = report.percentiles(runs[:3])
    assert few["scx_a"] == {50: 100, 95: 1000, 99: 1000}
    all_runs = report.percentiles(runs)
    assert all_runs["eevdf"][99.9] == 20000
    assert report.distributions(runs)["eevdf"].total() == 20000, "the twin is the baseline too"


def test_the_page_of_results_tells_when_and_on_what():
    facts = {"cpu": "Some CPU", "cores": 2, "kernel": "6.18"}
    runs = some_runs(machine=facts, rehearsed=True)
    text = page.render(runs)
    for words in (
        *("2026-11-21", "Some CPU, 2 cores", "repository abc", "emulated", "for 1 cells"),
        *("each arm had 12 s to settle, and a run that does not count", "**0.800 (0.799-0.801)**"),
        *("## floating:2, 4 vCPUs, kernel 7.2 without PARAVIRT_TIME_ACCOUNTING, TCG, wall time",),
        *("| scx_a | 0 | 0 | 1 | 0 | 0 | 0.800", "2 % of the baseline"),
    ):
        assert words in text, words


def test_the_page_of_results_tells_how_many_cells_were_planned():
    assert "for 40 cells" in page.render(some_runs(page_cells=40))


def test_the_page_of_results_marks_what_is_level_and_what_is_not_certain():
    level, few = some_runs(), some_runs(3)
    for run in level:
        run["metrics"] = {"time": run["metrics"]["time"] | {"value": 4.0}}
    assert "| 1.000 (0.999-1.001) = |" in page.render(level)
    assert "| 0.800 (blocks: 3) |" in page.render(few)


def test_a_table_by_virtual_time_says_so():
    text = page.render(some_runs(clock="virtual", ns_per_instruction=1.0))
    assert "virtual time, 1 ns an instruction, baseline eevdf" in text and "emulated" not in text


def test_an_arm_in_a_vm_of_its_own_is_remarked_with_its_kernel_and_boot():
    vm = {"kernel": "6.12", "paravirt_time": True, "append": "cpuidle_haltpoll.force=1"}
    runs = [run | ({"arm_vm": vm} if run["arm"] == "scx_a" else {}) for run in some_runs()]
    assert (
        "scx_a: a VM of its own, kernel 6.12 with PARAVIRT_TIME_ACCOUNTING, booted with "
        "cpuidle_haltpoll.force=1." in report.render(runs)
    )


def test_the_bar_tells_how_far_it_is_and_takes_itself_away():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    progress = Progress(out)
    progress.begin(4)
    progress.tell("hackbench")
    progress.done("hackbench: 1 s")
    assert "1/4" in out.getvalue() and "left" in out.getvalue()
    progress.skip(1)
    progress.done("hackbench: 2 s")
    assert "2/3" in out.getvalue()
    progress.end()
    assert out.getvalue().endswith("\r\x1b[K")


def test_without_a_terminal_there_are_lines_only():
    out = io.StringIO()
    progress = Progress(out)
    progress.begin(2, done=1)
    progress.tell("hackbench")
    progress.done("hackbench: 1 s")
    assert out.getvalue() == "compare: going on after 1 runs\ncompare: hackbench: 1 s\n"


def test_the_table_has_a_row_per_arm_and_a_table_per_shape():
    runs = some_runs() + some_runs(shape="honest")
    text = report.render(runs)
    rows = [" ".join(line.split()) for line in text.splitlines() if line.startswith("hackbench")]
    assert len(rows) == 2
    assert "honest, 4 vCPUs, kernel 7.2 without PARAVIRT_TIME_ACCOUNTING, TCG, wall time" in text
    cells = "hackbench time (s) scx_a 4 5 0.800 (0.799-0.801) 1.000 (0.999-1.001)"
    assert rows[0].startswith(cells)
    assert rows[0].endswith(" 10 worse")
    assert "| hackbench | time (s) | scx_a | 4 | 5 |" in report.render(runs, markdown=True)


def test_blocks_that_lost_a_run_are_not_counted_as_whole():
    runs = some_runs(6)
    runs[0] |= {"ok": False, "metrics": {}, "failure": "it hung"}
    text = report.render(runs)
    assert "5 of 6" in text
    assert "1 runs of the baseline itself failed" in text


def test_nothing_but_failures_still_makes_a_table():
    runs = [run | {"ok": False, "metrics": {}, "failure": "x"} for run in some_runs(2)]
    assert "failed 2x" in report.render(runs)


def test_report_command(tmp_path, capsys):
    path = write(tmp_path / "out.jsonl", some_runs())
    assert cli.main(["report", str(path), "--markdown"]) == 0
    assert "| hackbench |" in capsys.readouterr().out
    assert cli.main(["report", str(tmp_path / "none")]) == 69


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--workload", "nope"], "no such command; choose from"),
        (["--workload", "true x", "--metric", "("], "correct it"),
        (["--arms", "eevdf,eevdf"], "two arms are called eevdf"),
        (["--arms", "eevdf:--flag"], "takes no arguments"),
        (["--blocks", "4", "--seeds", "1-3"], "not allowed with"),
        (["--seeds", "3-1"], "write 1-10"),
        (["--seeds", "1-999999999999"], "too many seeds"),
        (["--margin", "2"], "no number between 0 and 1"),
        (["--resume"], "--out"),
    ],
)
def test_bad_usage_is_a_sentence_and_64(capsys, argv, words):
    arguments = argv if "--arms" in argv else ["--arms", "eevdf", *argv]
    try:
        code = cli.main([*arguments, "--lab"])
    except SystemExit as usage:
        code = usage.code
    assert code == 64
    assert words in capsys.readouterr().err


def test_seeds():
    assert options.seeds("1-3") == [1, 2, 3]
    assert options.seeds("7,2-4,3") == [7, 2, 3, 4]


def test_arms():
    assert arms.parse("eevdf") == arms.Arm("eevdf")
    assert arms.parse("base=kernel") == arms.Arm("base")
    assert arms.parse("cfs") == arms.Arm("cfs", (), "6.1")
    assert arms.parse("eevdf+haltpoll") == arms.Arm("eevdf+haltpoll", (), "", arms.HALTPOLL_APPEND)
    assert arms.parse("a=/bin/sh+haltpoll@6.12:-e") == arms.Arm(
        "a", ("/bin/sh", "-e"), "6.12", arms.HALTPOLL_APPEND
    )
    assert arms.parse("eevdf@7.3") == arms.Arm("eevdf@7.3", (), "7.3")
    assert arms.parse("a=/bin/sh@6.12:-e") == arms.Arm("a", ("/bin/sh", "-e"), "6.12")
    assert arms.parse("x=/bin/sh:-c 'a b' --n=1") == arms.Arm(
        "x", ("/bin/sh", "-c", "a b", "--n=1")
    )
    assert arms.parse("/bin/sh:--flag").name == "/bin/sh:--flag"
    with pytest.raises(LabError) as missing:
        arms.parse("scx_there_is_no_such")
    assert missing.value.exit_code == 69
    with pytest.raises(LabError) as malformed:
        arms.parse("a=b=c")
    assert malformed.value.exit_code == 64


@pytest.mark.parametrize(
    "program, callback",
    [
        ("bpfland_enqueue", "enqueue"),
        ("vaware_select_c", "select_cpu"),
        ("bpfland_select_", "select_cpu"),
        ("bpfland_dispatc", "dispatch"),
        ("simple_init", "simple_init"),
    ],
)
def test_callbacks_are_known_by_shortened_names(program, callback):
    assert bpfcost.callback(program) == callback


def test_costs_are_of_the_scheduler_in_charge():
    cost = bpfcost.Cost
    before = {1: ("running", cost(10, 5000)), 2: ("running", cost(4, 400))}
    after = {2: ("running", cost(6, 700)), 3: ("running", cost(1, 100)), 4: ("tick", cost(0, 0))}
    assert bpfcost.difference(before, after) == {"running": cost(3, 400)}
