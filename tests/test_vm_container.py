# SPDX-License-Identifier: GPL-2.0-only
"""The container image with the rights of the Helm chart, and with each of them taken away."""

import json
import subprocess
from pathlib import Path
from signal import SIGTERM

import pytest

from guest_scheduler import ALL_KERNELS, LIMIT_S, on_kernels, sched_ext, tool, wait_until
from test_helm import objects, pod
from vlab import Handle, Vm

pytestmark = [pytest.mark.vm, pytest.mark.long, on_kernels(*ALL_KERNELS)]
REPO = Path(__file__).resolve().parents[1]
PACKAGES = REPO / "target/packages"
PROFILES = REPO / "target/tools/seccomp"
LOADS = ["--set", "config.monitor_only=false", "--set", "config.start_jitter_s=0"]
BUNDLE = "/tmp/bundle"  # in the guest
NAMESPACES = ["pid", "ipc", "uts", "mount"]  # of the network only the address would differ
HEALTH = "curl -sf localhost:9817/healthz"


@pytest.fixture(scope="session")
def image(tmp_path_factory) -> tuple[Path, list[str]]:
    """The image's files, unpacked where a guest sees them, and its entry point."""
    if not (PACKAGES / "oci").is_dir():
        pytest.fail(f"there is no {PACKAGES}/oci to test; run make packages", pytrace=False)
    unpacked = PACKAGES / "unpacked"
    if not unpacked.is_dir():
        tag = json.loads((PACKAGES / "oci/index.json").read_text())["manifests"][0]["annotations"]
        layout = f"{PACKAGES}/oci:{tag['org.opencontainers.image.ref.name']}"
        subprocess.run(["umoci", "unpack", "--image", layout, unpacked], check=True)
    config = json.loads((unpacked / "config.json").read_text())
    return unpacked / "rootfs", config["process"]["args"][:1]


def seccomp(capabilities: list[str]) -> dict:
    """What the default profile of runtimes comes to with these capabilities."""
    [file] = PROFILES.glob("*.json")
    profile = json.loads(file.read_text())
    calls = []
    for rule in profile["syscalls"]:
        only, never = rule.get("includes", {}), rule.get("excludes", {})
        is_here = set(only.get("caps", [])) <= set(capabilities) and "amd64" in only.get(
            "arches", ["amd64"]
        )
        if is_here and not set(never.get("caps", [])) & set(capabilities):
            kept = {"names", "action", "errnoRet", "args"}
            calls.append({k: v for k, v in rule.items() if k in kept and v})
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": calls,
    }


def start(vm: Vm, image: tuple[Path, list[str]], *taken: str) -> Handle:
    """Run the chart's container, with capabilities taken away."""
    rootfs, entry_point = image
    [container] = pod(*LOADS)["containers"]
    rights = container["securityContext"]
    added = [name for name in rights["capabilities"]["add"] if name not in taken]
    capabilities = [f"CAP_{name}" for name in added]
    volumes = {each["name"]: each for each in pod(*LOADS)["volumes"]}
    sources = {"config": "/tmp/config"}
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/sys", "type": "sysfs", "source": "sys", "options": ["ro", "nosuid"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},
    ]
    for mount in container["volumeMounts"]:
        source = sources.get(mount["name"]) or volumes[mount["name"]]["hostPath"]["path"]
        mounts.append(
            {
                "destination": mount["mountPath"],
                "type": "bind",
                "source": source,
                "options": ["rbind", "ro" if mount.get("readOnly") else "rw"],
            }
        )
    spec = {
        "ociVersion": "1.0.2",
        "root": {"path": "/tmp/rootfs", "readonly": rights["readOnlyRootFilesystem"]},
        "process": {
            "user": {"uid": rights["runAsUser"], "gid": rights["runAsGroup"]},
            "args": [*entry_point, *container["args"]],
            "cwd": "/",
            "env": [f"{each['name']}={each['value']}" for each in container["env"]],
            "noNewPrivileges": not rights["allowPrivilegeEscalation"],
            "capabilities": {kind: capabilities for kind in ["bounding", "effective", "permitted"]},
        },
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": kind} for kind in NAMESPACES],
            "seccomp": seccomp(capabilities),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
        },
    }
    made = objects(*LOADS)["ConfigMap"]["data"]["scx_vaware.toml"]
    for text, file in [
        (json.dumps(spec), f"{BUNDLE}/config.json"),
        (made, "/tmp/config/scx_vaware.toml"),
    ]:
        written = vm.run(f"mkdir -p $(dirname {file}) && cat >{file} <<'END'\n{text}\nEND", LIMIT_S)
        assert written.rc == 0, written.output
    # Where a runtime needs to make mount points.
    copied = vm.run(f"mkdir -p /run/scx_vaware && cp -r {rootfs} /tmp/", LIMIT_S)
    assert copied.rc == 0, copied.output
    return vm.spawn(f"exec crun --cgroup-manager=disabled run --bundle {BUNDLE} scx_vaware")


def test_two_capabilities_load_the_scheduler_in_a_container(guest, image):
    container = start(guest, image)
    wait_until(guest, lambda: guest.run(HEALTH, LIMIT_S).rc == 0 or container.rc, "its health")
    assert container.rc is None, container.output
    now = sched_ext(guest)
    assert now.state == "enabled" and now.ops.startswith("scx_vaware")
    # Of the node, without control plane.
    assert guest.run("touch /run/scx_vaware/disable; sleep 1", LIMIT_S).rc == 0
    assert sched_ext(guest).state == "disabled"
    assert guest.run("rm /run/scx_vaware/disable", LIMIT_S).rc == 0
    wait_until(guest, lambda: sched_ext(guest).state == "enabled", "the second load")
    guest.run(f"crun kill scx_vaware {SIGTERM.value}", LIMIT_S)
    wait_until(guest, lambda: container.rc is not None, "its end")
    assert container.rc == 0, container.output
    assert sched_ext(guest).state == "disabled"


@pytest.mark.parametrize("taken", ["BPF", "PERFMON"])
def test_each_capability_is_necessary(guest, image, taken):
    container = start(guest, image, taken)
    wait_until(guest, lambda: container.rc is not None, "its end")
    assert container.rc == 77, container.output
    assert sched_ext(guest).state == "disabled"


@pytest.mark.parametrize(
    "capabilities, refused",
    [
        ("+bpf,+perfmon", set()),
        ("+perfmon", {"map", "program"}),
        ("+bpf", {"program"}),
        ("+bpf,+sys_resource,+sys_nice", {"program"}),
    ],
)
def test_the_kernel_asks_for_both(guest, capabilities, refused):
    command = f"setpriv --bounding-set=-all,{capabilities} python3 -S {tool('bpf_rights.py')}"
    asked = guest.run(command, LIMIT_S)
    answers = dict(line.split() for line in asked.output.splitlines())
    assert answers.keys() == {"map", "program"}, asked.output
    assert {what for what, answer in answers.items() if answer == "EPERM"} == refused, answers
