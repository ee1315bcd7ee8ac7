# SPDX-License-Identifier: GPL-2.0-only
"""The Helm chart: what it makes is what Kubernetes takes, with no more rights than said."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

REPO = Path(__file__).resolve().parents[1]
TOOLS = REPO / "target/tools"
CHART = REPO / "deploy/helm/scx-vaware"
KUBERNETES = "1.34.1"
SET = ["--set", "image.repository=registry.example/scx_vaware"]


def helm(*arguments) -> subprocess.CompletedProcess:
    command = [TOOLS / "bin/helm", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def rendered(*arguments) -> str:
    """The manifests, for a release of the name `v`."""
    made = helm("template", "v", CHART, "--kube-version", KUBERNETES, *SET, *arguments)
    assert made.returncode == 0, made.stderr
    return made.stdout


def objects(*arguments) -> dict[str, dict]:
    """The manifests by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all(rendered(*arguments)) if each}


def pod(*arguments) -> dict:
    return objects(*arguments)["DaemonSet"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory) -> Path:
    """The schemas of Kubernetes' API as kubeconform reads them: unknown fields are refused."""
    folder = tmp_path_factory.mktemp("schemas")
    for spec in (TOOLS / f"kubernetes/v{KUBERNETES}").glob("*.json"):
        known = json.loads(spec.read_text())["components"]["schemas"]
        for schema in known.values():
            if "properties" in schema:
                schema.setdefault("additionalProperties", False)
        for name, schema in known.items():
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                group = f"-{kind['group'].split('.')[0]}" if kind["group"] else ""
                file = folder / f"{kind['kind'].lower()}{group}-{kind['version']}.json"
                root = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": known}}
                if kind["kind"] in ("DaemonSet", "ConfigMap"):
                    file.write_text(json.dumps(root))
    return folder


def conforms(schemas: Path, manifests: str) -> subprocess.CompletedProcess:
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [TOOLS / "bin/kubeconform", "-summary", "-schema-location", location, "-"]
    return subprocess.run(command, input=manifests, capture_output=True, text=True)


def test_the_chart_passes_helms_linter():
    linted = helm("lint", "--strict", CHART, *SET)
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("nodes", ["all", "canary", "fleet"])
def test_kubernetes_takes_the_manifests(schemas, nodes):
    told = conforms(schemas, rendered("--set", f"nodes={nodes}"))
    assert told.returncode == 0 and "Valid: 2" in told.stdout, told.stdout


def test_a_field_that_kubernetes_does_not_know_is_found(schemas):
    wrong = rendered().replace("allowPrivilegeEscalation", "allowPriviledgeEscalation")
    told = conforms(schemas, wrong)
    assert told.returncode != 0 and "allowPriviledgeEscalation" in told.stdout


def test_the_pod_has_two_capabilities_and_nothing_of_the_node_but_two_folders():
    spec = pod()
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsUser": 0,
        "runAsGroup": 0,
        "capabilities": {"drop": ["ALL"], "add": ["BPF", "PERFMON"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert not {"hostPID", "hostIPC", "hostNetwork"} & spec.keys()
    assert spec["automountServiceAccountToken"] is False
    of_the_node = [each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each]
    assert of_the_node == ["/run/scx_vaware", "/sys/fs/cgroup"]


@pytest.mark.parametrize(
    "arguments, port, annotated",
    [
        ([], 9817, "9817"),
        (["--set", "config.listen=0.0.0.0:9900"], 9900, "9900"),
        (["--set", "config.listen=[::]:9900"], 9900, "9900"),
        (["--set-string", r"podAnnotations.prometheus\.io/port=80"], 9817, "80"),
    ],
)
def test_the_pod_tells_of_the_port_that_the_daemon_listens_at(arguments, port, annotated):
    template = objects(*arguments)["DaemonSet"]["spec"]["template"]
    [container] = template["spec"]["containers"]
    assert container["ports"] == [{"name": "metrics", "containerPort": port}]
    assert container["readinessProbe"]["httpGet"]["port"] == "metrics"
    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == annotated
    assert annotations["prometheus.io/scrape"] == "true"


def test_a_limit_of_cpu_time_is_none_unless_it_is_asked_for():
    def limits(*arguments: str) -> dict:
        return pod(*arguments)["containers"][0]["resources"]["limits"]

    assert limits() == {"memory": "512Mi"}
    assert limits("--set", "resources.limits.cpu=1") == {"memory": "512Mi", "cpu": 1}


def test_the_first_step_loads_no_scheduler_and_the_daemon_takes_the_configuration(tmp_path):
    program = REPO / "target/release/scx_vaware"
    file = tmp_path / "scx_vaware.toml"
    for arguments, monitor_only in [
        ([], "true"),
        (["--set", "config.monitor_only=false"], "false"),
    ]:
        made = objects(*arguments, "--set", "config.policies={bvs,rescue}")
        file.write_text(made["ConfigMap"]["data"]["scx_vaware.toml"])
        shown = subprocess.run(
            [program, "config", "show", "--config", file], capture_output=True, text=True
        )
        assert shown.returncode == 0, shown.stderr
        assert f"monitor_only = {monitor_only}\n" in shown.stdout
        assert "ejections_max = 1\n" in shown.stdout and '["bvs", "rescue"]' in shown.stdout


def test_a_canary_and_the_fleet_share_no_node():
    def term(nodes: str) -> dict:
        affinity = pod("--set", f"nodes={nodes}")["affinity"]["nodeAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        return required["nodeSelectorTerms"][0]["matchExpressions"][0]

    canary, fleet = term("canary"), term("fleet")
    assert canary | {"operator": "NotIn"} == fleet and canary["operator"] == "In"
    assert "affinity" not in pod()


def test_a_changed_configuration_rolls_out():
    def checksum(*arguments: str) -> str:
        template = objects(*arguments)["DaemonSet"]["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum() != checksum("--set", "config.monitor_only=false")


@pytest.mark.parametrize(
    "value, named",
    [
        ("nodes=some", "nodes"),
        ("config.listen=off", "listen"),
        ("config.listen=null", "listen"),
        ("config.kill_switch=/run/disable", "kill_switch"),
    ],
)
def test_values_that_cannot_be_are_refused(value, named):
    refused = helm("template", "v", CHART, "--kube-version", KUBERNETES, *SET, "--set", value)
    assert refused.returncode != 0 and named in refused.stderr


def test_the_chart_is_of_this_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    workspace = (REPO / "Cargo.toml").read_text()
    assert f'\nversion = "{chart["appVersion"]}"\n' in workspace
    assert chart["version"] == chart["appVersion"]
