# SPDX-License-Identifier: GPL-2.0-only
"""The packages: what is in them, and their life in a guest whose PID 1 is systemd."""

import os
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, boot, sched_ext, wait_until
from vlab import Vm

pytestmark = [pytest.mark.vm, pytest.mark.long]
REPO = Path(__file__).resolve().parents[1]
PACKAGES = REPO / "target/packages"
NFPM = REPO / "target/tools/bin/nfpm"
PID_1 = Path(__file__).resolve().parent / "guest/packages.sh"
PROGRAM_BYTES_MAX = 10 * 10**6
UNIT = "scx_vaware"
CONFIG = "/etc/scx_vaware.toml"
# What a package, systemd or the daemon may leave something in. The folders themselves are not ours.
WATCHED = "/etc /usr/bin /usr/lib/systemd/system /usr/share/man /usr/share/doc"
PRIVATE = "/run/private /var/lib/private"  # made by systemd for the first unit that needs them
LINKS = "/run/scx_vaware /var/lib/scx_vaware"
LISTED = f"(find {WATCHED} {PRIVATE} -mindepth 1; ls -d {LINKS}) 2>/dev/null | sort"


@pytest.fixture(scope="module")
def stage() -> Path:
    """The tree that all packages hold."""
    if not (PACKAGES / "stage").is_dir():
        pytest.fail(f"there is no {PACKAGES} to test; run make packages", pytrace=False)
    return PACKAGES / "stage"


def output(*command) -> str:
    """What it prints; a checksum among it is no text."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)
    return done.stdout


def test_the_program_is_small_and_depends_on_nothing(stage):
    program = stage / "usr/bin/scx_vaware"
    assert program.stat().st_size < PROGRAM_BYTES_MAX
    headers = output("readelf", "--wide", "--segments", "--dynamic", program)
    assert "INTERP" not in headers and "NEEDED" not in headers
    [debug] = PACKAGES.glob("*.debug")
    assert debug.name in output("readelf", "--string-dump=.gnu_debuglink", program)


def test_every_command_has_its_manual(stage):
    helped = output(stage / "usr/bin/scx_vaware", "--help")
    listed = helped.partition("Commands:")[2].partition("\n\n")[0]
    commands = re.findall(r"^  (\w+) ", listed, re.M)
    assert len(commands) > 4
    for name in ["scx_vaware", *(f"scx_vaware-{c}" for c in commands if c != "help")]:
        page = output("zcat", stage / f"usr/share/man/man8/{name}.8.gz")
        assert page.count(".SH ") > 2, name
    completions = stage / "usr/share/bash-completion/completions/scx_vaware"
    assert subprocess.run(["bash", "-n", completions]).returncode == 0


def test_packages_hold_the_same_files(stage):
    tree = {f"/{path.relative_to(stage)}" for path in stage.rglob("*") if path.is_file()}
    [deb] = PACKAGES.glob("*.deb")
    in_deb = output("dpkg-deb", "--contents", deb)
    assert {line.split()[5][1:] for line in in_deb.splitlines() if line[0] == "-"} == tree
    [rpm] = PACKAGES.glob("*.rpm")
    assert tree <= set(output("rpm", "-qpl", rpm).splitlines())
    [ball] = PACKAGES.glob("*.tar.gz")
    with tarfile.open(ball) as opened:
        assert {f"/{member.name}" for member in opened if member.isfile()} == tree
    dashboards = {path.name for path in (REPO / "deploy").glob("grafana-*.json")}
    assert dashboards <= {Path(name).name for name in tree}


@dataclass(frozen=True)
class Manager:
    """A package manager, and its words in the guest."""

    kind: str
    install: str  # also an upgrade and a downgrade
    remove: str
    purge: str | None


DPKG = "dpkg --admindir=/run/dpkg --log=/run/dpkg.log"
RPM = "rpm --dbpath /run/rpm --nodeps"
MANAGERS = [
    Manager("deb", f"{DPKG} -i", f"{DPKG} -r scx-vaware", f"{DPKG} -P scx-vaware"),
    Manager("rpm", f"{RPM} -U --oldpackage", f"{RPM} -e scx-vaware", None),
]


@pytest.fixture(scope="module")
def guest(binary):
    """A guest that runs systemd, and has nothing of ours installed."""
    if " " in str(PID_1):
        pytest.skip("the kernel's command line cannot name a path with spaces")
    vm = boot(DEFAULT_KERNEL, binary, append=f"LAB_INIT={PID_1}")
    yield vm
    vm.down()


def package(stage: Path, folder: Path, kind: str, version: str) -> Path:
    """The package as of another version."""
    named = {"VERSION": version, "STAGE": str(stage), "MAINTAINER": "Test <test@example.org>"}
    command = [NFPM, "package", "-f", "deploy/packages/nfpm.yaml", "-p", kind, "-t", folder]
    subprocess.run(command, cwd=REPO, env={**os.environ, **named}, check=True, capture_output=True)
    [made] = folder.glob(f"*{version}*.{kind}")
    return made


def state(vm: Vm) -> tuple[str, str, str]:
    """Whether the unit is enabled, and runs, and what the kernel says."""
    asked = vm.run(f"systemctl is-enabled {UNIT}; systemctl is-active {UNIT}", LIMIT_S).output
    enabled, active = asked.split("\n")[:2] if asked.count("\n") > 1 else ("none", asked.strip())
    return enabled, active, sched_ext(vm).state


# As the package of scx's schedulers has it: what to start stands in /etc/default/scx.
SCX_SERVICE = """\
[Service]
EnvironmentFile=/etc/default/scx
ExecStart=/bin/bash -c 'exec $SCX_SCHEDULER $SCX_FLAGS'
"""
SCX_DEFAULT = """\
SCX_SCHEDULER=scx_vaware
SCX_FLAGS='--policies rescue --listen off'
"""


def test_scx_service_starts_it(guest, stage):
    files = {"/etc/systemd/system/scx.service": SCX_SERVICE, "/etc/default/scx": SCX_DEFAULT}
    for file, text in files.items():
        assert guest.run(f"cat >{file} <<'END'\n{text}END", LIMIT_S).rc == 0
    guest.put(stage / "usr/bin/scx_vaware", "/usr/bin/scx_vaware")
    assert guest.run("systemctl daemon-reload; systemctl start scx", LIMIT_S).rc == 0
    wait_until(guest, lambda: sched_ext(guest).state == "enabled", "the load")
    assert guest.run("systemctl stop scx", LIMIT_S).rc == 0
    assert sched_ext(guest).state == "disabled"
    assert guest.run(f"rm /usr/bin/scx_vaware {' '.join(files)}; systemctl daemon-reload").rc == 0


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.kind)
def test_a_life_from_installation_to_removal(guest, stage, tmp_path, manager):
    for version in ["0.1.0", "0.2.0", "0.3.0"]:
        made = package(stage, tmp_path, manager.kind, version)
        guest.put(made, f"/tmp/{version}.{manager.kind}")

    def install(version: str) -> None:
        done = guest.run(f"{manager.install} /tmp/{version}.{manager.kind}", LIMIT_S)
        assert done.rc == 0, done.output

    before = guest.run(LISTED, LIMIT_S).output
    install("0.1.0")
    assert state(guest) == ("disabled", "inactive", "disabled")
    install("0.2.0")
    assert state(guest) == ("disabled", "inactive", "disabled"), "an upgrade starts nothing"

    started = guest.run(f"systemctl enable --now {UNIT}", LIMIT_S)
    assert started.rc == 0, guest.run(f"journalctl -u {UNIT} --no-pager", LIMIT_S).output
    guest.run(f"echo 'policies = [\"rescue\"]' >{CONFIG}", LIMIT_S)
    pids = set()
    for version in ["0.3.0", "0.1.0"]:  # up and down again
        install(version)
        assert state(guest) == ("enabled", "active", "enabled")
        status = guest.run(f"systemctl show -P MainPID -P StatusText {UNIT}", LIMIT_S).output
        assert "on: rescue" in status, "the configuration is kept"
        pids.add(status.split()[0])
    assert len(pids) == 2, "the new program runs"

    removed = guest.run(manager.remove, LIMIT_S)
    assert removed.rc == 0, removed.output
    assert sched_ext(guest).state == "disabled"
    if manager.purge:
        assert guest.run(f"grep -c rescue {CONFIG}", LIMIT_S).output == "1\n"
        assert guest.run(manager.purge, LIMIT_S).rc == 0
    else:
        assert guest.run(f"rm {CONFIG}.rpmsave", LIMIT_S).rc == 0, "as rpm keeps what was changed"
    after = guest.run(LISTED, LIMIT_S).output
    assert set(after.splitlines()) - set(before.splitlines()) == set(), "nothing is left"
    failed = guest.run("systemctl list-units --all --plain --no-legend 'scx_vaware*'", LIMIT_S)
    assert failed.output == ""
