# SPDX-License-Identifier: GPL-2.0-only
"""Metrics, alerts and dashboard as Prometheus and its tools see them; no VM is needed."""

import json
import re
from pathlib import Path

import pytest

from prometheus_tools import REPO, fetch, prometheus, promtool, query, simulated

DASHBOARD = REPO / "deploy/grafana-dashboard.json"
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
    """The dashboard's queries, its variables replaced."""
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked += [annotation["expr"] for annotation in dashboard["annotations"]["list"]]
    return [e.replace("$__rate_interval", "5m").replace("$instance", ".+") for e in asked]


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
    variables = [
        v.get("definition", "") for v in json.loads(DASHBOARD.read_text())["templating"]["list"]
    ]
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
