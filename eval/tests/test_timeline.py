# SPDX-License-Identifier: GPL-2.0-only
"""Timelines as data and as a picture, without a VM."""

import re
from xml.etree import ElementTree

import pytest

from timeline import cli, model, record, render
from timeline.model import BadTimeline, Lane, Timeline

MS = 1_000_000
GUEST_TRACE = """\
   sh-143 [001] d..2. 10.000100: sched_switch: prev_comm=sh prev_pid=143 prev_prio=120 \
prev_state=R ==> next_comm=a b next_pid=9 next_prio=120
   sh-143 [000] d..2. 10.000200: sched_migrate_task: comm=x y pid=7 prio=120 orig_cpu=0 dest_cpu=1
   a b-9 [001] d..2. 10.000300: sched_switch: prev_comm=a b prev_pid=9 prev_prio=120 \
prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
   swapper-0 [001] d..2. 10.000400: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=sh next_pid=143 next_prio=120
"""


@pytest.fixture
def timeline():
    lanes = [
        Lane(
            "vCPU 0",
            inactive=[(10 * MS, 30 * MS)],
            tasks=[(0, 40 * MS, "<job> 7")],
            gaps=[(11 * MS, 30 * MS)],
            decisions=[(31 * MS, "moved here", "a & b")],
        ),
        Lane("vCPU 1", halted=[(0, 100 * MS)]),
    ]
    return Timeline("a <title>", 0, 100 * MS, lanes, ["a note"])


def test_a_guests_trace_tells_who_ran_where_and_who_was_moved():
    runs, moves = record.guest_trace(GUEST_TRACE.splitlines(), 10_000_000_000, 10_000_900_000)
    assert runs == {
        1: [
            (10_000_000_000, 10_000_100_000, "sh 143"),
            (10_000_100_000, 10_000_300_000, "a b 9"),
            (10_000_400_000, 10_000_900_000, "sh 143"),
        ]
    }
    assert moves == {1: [(10_000_200_000, "moved here", "x y (7) from vCPU 0")]}


def test_json_there_and_back_is_the_same(timeline):
    assert model.from_json(timeline.to_json()) == timeline


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"title": "", "begin_ns": 5, "end_ns": 5, "lanes": []}',
        '{"title": "", "begin_ns": 0, "end_ns": 5, "lanes": [{"tasks": []}]}',
        '{"title": "", "begin_ns": 0, "end_ns": 5, "lanes": [{"name": "", "colour": []}]}',
    ],
)
def test_what_is_no_timeline_is_refused(text):
    with pytest.raises(BadTimeline, match="see timeline/model.py"):
        model.from_json(text)


def test_a_part_has_what_was_in_that_time(timeline):
    part = timeline.between(20 * MS, 35 * MS)
    assert part.lanes[0].inactive == [(20 * MS, 30 * MS)]
    assert part.lanes[0].tasks == [(20 * MS, 35 * MS, "<job> 7")]
    assert part.lanes[0].decisions == timeline.lanes[0].decisions
    assert timeline.between(32 * MS, 35 * MS).lanes[0].decisions == []
    with pytest.raises(BadTimeline):
        timeline.between(200 * MS, 300 * MS)


def test_the_picture_shows_each_period_where_it_was(timeline):
    page = render.html(timeline)
    root = ElementTree.fromstring(re.search(r"<svg.*?</svg>", page)[0])
    bars = {}
    for rect in root.iter("rect"):
        bars.setdefault(rect.get("class"), []).append(rect)
    ms = (render.WIDTH - render.LEFT - render.RIGHT) / 100
    (inactive,) = bars["inactive"]
    assert float(inactive.get("x")) == pytest.approx(render.LEFT + 10 * ms, abs=0.01)
    assert float(inactive.get("width")) == pytest.approx(20 * ms, abs=0.01)
    assert [title.text for title in bars["gap"][0].iter("title")] == ["found: 19 ms"]
    assert len(list(root.iter("path"))) == 1
    assert "moved here: a &amp; b" in page and "&lt;job&gt; 7" in page
    assert "<script" not in page and "http" not in page


def test_a_file_is_drawn_without_a_vm(timeline, tmp_path, capsys):
    (tmp_path / "in.json").write_text(timeline.to_json())
    arguments = ["--draw", str(tmp_path / "in.json"), "--out", str(tmp_path / "out.html")]
    assert cli.main(arguments) == 0
    assert "a &lt;title&gt;" in (tmp_path / "out.html").read_text()
    assert cli.main([*arguments, "--from-ms", "500", "--to-ms", "600"]) == 64
    (tmp_path / "in.json").write_text("{")
    assert cli.main(arguments) == 64
    assert "no timeline" in capsys.readouterr().err
