# SPDX-License-Identifier: GPL-2.0-only
"""The picture of a page: its marks are where the numbers of the page are, and it stands alone."""

import json
import math
import re
from xml.etree import ElementTree

import pytest

from compare import cli, picture, report
from test_compare_regress import runs
from vlab import LabError

SVG = "{http://www.w3.org/2000/svg}"


def drawn(some: list[dict]) -> ElementTree.Element:
    return ElementTree.fromstring(picture.render(some))


def of_class(root: ElementTree.Element, tag: str, kind: str) -> list[ElementTree.Element]:
    """Elements of this class, without those of the legend."""
    found = [each for each in root.iter(SVG + tag) if kind in each.get("class", "").split()]
    return [each for each in found if _y(each) > picture.TOP]


def _y(element: ElementTree.Element) -> float:
    if "d" in element.attrib and "transform" not in element.attrib:
        return float(re.match(r"M[-\d.]+ ([-\d.]+)", element.get("d"))[1])
    return float(element.get("cy") or element.get("y") or 1e9)


def start_x(path: ElementTree.Element) -> float:
    return float(re.match(r"M([-\d.]+)", path.get("d"))[1])


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(each.itertext()) for each in root.iter(SVG + "text")]


def test_ratio_and_interval_are_where_the_scale_has_them():
    some = runs(1.3) + runs(0.8, workload="v")
    root = drawn(some)
    (one,) = {start_x(each) for each in of_class(root, "path", "one")}
    last = max(start_x(each) for each in of_class(root, "path", "grid"))
    label = next(each for each in root.iter(SVG + "text") if each.get("x") == f"{last:.1f}")
    per_log = (last - one) / math.log(float(label.text))
    found = {row.workload: row.ratio for row in report.tables(some)[0].rows if row.is_cell}
    dots, bars = of_class(root, "circle", "dot"), of_class(root, "path", "bar")
    for dot, bar, workload in zip(dots, bars, ("w", "v"), strict=True):  # the best is on top
        estimate = found[workload]
        at = one + per_log * math.log(estimate.ratio)
        assert float(dot.get("cx")) == pytest.approx(at, abs=0.3)
        ends = [float(x) for x in re.findall(r"(?:M|H)([\d.]+)", bar.get("d"))]
        expected = [one + per_log * math.log(each) for each in (estimate.low, estimate.high)]
        assert ends == pytest.approx(expected, abs=0.3)
        assert report.interval(estimate, digits=2) in texts(root)
    assert _y(dots[0]) < _y(dots[1])


def test_what_is_certain_differs_from_what_is_not():
    root = drawn(runs(1.3) + runs(0.8, workload="v") + runs(1.1, spread=0.5, workload="u"))
    kinds = [dot.get("class") for dot in of_class(root, "circle", "dot")]
    assert sorted(kinds) == ["dot better", "dot undecided", "dot worse"]
    assert "scx_vaware against eevdf: 1 better, 0 level, 1 worse, 1 undecided" in texts(root)


def test_an_arm_that_failed_has_no_ratio():
    some = runs(1.3)
    some[2] |= {"ok": False, "metrics": {}, "failure": "ejected"}
    root = drawn(some)
    assert not of_class(root, "circle", "dot") and not of_class(root, "path", "bar")
    assert "failed 1x" in texts(root)


def test_an_interval_that_is_too_wide_ends_in_an_arrow_within_the_plot():
    root = drawn(runs(1.5, spread=1.0, blocks=5) + runs(1.2, spread=0.001, workload="v"))
    (wide,) = [bar for bar in of_class(root, "path", "bar") if "undecided" in bar.get("class")]
    (narrow,) = [bar for bar in of_class(root, "path", "bar") if "better" in bar.get("class")]
    assert wide.get("d").count("l5 4-5 4") == 1 and narrow.get("d").count("M") == 1
    left, right = picture.Column(picture.MARGIN, picture.WIDTH - 2 * picture.MARGIN, True).plot
    for x in re.findall(r"(?:M|H)([\d.]+)", wide.get("d")):
        assert left <= float(x) <= right


def test_the_others_are_there_and_named():
    some = runs(1.3)
    other = [run | {"arm": "scx_lavd"} for run in some if run["arm"] == "scx_vaware"]
    arms = ["eevdf", "scx_vaware", "scx_lavd"]
    root = drawn([run | {"arms": arms} for run in some + other])
    marks = [each for each in root.iter(SVG + "path") if each.get("class") == "other"]
    assert len(marks) == 2, "one in the legend, and one in the row"
    assert "scx_lavd" in texts(root)


@pytest.mark.parametrize("shapes", [1, 2, 7])
def test_nothing_is_beyond_its_edges_or_upon_another_row(shapes):
    some = [
        run
        for shape in range(shapes)
        for workload in "abcdef"
        for run in runs(1.1, shape=f"shape {shape}", workload=workload)
    ]
    root = drawn(some)
    height = float(root.get("viewBox").split()[3])
    dots = of_class(root, "circle", "dot")
    assert len(dots) == 6 * shapes
    places = {(each.get("x"), each.get("y")) for each in root.iter(SVG + "text")}
    assert len(places) == len(list(root.iter(SVG + "text")))
    for each in (*root.iter(SVG + "text"), *dots):
        assert 0 <= float(each.get("x") or each.get("cx")) <= picture.WIDTH
        assert 0 <= _y(each) <= height
    assert height < 900


def test_it_stands_alone_in_light_and_dark_and_takes_no_markup():
    text = picture.render(runs(1.0, workload="<script>alert(1)</script>"))
    assert "<script>" not in text and "prefers-color-scheme: dark" in text
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert set(re.findall(r"font: \d+px ([^;]+);", text)) == {"sans-serif"}


def test_it_says_of_which_build_it_is():
    (told,) = [each for each in texts(drawn(runs(1.0))) if "repository" in each]
    assert "repository abc, 2026-11-21" in told and "seeds: 12" in told


def test_without_scx_vaware_there_is_no_picture():
    some = [run | {"arm": run["arm"].replace("vaware", "lavd")} for run in runs(1.0)]
    with pytest.raises(LabError, match="add that arm"):
        picture.render(some)


def test_page_and_picture_are_written_together(tmp_path, capsys):
    records = tmp_path / "runs.jsonl"
    records.write_text("".join(json.dumps(run) + "\n" for run in runs(1.3)))
    page, svg = tmp_path / "page.md", tmp_path / "page.svg"
    assert cli.main(["report", str(records), "--page", str(page), "--picture", str(svg)]) == 0
    assert "# Results" in page.read_text()
    assert svg.read_text() == picture.render(runs(1.3))
    assert capsys.readouterr().out == ""
