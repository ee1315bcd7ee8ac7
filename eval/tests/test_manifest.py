# SPDX-License-Identifier: GPL-2.0-only
"""The manifest of generated pages: what tools enter, and what is found to be wrong with it."""

import json
import re
import shlex

import pytest

import manifest
from compare import arms, cli, options, page, provenance, scale
from papers import cli as papers_cli
from test_compare_regress import runs
from test_compare_scale import size
from vlab import LabError
from workloads import workload

TEXT = "- 2026-11-27, repository abc1234, scx_vaware 0.1.0\n"
FACTS = {"command": "make it", "build": "abc1234", "version": "0.1.0"}
VERSIONS = {"repository": "abc", "qemu": "10.0", "off": "scx_vaware 0.1.0"}


@pytest.fixture
def folder(tmp_path):
    """A folder with a manifest and a page."""
    (tmp_path / manifest.NAME).write_text("{}")
    manifest.write(tmp_path / "page.md", TEXT, FACTS)
    return tmp_path


def test_a_page_is_entered_beside_the_others(folder):
    manifest.write(folder / "other.svg", f"<svg>{TEXT}</svg>", FACTS | {"seeds": "", "runs": 3})
    found = manifest.entries(folder)
    assert list(found) == ["other.svg", "page.md"]
    assert found["other.svg"].items() >= (FACTS | {"runs": 3}).items()
    assert "seeds" not in found["other.svg"], "what is not known is left out"
    assert manifest.problems(folder, "0.1.0") == []


def test_elsewhere_a_page_is_just_written(tmp_path):
    manifest.write(tmp_path / "page.md", TEXT, FACTS)
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]
    with pytest.raises(LabError, match="cannot be written"):
        manifest.write(tmp_path / "none" / "page.md", TEXT, FACTS)


def test_what_is_no_manifest_is_not_written_over(folder):
    (folder / manifest.NAME).write_text("<<<<<<< HEAD")
    with pytest.raises(LabError, match="restore it from git"):
        manifest.write(folder / "page.md", TEXT, FACTS)
    assert (folder / manifest.NAME).read_text() == "<<<<<<< HEAD"


def change_page(folder):
    (folder / "page.md").write_text(TEXT + "By hand.\n")


def remove_page(folder):
    (folder / "page.md").unlink()


def add_page(folder):
    (folder / "new.md").write_text(TEXT)


def name_another_build(folder):
    manifest.write(folder / "page.md", TEXT, FACTS | {"build": "def5678"})


def name_part_of_a_build(folder):
    manifest.write(folder / "page.md", TEXT.replace("abc1234", "abc1234-dirty"), FACTS)


def name_no_build(folder):
    manifest.write(folder / "page.md", TEXT, FACTS | {"build": ""})


def name_a_dirty_build(folder):
    dirty = "abc1234-dirty"
    manifest.write(folder / "page.md", TEXT.replace("abc1234", dirty), FACTS | {"build": dirty})


def name_a_dirty_part(folder):
    builds = ["abc1234", "def5678-dirty"]
    manifest.write(folder / "page.md", f"{TEXT}build {builds[1]}", FACTS | {"builds": builds})


def name_a_part_that_is_not_shown(folder):
    manifest.write(folder / "page.md", TEXT, FACTS | {"builds": ["abc1234", "def5678"]})


def judge_an_old_version(folder):
    manifest.write(folder / "page.md", TEXT, FACTS | {"version": "0.0.7"})


@pytest.mark.parametrize(
    "spoil, words",
    [
        (change_page, "page.md is not what was written"),
        (remove_page, "page.md is in manifest.json and not there"),
        (add_page, "new.md is not in manifest.json"),
        (name_another_build, "does not say that it is of build def5678; run make it"),
        (name_part_of_a_build, "does not say that it is of build abc1234"),
        (name_no_build, "no known build"),
        (name_a_dirty_build, "no commit has"),
        (name_a_dirty_part, "no commit has"),
        (name_a_part_that_is_not_shown, "does not say that it is of build def5678"),
        (judge_an_old_version, "judges version 0.0.7, and this is 0.2.3; run make it"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_run(folder, spoil, words):
    assert manifest.problems(folder, "0.1.3") == []
    spoil(folder)
    (told,) = manifest.problems(folder, "0.2.3" if spoil is judge_an_old_version else "0.1.3")
    assert words in told


@pytest.mark.parametrize(
    "judged, version, current",
    [
        ("0.1.0", "0.1.9", True),
        ("0.1.9", "0.2.0", True),
        ("0.1.9", "0.3.0", False),
        ("0.9.0", "1.0.2", True),
        ("0.9.0", "1.1.0", False),
        ("0.9.0", "2.0.0", False),
        ("0.2.0", "0.1.0", False),
        ("1.0.0", "0.9.0", False),
    ],
)
def test_a_page_speaks_for_the_next_release_and_no_further(judged, version, current):
    assert manifest.is_current(judged, version) is current


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3], [3, 5, 8, 9, 10, 12]])
def test_seeds_are_told_as_the_option_takes_them(numbers):
    assert options.seeds(provenance.spans(reversed(numbers))) == numbers


def test_an_entry_of_runs_tells_build_version_seeds_kernels_and_emulator():
    some = runs(1.1, versions=VERSIONS) + runs(1.1, shape="rcvm", versions=VERSIONS)
    some[0] |= {"arm_vm": {"kernel": "6.1"}, "date": "2026-11-23T05:00:00"}
    entry = provenance.of_runs(some)
    assert entry["build"] == "abc" and entry["version"] == "0.1.0"
    assert entry["emulator"] == "qemu 10.0" and entry["kernels"] == ["6.1", "7.2"]
    assert entry["seeds"] == "1-12" and entry["runs"] == 72 and entry["date"] == "2026-11-23"


def test_the_command_repeats_the_runs_without_paths_of_the_machine(monkeypatch):
    names = ["eevdf", "scx_vaware", "mine"]
    some = [run | {"arms": names, "seconds": 2.0} for run in runs(1.0) + runs(1.0, shape="rcvm")]
    given = ["/home/me/scx_vaware", "--policies", "ivh,bvs"]
    some += [run | {"arm": "mine", "arm_command": given} for run in some if run["arm"] == "eevdf"]
    told = provenance.command(some)
    assert "/home" not in told
    for words in ("--shape honest --shape rcvm", "--seeds 1-12", "--seconds 2", "--kernel 7.2"):
        assert words in told
    monkeypatch.setattr(arms, "find_binary", lambda name: f"/bin/{name}")
    assert "--arms eevdf,scx_vaware --arm 'mine=scx_vaware:--policies ivh,bvs'" in told
    parsed = arms.parse("mine=scx_vaware:--policies ivh,bvs")
    assert (parsed.name, *parsed.command[1:]) == ("mine", "--policies", "ivh,bvs")


def test_the_number_of_vcpus_is_told_where_the_shape_does_not_say_it():
    assert "--vcpus" not in provenance.command(runs(1.0, shape="rcvm", vcpus=12))
    assert "--vcpus 6 " in provenance.command(runs(1.0, shape="floating:2", vcpus=6))
    assert "--paravirt steal" in provenance.command(runs(1.0, paravirt=["steal"]))


def test_commands_of_the_user_are_told_whole():
    given = workload.from_command("seq 1 100000 | sort --random-sort | tail -n 1 | wc -c")
    asked = {"workload": given.name, "command": given.command}
    some = runs(1.0) + runs(1.0, **asked)
    written = ["--page", "docs/results/mine.md"]
    words = shlex.split(provenance.command(some, written).split(" && ")[0])
    told = [words[i + 1] for i, word in enumerate(words) if word == "--workload"]
    assert told == ["w", "seq 1 100000 | sort --random-sort | tail -n 1 | wc -c"]
    assert provenance.command(some, written).endswith("runs.jsonl --page docs/results/mine.md")
    table = [line for line in page.render(some, title="Mine").split("\n") if line.startswith("| ")]
    columns = {len(re.split(r"(?<!\\)\|", line)) for line in table if "seq 1" in line}
    assert columns == {len(line.split("|")) for line in table if " A/A " in line}
    assert f"`` {told[1]} ``" in page.render(some)


def test_runs_on_this_machine_are_repeated_there():
    told = provenance.command(runs(1.0, shape="this machine"))
    assert "--shape" not in told and "--kernel" not in told and "--clock" not in told


def test_page_and_picture_of_a_comparison_are_entered(tmp_path):
    (tmp_path / manifest.NAME).write_text("{}")
    records = tmp_path / "runs.jsonl"
    records.write_text("".join(json.dumps(run) + "\n" for run in runs(1.0, versions=VERSIONS)))
    page, svg = str(tmp_path / "page.md"), str(tmp_path / "page.svg")
    assert cli.main(["report", str(records), "--page", page, "--picture", svg]) == 0
    found = manifest.entries(tmp_path)
    assert sorted(found) == ["page.md", "page.svg"]
    assert all(entry["build"] == "abc" for entry in found.values())
    assert manifest.problems(tmp_path, "0.1.0") == []


def test_the_entry_of_costs_by_size_is_that_of_its_page(tmp_path):
    (tmp_path / manifest.NAME).write_text("{}")
    found = [size(4), size(16)]
    text = scale.page(found, VERSIONS, "2026-11-26")
    manifest.write(tmp_path / "scale.md", text, scale.facts(found, VERSIONS, "2026-11-26"))
    assert manifest.problems(tmp_path, "0.1.0") == []
    entry = manifest.entries(tmp_path)["scale.md"]
    assert "--vcpus 4,16 " in entry["command"] and entry["ns_per_instruction"] == 1


def test_the_papers_page_is_entered_as_it_was_made(tmp_path):
    (tmp_path / manifest.NAME).write_text("{}")
    page = tmp_path / "papers.md"
    assert papers_cli.main(["page", str(page), "--quick", "--out", str(tmp_path / "none")]) == 0
    assert manifest.entries(tmp_path)["papers.md"]["command"] == "make papers PAPERS_QUICK=1"
    assert "no known build" in manifest.problems(tmp_path, "0.1.0")[0], "nothing has run"


def test_the_papers_page_tells_the_command_of_its_runs(tmp_path):
    (tmp_path / manifest.NAME).write_text("{}")
    of_today = runs(1.0, blocks=3, versions=VERSIONS, ns_per_instruction=1)
    some = "".join(json.dumps(run) + "\n" for run in of_today)
    (tmp_path / "irs-fig13.jsonl").write_text(some)
    page = str(tmp_path / "papers.md")
    assert papers_cli.main(["page", page, "--quick", "--out", str(tmp_path)]) == 0
    told = manifest.entries(tmp_path)["papers.md"]["command"]
    assert told == "eval/papers --quick --seeds 1-3 --ns-per-instruction 1"
