# SPDX-License-Identifier: GPL-2.0-only
"""Metrics, alerts and dashboard as Prometheus and its tools see them; no VM is needed."""

import functools
import json
import re
from pathlib import Path

import pytest

from prometheus_tools import REPO, fetch, prometheus, promtool, query, simulated

DASHBOARDS = sorted((REPO / "deploy").glob("grafana-*.json"))
RULES = "deploy/prometheus-rules.yml"
RULES_TESTS = "deploy/prometheus-rules.test.yml"
OURS = re.compile(r"\b(?:scx_vaware|process)_[a-z_]+\b")
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


@pytest.fixture(scope="module")
def target():
    with simulated(4) as address:
        yield address


@pytest.fixture(scope="module")
def exported(target) -> set[str]:
    """Names of all series."""
    page = fetch(f"http://{target}/metrics")
    return {re.split(r"[{ ]", line)[0] for line in page.splitlines() if line[0] != "#"}


def expressions() -> list[str]:
    """The dashboards' queries, their variables replaced."""
    asked = []
    for dashboard in map(json.loads, (path.read_text() for path in DASHBOARDS)):
        panels = dashboard["panels"]
        asked += [target["expr"] for panel in panels for target in panel.get("targets", [])]
        asked += [annotation["expr"] for annotation in dashboard["annotations"]["list"]]
    replaced = {"$__rate_interval": "5m", "$instance": ".+", "$job": ".+"}
    return [functools.reduce(lambda e, r: e.replace(*r), replaced.items(), e) for e in asked]


def test_panels_have_places_and_numbers_of_their_own():
    assert len(DASHBOARDS) == 2
    for dashboard in map(json.loads, (path.read_text() for path in DASHBOARDS)):
        taken = set()
        numbers = [panel["id"] for panel in dashboard["panels"]]
        assert len(numbers) == len(set(numbers)), dashboard["title"]
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24, panel["title"]
            columns = range(place["x"], place["x"] + place["w"])
            rows = range(place["y"], place["y"] + place["h"])
            cells = {(x, y) for x in columns for y in rows}
            assert not taken & cells, panel["title"]
            taken |= cells


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_each_panel_of_a_well_vm_shows_something(path, target, tmp_path):
    """Prometheus answers each query of a table or a number, but those about what is wrong."""
    dashboard = json.loads(path.read_text())
    asked = {
        target["expr"]
        for panel in dashboard["panels"]
        if panel["type"] in ("stat", "table")
        for target in panel["targets"]
    }
    with prometheus(target, tmp_path) as server:
        for expression in asked & set(expressions_of_a_well_vm(asked)):
            replaced = expression.replace("$__rate_interval", "5m").replace("$instance", ".+")
            assert query(server, replaced.replace("$job", ".+"))


def expressions_of_a_well_vm(asked):
    """Those that do not look for what is wrong, which a well VM does not have."""
    return [e for e in asked if not re.search(r"(== 0|> 0)\)?$", e)]


def test_promtool_accepts_the_metrics(target):
    promtool("check", "metrics", stdin=fetch(f"http://{target}/metrics"))


def test_promtool_accepts_the_alerts_and_their_tests():
    promtool("check", "rules", RULES)
    promtool("test", "rules", RULES_TESTS)


def test_every_alert_is_tested_to_fire():
    rules, tests = (REPO / RULES).read_text(), (REPO / RULES_TESTS).read_text()
    alerts = set(re.findall(r"- alert: (\w+)", rules))
    fire = set(re.findall(r"alertname: (\w+)\n *eval_time: \w+\n *exp_alerts:\n *- exp", tests))
    assert len(alerts) > 10
    assert alerts == fire


def test_alerts_and_dashboard_ask_for_series_that_exist(exported):
    dashboards = [json.loads(path.read_text()) for path in DASHBOARDS]
    variables = [v.get("definition", "") for d in dashboards for v in d["templating"]["list"]]
    for text in [
        *expressions(),
        *variables,
        *re.findall(r"expr: (.+?)\n *(?:for|labels):", Path(REPO, RULES).read_text(), re.S),
    ]:
        names = set(OURS.findall(text))
        assert names <= exported, f"{names - exported} in {text}"


def test_promtool_accepts_the_dashboards_queries(tmp_path):
    rules = [{"record": f"panel_{i}", "expr": e} for i, e in enumerate(expressions())]
    file = tmp_path / "panels.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert len(rules) > 10
    promtool("check", "rules", str(file))


def test_a_prometheus_server_scrapes_it(target, tmp_path):
    with prometheus(target, tmp_path) as server:
        (up,) = query(server, "up")
        assert up["value"][1] == "1"
        stolen = query(server, 'scx_vaware_vcpu_steal_seconds_total{state="running"}')
        assert {series["metric"]["cpu"] for series in stolen} == {"0", "1", "2", "3"}
        waits = "scx_vaware_runqueue_wait_seconds_bucket"
        (median,) = query(server, f"histogram_quantile(0.5, sum by (le) ({waits}))")
        assert 0 < float(median["value"][1]) < 17


def test_openmetrics_is_there_for_who_asks(target):
    page = fetch(f"http://{target}/metrics", OPENMETRICS)
    assert page.endswith("# EOF\n")
    assert "# TYPE scx_vaware_vcpu_steal_seconds counter\n" in page
