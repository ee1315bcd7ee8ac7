# SPDX-License-Identifier: GPL-2.0-only
"""A container engine's limits and weights hold: podman, which writes cpu.max and cpu.weight."""

import json

import pytest

from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, on_kernels

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
VCPUS = 4
MEASURE_S = 4
# Nothing of the guest's is written to, and nothing is pulled.
PODMAN = "podman --root /run/pods --runroot /run/pods-now --storage-driver vfs"
PODMAN += " --cgroup-manager cgroupfs --runtime crun"
ROOTFS = "/run/pods-root"
PARENT = "/sys/fs/cgroup/libpod_parent"
HOSTS = ["usr", "bin", "lib", "lib64"]  # folders of the guest that a container sees
SPIN = "import os; os.fork(); os.fork()\nwhile True: pass"
USED = f"""
import json, pathlib, time
def used_s():
    return {{folder.name: int((folder / "cpu.stat").read_text().split()[1]) / 1e6
        for folder in pathlib.Path("{PARENT}").glob("libpod-*")}}
before, began_s = used_s(), time.monotonic()
time.sleep({MEASURE_S})
took_s = time.monotonic() - began_s
print(json.dumps({{name: (now_s - before[name]) / took_s for name, now_s in used_s().items()}}))
"""


class Engine:
    """Podman in a guest: containers with four tasks each that compute."""

    def __init__(self, vm):
        self._vm = vm
        self._ids: dict[str, str] = {}
        made = " ".join(f"{ROOTFS}/{name}" for name in [*HOSTS, "proc", "sys", "dev", "etc", "run"])
        self.run(f"mkdir -p {made}")

    def run(self, command: str) -> str:
        done = self._vm.run(command, LIMIT_S)
        assert done.rc == 0, done.output
        return done.output

    def start(self, name: str, options: str) -> None:
        volumes = " ".join(f"-v /{each}:/{each}:ro" for each in HOSTS)
        self._ids[name] = self.run(
            f"{PODMAN} run -d --network none {options} {volumes} --rootfs {ROOTFS} "
            f"/usr/bin/python3 -S -c '{SPIN}'"
        ).split()[-1]

    def used(self) -> dict[str, float]:
        """The vCPUs that each container uses."""
        told = json.loads(self.run(f"/usr/bin/python3 -S -c '{USED}'").splitlines()[-1])
        return {name: told[f"libpod-{each}"] for name, each in self._ids.items()}

    def weight(self, name: str) -> int:
        """The cpu.weight that it has made of a container's shares."""
        return int(self.run(f"cat {PARENT}/libpod-{self._ids[name]}/cpu.weight"))

    def update(self, name: str, options: str) -> None:
        self.run(f"{PODMAN} update {options} {self._ids[name]}")

    def end(self) -> None:
        """Leave no container, and no cgroup that has a weight."""
        self.run(f"{PODMAN} rm --all --force --time 0")
        self.run(f"until rmdir {PARENT}/conmon {PARENT}; do sleep 0.1; done 2>/dev/null")
        self.run(
            "for each in $(cat /sys/fs/cgroup/cgroup.subtree_control); do "
            'echo "-$each" >/sys/fs/cgroup/cgroup.subtree_control; done'
        )


@pytest.fixture
def engine(scheduler):
    scheduler.vm.shape("honest")
    made = Engine(scheduler.vm)
    yield made
    made.end()


def test_limits_and_weights_of_containers_hold(engine):
    engine.start("held", "--cpus 0.5")
    engine.start("small", "--cpu-shares 1024")
    engine.start("large", "--cpu-shares 3072")
    got = engine.used()
    small, large = engine.weight("small"), engine.weight("large")
    assert large > 2 * small
    assert got["held"] == pytest.approx(0.5, rel=0.05), got
    assert got["small"] == pytest.approx((VCPUS - 0.5) * small / (small + large), rel=0.1), got
    assert sum(got.values()) > 0.97 * VCPUS, got
    engine.update("held", "--cpus 1.5")
    assert engine.used()["held"] == pytest.approx(1.5, rel=0.05)
