# SPDX-License-Identifier: GPL-2.0-only
"""The papers' experiments: that each can run, and that the page has all of them and reads well."""

import re
from pathlib import Path

import pytest

import manifest
from compare.arms import Policies, policies
from papers import catalogue, page, run
from papers.catalogue import PAPERS
from papers.cli import main
from papers.loads import beside_idle_work, computing, named, startup
from vlab import LabError, vtime_presets
from vlab.vtime_shape import describe
from workloads import ParseError, Size

REPO = Path(__file__).parents[2]
SCENARIOS = list(catalogue.scenarios().values())
POLICIES = Policies(["bvs", "rescue", "rwc", "capacity", "ivh"], ["retain", "gather", "reserve"])
ESTIMATE = re.compile(r"-|(\d+\.\d\d)( \((\d+\.\d\d)-(\d+\.\d\d)\))?( \([a-z, ]+\))?")


def a_run(scenario, arm, seed, value, **more):
    """A run of the scenario's first row."""
    workload = scenario.rows[0].load(Size())
    metrics = {
        metric.name: {"value": value, "unit": metric.unit, "better": metric.better}
        for metric in workload.metrics
    }
    facts = {
        **{"kernel": "7.2", "paravirt_time": True, "shape": scenario.shape, "vcpus": 16},
        **{"accel": "virtual", "arms": ["eevdf", "scx_vaware"], "baseline": "eevdf"},
        **{"versions": {"repository": "abc1234"}, "settle_s": 12, "rehearsed": True},
        **{"clock": "virtual", "ns_per_instruction": 4, "date": "2026-11-23T20:00:00"},
        **{"seed": seed, "workload": workload.name, "arm": arm, "ok": True, "metrics": metrics},
    }
    return facts | more


def rows_of(text):
    """The cells of each row of the page's tables of experiments."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    wide = len(page.HEADER) + len(page.SHOWN) - 1  # an empty note is cut off
    return [[each.strip() for each in row] for row in rows if len(row) >= wide]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_scenario_has_a_machine_workloads_and_arms(scenario):
    preset = vtime_presets.find(scenario.shape, scenario.vcpus)
    assert describe(preset.phases, preset.vcpus)
    size = Size("virtual", preset.vcpus, preset.vcpus, 1.0, 4)
    for row in scenario.rows:
        load = row.load(size)
        assert row.metric in ["", *(metric.name for metric in load.metrics)]
        # The page looks for runs without knowing the machine.
        assert load.name == row.load(Size()).name
        assert all(value > 0 for value in row.paper) and len(row.paper) <= 2
    texts = run.arm_texts(scenario, POLICIES)
    assert texts[:2] == ["eevdf", "scx_vaware"]
    assert any(text.startswith(("without-", "with-")) for text in texts) == bool(scenario.part)


def test_scenarios_and_their_rows_have_names_of_their_own():
    assert len(SCENARIOS) == sum(len(paper.scenarios) for paper in PAPERS)
    names = [page.row_name(each, row) for each in SCENARIOS for row in each.rows]
    assert len(set(names)) == len(names)
    for paper in PAPERS:
        assert all(each.name.startswith(f"{paper.key}-") for each in paper.scenarios)


def test_a_part_is_judged_against_all_policies_but_it():
    texts = run.arm_texts(catalogue.scenarios()["vsched-fig15"], POLICIES)
    kept = "bvs,rescue,rwc,capacity"
    assert texts == ["eevdf", "scx_vaware", f"without-ivh=scx_vaware:--policies {kept}"]


def test_a_part_that_is_not_in_all_is_judged_beside_it():
    texts = run.arm_texts(catalogue.scenarios()["coordinated-4"], POLICIES)
    assert texts == ["eevdf", "scx_vaware", "with-reserve=scx_vaware:--policies all,reserve"]


def test_the_program_tells_which_policies_are_in_all():
    told = policies()
    assert "ivh" in told.usual and "reserve" in told.others
    assert not set(told.usual) & set(told.others)


def test_a_policy_that_is_gone_is_told():
    with pytest.raises(LabError, match="no policy ivh"):
        run.arm_texts(catalogue.scenarios()["vsched-fig15"], Policies(["bvs"], []))


def test_scenarios_are_chosen_by_name_or_how_it_begins():
    assert [each.name for each in catalogue.chosen("irs-fig10-1")] == ["irs-fig10-1"]
    both = [each.name for each in catalogue.chosen("irs-fig13,vsched-fig4")]
    assert both == ["irs-fig13", "vsched-fig4-straggler", "vsched-fig4-stacked"]
    assert catalogue.chosen("") == SCENARIOS
    with pytest.raises(LabError, match="no scenario 'vsched-fig99'"):
        catalogue.chosen("vsched-fig99")


def test_rows_with_the_same_work_share_its_runs():
    found = run.workloads(catalogue.scenarios()["vsched-fig14"], Size())
    names = [workload.name for workload in found]
    assert sorted(names) == sorted(set(names))
    assert set(names) <= {"requests", "requests-best-effort"}


def test_loads_have_the_threads_asked_for():
    size = Size("virtual", 16, 16, 1.0, 4)
    assert " barrier block 8 1" in named("barrier-block", 8)(size).command
    assert " barrier block 16 1" in named("barrier-block")(size).command
    assert "--threads=8 " in computing(8)(size).command
    assert named("barrier-block", 8)(size).name != named("barrier-block")(size).name
    beside = beside_idle_work("barrier-block", 8, range(0, 4, 2))(size)
    assert "for vcpu in 0 2;" in beside.command and beside.name != named("barrier-block", 8)(size)


def test_the_time_of_starts_is_read():
    load = startup(Size())
    assert load.parse("starts 1.250\n") == {"time": 1.25}
    with pytest.raises(ParseError):
        load.parse("bash: no such command\n")


def test_the_page_shows_what_has_run():
    scenario = catalogue.scenarios()["vsched-fig3"]
    values = {"eevdf": 100.0, "eevdf'": 102.0, "scx_vaware": 150.0, "without-ivh": 100.0}
    runs = [
        a_run(scenario, arm, seed, value + seed / 10)
        for arm, value in values.items()
        for seed in (1, 2, 3)
    ]
    note = {page.row_name(scenario, scenario.rows[0]): "As the paper has it."}
    of_another = {page.row_name(scenario, scenario.rows[0]): "It was otherwise."}
    found = {scenario.name: page.figures(scenario, runs)}
    text = page.render(PAPERS, found, {"abc1234": note, "0000000": of_another})
    row = next(row for row in rows_of(text) if row[0] == "Figure 3")
    assert row[4].endswith("events/s")
    assert row[5].startswith("1.02 (") and row[6].startswith("1.48 (")
    assert row[7].startswith("1.50 (") and row[7].endswith("(ivh)")
    assert row[9:] == ["3", "abc1234", "As the paper has it."]
    assert "2026-11-23, 12 runs, build abc1234" in text


def test_the_page_shows_the_part_of_a_policy_that_is_not_in_all():
    scenario = catalogue.scenarios()["coordinated-4"]
    values = {"eevdf": 900.0, "scx_vaware": 750.0, "with-reserve": 250.0}
    runs = [a_run(scenario, arm, seed, at) for arm, at in values.items() for seed in (1, 2, 3)]
    text = page.render(PAPERS, {scenario.name: page.figures(scenario, runs)}, {})
    row = next(row for row in rows_of(text) if row[1] == scenario.rows[0].what)
    assert row[6].startswith("1.20 (") and row[7].startswith("3.00 (") and "(reserve)" in row[7]


def test_a_scenario_that_was_interrupted_shows_what_there_is():
    scenario = catalogue.scenarios()["vsched-fig3"]
    runs = [
        a_run(scenario, arm, 1, value) for arm, value in (("eevdf'", 50.0), ("scx_vaware", 75.0))
    ]
    text = page.render(PAPERS, {scenario.name: page.figures(scenario, runs)}, {})
    row = next(row for row in rows_of(text) if row[0] == "Figure 3")
    assert row[4:9] == ["50 events/s", "-", "1.50", "-", "-"]


def test_the_page_counts_failed_runs():
    scenario = catalogue.scenarios()["vsched-fig3"]
    good = [a_run(scenario, arm, 1, 100.0) for arm in ("eevdf", "eevdf'")]
    bad = a_run(scenario, "scx_vaware", 1, 0.0, ok=False, metrics={}, output="", failure="hung")
    found = page.figures(scenario, [*good, bad])
    row = next(
        row
        for row in rows_of(page.render(PAPERS, {scenario.name: found}, {}))
        if row[0] == "Figure 3"
    )
    assert row[6] == "-" and row[-1] == "Failed runs: 1."


def test_runs_of_two_builds_are_no_scenario(tmp_path, monkeypatch):
    builds = ["abc1234", "def5678"]
    runs = [a_run(SCENARIOS[0], "eevdf", 1, 1.0, versions={"repository": each}) for each in builds]
    monkeypatch.setattr(page.records, "read", lambda path: runs)
    run.results(tmp_path, SCENARIOS[0]).touch()
    with pytest.raises(LabError, match="mix builds"):
        page.read(tmp_path, SCENARIOS)


def test_a_page_keeps_what_has_not_run_anew(tmp_path, monkeypatch):
    old, new = catalogue.scenarios()["vsched-fig3"], catalogue.scenarios()["irs-fig13"]
    file = tmp_path / "papers.md"
    page.keep(file.with_suffix(".json"), {old.name: page.figures(old, [a_run(old, "eevdf", 1, 5)])})
    run.results(tmp_path, new).touch()
    for build in ("def5678", "fed8765"):
        runs = [a_run(new, "eevdf", 1, 7.0, versions={"repository": build})]
        monkeypatch.setattr(page.records, "read", lambda path, runs=runs: runs)
        assert main(["page", str(file), "--out", str(tmp_path)]) == 0
    text = file.read_text()
    assert ", 1 runs, build abc1234," in text and ", 1 runs, build fed8765," in text
    assert "def5678" not in text, "the runs of that build have been made anew"
    rows = {(row[0], row[1]): row for row in rows_of(text)}
    of_old, of_new = (rows[each.rows[0].figure, each.rows[0].what] for each in (old, new))
    assert (of_old[4], of_old[10]) == ("5 events/s", "abc1234")
    assert of_new[10] == "fed8765"


def test_figures_that_cannot_be_read_are_told(tmp_path):
    (tmp_path / "papers.json").write_text("[")
    assert main(["page", str(tmp_path / "papers.md"), "--out", str(tmp_path / "none")]) == 64


def test_the_committed_page_has_every_row_and_figures_that_can_be_read():
    committed = (REPO / "docs/results/papers.md").read_text()
    named_columns = len(page.HEADER)
    found, expected = rows_of(committed), rows_of(page.render(PAPERS, {}, {}))
    assert [row[:named_columns] for row in found] == [row[:named_columns] for row in expected], (
        "run eval/papers page docs/results/papers.md"
    )
    for row in found:
        if row[0] in ("figure", "---"):
            continue
        for cell in row[5:9]:
            match = ESTIMATE.fullmatch(cell)
            assert match, f"{row[:2]}: {cell}"
            if match[3]:
                assert float(match[3]) <= float(match[1]) <= float(match[4])
    for paper in PAPERS:
        for each in paper.unshown:
            assert f"| {each.figure} | {each.paper} | {each.why} |" in committed


def test_the_committed_page_is_of_the_committed_figures_and_notes():
    results, said = REPO / "docs/results", page.notes(REPO / "eval/lib/papers/notes.toml")
    shown = page.render(PAPERS, page.kept(results / "papers.json"), said)
    assert (results / "papers.md").read_text() == shown, (
        "run eval/papers page docs/results/papers.md"
    )


def test_a_page_is_as_old_as_its_oldest_scenario(tmp_path):
    old, new = SCENARIOS[:2]
    newer = {"date": "2026-11-25T20:00:00", "versions": {"repository": "0ff1ce0-dirty"}}
    found = {
        new.name: page.figures(new, [a_run(new, "eevdf", 1, 1.0, **newer)]),
        old.name: page.figures(old, [a_run(old, "eevdf", 1, 1.0)]),
    }
    page.keep(tmp_path / "papers.json", found)
    (tmp_path / manifest.NAME).write_text("{}")
    assert main(["page", str(tmp_path / "papers.md"), "--out", str(tmp_path / "none")]) == 0
    entry = manifest.entries(tmp_path)["papers.md"]
    assert (entry["build"], entry["date"]) == ("abc1234", "2026-11-23")
    assert entry["builds"] == ["0ff1ce0-dirty", "abc1234"]


def test_notes_are_of_rows_of_their_build():
    shown = page.kept(REPO / "docs/results/papers.json")
    rows = {page.row_name(each, row): each.name for each in SCENARIOS for row in each.rows}
    for build, said in page.notes(REPO / "eval/lib/papers/notes.toml").items():
        for name in said:
            assert shown[rows[name]]["build"] == build, f"{name}: its runs are gone"


def test_the_command_line_wants_a_file_for_the_page_alone(capsys):
    for words in (["page"], ["run", "x.md"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 64
    assert main(["list", "--only", "irs-fig13"]) == 0
    assert "Figure 13, stages" in capsys.readouterr().out
    assert main(["list", "--only", "nonsense"]) == 64
