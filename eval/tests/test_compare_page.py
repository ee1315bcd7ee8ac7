# SPDX-License-Identifier: GPL-2.0-only
"""The HTML page: whole, self-contained, and with what was found in it."""

import html.parser
import re

import pytest

from compare import html as page
from compare import plots
from compare.stats import Estimate
from test_compare_regress import runs

LATENCIES = {"100": 900, "1000": 90, "20000": 10}
VOID = {"meta", "br", "circle", "line", "rect", "polyline"}


class Checker(html.parser.HTMLParser):
    """Sees to it that every element is closed, and keeps the text."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def check(text: str) -> str:
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    return checker.text


def test_the_page_tells_conditions_ratios_verdicts_and_needs_nothing_else():
    text = page.render(runs(1.3, latencies=LATENCIES) + runs(0.7, shape="stacked"))
    told = check(text)
    for words in ("honest, 2 vCPUs", "stacked, 2 vCPUs", "better", "worse", "TCG", "worst cell"):
        assert words.lower() in told.lower()
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text
    assert not re.search(r"(src|href)=['\"](?!#)", text), "it must not load anything"


def test_what_is_in_the_runs_cannot_become_markup():
    told = check(page.render(runs(1.0, workload="<script>alert(1)</script>")))
    assert "<script>alert(1)</script>" in told


def test_timelines_are_put_in():
    picture = '<?xml version="1.0"?><svg><text>vcpu 0</text></svg>'
    whole = "<!doctype html><html><body>steal</body></html>"
    text = page.render(runs(1.0), timelines=[picture, whole])
    assert "vcpu 0" in check(text)
    assert "&lt;body&gt;steal" in text and "<iframe" in text


@pytest.mark.parametrize(
    "low, high", [(0.5, 2.0), (0.99, 1.01), (0.001, 1000.0), (0.0, float("inf"))]
)
def test_every_ratio_has_a_place_on_the_scale(low, high):
    estimate = Estimate(1.0, low, high, 10)
    scale = plots.RatioScale([estimate, None])
    assert 0 <= scale.at(low) <= scale.at(1.0) <= scale.at(high) <= 100
    assert 1 in scale.ticks()


def test_blocks_too_few_for_an_interval_are_a_dot():
    few, many = Estimate(1.2, 0.0, float("inf"), 2), Estimate(1.2, 1.1, 1.3, 10)
    scale = plots.RatioScale([few, many])
    assert 'class="interval"' not in plots.ratio_row(scale, few, few)
    row = plots.ratio_row(scale, many, many)
    assert 'class="interval"' in row and 'class="noise"' in row


def test_runs_that_failed_say_why():
    some = runs(1.0)
    broken = some[-1] | {"ok": False, "metrics": {}, "failure": "it fell over"}
    told = check(page.render([*some[:-1], broken]))
    assert f"{broken['arm']}: 1 run failed: it fell over." in told
    assert "repository abc" in told


def test_tails_are_drawn_for_what_enough_samples_tell():
    svg = plots.tails({"a": {100.0: 900, 1000.0: 90, 20000.0: 10}, "b": {50.0: 20}}, {"a": 1})
    assert svg.count("<polyline") == 2
    assert "100 us" in svg
