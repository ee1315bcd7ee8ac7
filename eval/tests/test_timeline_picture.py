# SPDX-License-Identifier: GPL-2.0-only
"""The picture of one task on vCPUs that stop, for a document."""

import json
from xml.etree import ElementTree

import pytest

import manifest
from timeline import cli, picture
from timeline.model import BadTimeline, Lane, Timeline

MS = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"
PER_MS = (picture.WIDTH - picture.LEFT - picture.RIGHT) / 100
FACTS = {
    **{"build": "abc1234", "version": "0.1.0", "date": "2026-11-27", "kernels": ["7.2"]},
    **{"clock": "virtual", "ns_per_instruction": 1},
}


def timeline(build: str = "abc1234", task: str = "job 7") -> Timeline:
    """The task is stopped from 30 to 40 ms with vCPU 0, and leaves at 60, before that stops."""
    lanes = [
        Lane(
            "vCPU 0", inactive=[(30 * MS, 40 * MS), (62 * MS, 70 * MS)], tasks=[(0, 60 * MS, task)]
        ),
        Lane("vCPU 1", tasks=[(60 * MS, 100 * MS, task), (0, 50 * MS, "other 8")]),
    ]
    return Timeline("ours", 0, 100 * MS, lanes, facts=FACTS | {"build": build})


def bars(text: str, kind: str) -> list[tuple[float, float, float]]:
    """From when to when a bar of this class is, in ms, and how far down; without the legend."""
    root = ElementTree.fromstring(text)
    found = [each for each in root.iter(SVG + "rect") if each.get("class") == kind][1:]
    places = [tuple(float(each.get(name)) for name in ("x", "width", "y")) for each in found]
    return [
        (round((x - picture.LEFT) / PER_MS, 1), round((x + width - picture.LEFT) / PER_MS, 1), y)
        for x, width, y in places
    ]


def test_the_task_runs_stops_with_its_vcpu_and_leaves():
    text = picture.render([timeline()], "")
    runs = bars(text, "runs")
    assert [each[:2] for each in runs] == [(0, 30), (40, 60), (60, 100)]
    assert runs[0][2] == runs[1][2] and runs[2][2] - runs[0][2] == picture.LANE_H
    assert [each[:2] for each in bars(text, "stopped")] == [(30, 40)]
    assert [each[:2] for each in bars(text, "other")] == [(62, 70)]
    assert text.count('class="move"') == 1
    assert "ours: the task runs for 90 of 100 ms" in text


def test_timelines_are_below_each_other_on_one_scale():
    text = picture.render([timeline(), timeline()], "of today")
    runs = bars(text, "runs")
    assert [each[:2] for each in runs[:3]] == [each[:2] for each in runs[3:]]
    assert min(each[2] for each in runs[3:]) > max(each[2] for each in runs[:3])
    assert ">of today</text>" in text
    with pytest.raises(BadTimeline, match="same --from-ms"):
        picture.render([timeline(), timeline().between(0, 50 * MS)], "")


def test_where_no_task_ran_there_is_no_picture():
    with pytest.raises(BadTimeline, match="no task ran"):
        picture.render([Timeline("", 0, 100 * MS, [Lane("vCPU 0")])], "")


def test_it_stands_alone_in_light_and_dark_and_takes_no_markup():
    some = timeline()
    some.title = "<script>"
    text = picture.render([some], "<b>")
    assert "<script>" not in text and "<b>" not in text and "prefers-color-scheme: dark" in text
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")


def write(path, some: Timeline) -> str:
    path.write_text(some.to_json())
    return str(path)


def test_recordings_of_one_build_make_a_picture_that_names_it(tmp_path, capsys):
    (tmp_path / manifest.NAME).write_text("{}")
    one, out = write(tmp_path / "one.json", timeline()), str(tmp_path / "out.svg")
    assert cli.main(["--draw", one, "--draw", one, "--to-ms", "50", "--out", out]) == 0
    assert manifest.problems(tmp_path, "0.1.0") == []
    assert json.loads((tmp_path / manifest.NAME).read_text())["out.svg"]["kernels"] == ["7.2"]
    other = write(tmp_path / "other.json", timeline("def5678"))
    assert cli.main(["--draw", one, "--draw", other, "--to-ms", "50", "--out", out]) == 64
    assert "different builds; record them anew" in capsys.readouterr().err


def test_a_page_has_one_timeline(tmp_path, capsys):
    one, out = write(tmp_path / "one.json", timeline()), str(tmp_path / "out.html")
    assert cli.main(["--draw", one, "--draw", one, "--to-ms", "50", "--out", out]) == 64
    assert "give one --draw" in capsys.readouterr().err
