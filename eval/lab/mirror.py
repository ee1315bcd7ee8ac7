# SPDX-License-Identifier: GPL-2.0-only
"""Gets a stock Debian cloud kernel from the mirror this system uses, and checks that it will do.

An apt run of its own, with its own sources and lists: the system's apt never hears of it. Packages
are verified with the distribution's archive key, as always.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import btf, kernels
from .errors import EX_UNAVAILABLE, LabError, notice

SUITES = ("bookworm-backports", "trixie-backports", "sid")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
RELEASE = re.compile(r"linux-(?:binary|image)-(?:unsigned-)?(\d\S*-cloud-amd64)$")
# Where a release keeps its kernel and configuration has changed over time: first ones first.
PACKAGES = ("linux-binary-{}", "linux-binary-unsigned-{}", "linux-base-{}", "linux-image-{}")
PLACES = {
    "vmlinuz": (
        "usr/lib/modules/{}/vmlinuz",
        "usr/lib/modules/{}/vmlinuz.unsigned",
        "boot/vmlinuz-{}",
    ),
    "config": ("usr/lib/modules/{}/config", "boot/config-{}"),
}
WANTED = ("SCHED_CLASS_EXT", "DEBUG_INFO_BTF", "VIRTIO_PCI", "VIRTIO_CONSOLE", "VIRTIO_FS")
TRIES = 5


def download(name: str | None, cache: Path) -> Path:
    """Download the newest fitting release that `name` matches into `cache`; returns its folder.

    A whole release name is taken even if no scheduler can load on it (a case for tests). Raises
    LabError (69) if there is none, with what was tried.
    """
    _require_debian(name)
    cache.mkdir(parents=True, exist_ok=True)
    reasons = []
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix="download-") as temporary:
        apt = _Apt(Path(temporary))
        releases = [r for r in apt.releases() if not name or kernels.matches(r, name)]
        for release in releases[:TRIES]:
            notice(f"trying kernel {release} from {apt.mirror}.")
            folder = Path(temporary) / "kernels" / release
            reason = apt.fetch(release, folder) or _missing_options(folder) or _fault(folder)
            if reason and release == name and (folder / "vmlinuz").exists():
                notice(f"{release} is taken because you named it, although {reason}.")
                reason = ""
            if not reason:
                shutil.rmtree(cache / release, ignore_errors=True)
                return Path(shutil.move(folder, cache / release))
            notice(f"{release} will not do: {reason}.")
            reasons.append(f"{release}: {reason}")
    tried = "; ".join(reasons) or "it has no such release"
    raise LabError(
        f"the mirror {apt.mirror} has no kernel {name or 'with sched_ext'} that will do ({tried}); "
        f"put one into ${kernels.FOLDERS_VARIABLE}/RELEASE as vmlinuz and config",
        EX_UNAVAILABLE,
    )


class _Apt:
    """apt-get with sources, lists and cache of its own in folder `home`."""

    def __init__(self, home: Path):
        self.home = home
        self.mirror = _mirror()
        for folder in ("lists/partial", "archives/partial", "packages"):
            (home / folder).mkdir(parents=True)
        lines = [
            f"deb [arch=amd64 target=Packages signed-by={KEYRING}] {self.mirror} {suite} main\n"
            for suite in SUITES
        ]
        (home / "sources.list").write_text("".join(lines))
        self._run("apt-get", "update")

    def releases(self) -> list[str]:
        """Releases of cloud kernels, newest first."""
        names = self._run("apt-cache", "pkgnames", "linux-").split()
        found = {match[1] for match in map(RELEASE.match, names) if match}
        return sorted(found, key=kernels.version, reverse=True)

    def fetch(self, release: str, folder: Path) -> str:
        """Put vmlinuz and config of `release` into `folder`; returns why not, or nothing."""
        unpacked = self.home / "packages" / release
        unpacked.mkdir()
        folder.mkdir(parents=True)
        known = set(self._run("apt-cache", "pkgnames", "linux-").split())
        for package in (p.format(release) for p in PACKAGES):
            if package in known:
                self._run("apt-get", "download", package, cwd=unpacked)
                for archive in unpacked.glob("*.deb"):
                    subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
                    archive.unlink()
            for file, places in PLACES.items():
                for place in (unpacked / p.format(release) for p in places):
                    if place.exists():
                        shutil.copy(place, folder / file)
            if all((folder / file).exists() for file in PLACES):
                return ""
        return "its packages hold no vmlinuz and config"

    def _run(self, *command: str, cwd: Path | None = None) -> str:
        options = {
            "Dir::Etc::SourceList": self.home / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self.home / "lists",
            "Dir::Cache": self.home,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
        }
        args = [f"-o{key}={value}" for key, value in options.items()]
        done = subprocess.run(
            [command[0], *args, *command[1:]], cwd=cwd, capture_output=True, text=True
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).split("\n")[0]
            raise LabError(
                f"{' '.join(command)} failed ({said}); check the network and apt, or put a kernel "
                f"into ${kernels.FOLDERS_VARIABLE}/RELEASE as vmlinuz and config",
                EX_UNAVAILABLE,
            )
        return done.stdout


def _require_debian(name: str | None) -> None:
    if not (shutil.which("apt-get") and KEYRING.exists()):
        raise LabError(
            f"there is no kernel {name or 'with sched_ext'} at hand, and only Debian's can be "
            f"downloaded; put one into ${kernels.FOLDERS_VARIABLE}/RELEASE as vmlinuz and config",
            EX_UNAVAILABLE,
        )


def _mirror() -> str:
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    said = subprocess.run(command, capture_output=True, text=True).stdout.split()
    main = [uri for uri in said if "security" not in uri and uri.rstrip("/").endswith("debian")]
    if not main:
        raise LabError("apt knows no Debian mirror; add one to its sources and try again")
    return main[0]


def _missing_options(folder: Path) -> str:
    config = (folder / "config").read_text()
    missing = [option for option in WANTED if f"CONFIG_{option}=y\n" not in config]
    return f"it is built without {', '.join(missing)}" if missing else ""


def _fault(folder: Path) -> str:
    """Boot it and look at its BTF: returns what is wrong, or nothing."""
    from .vm import Vm  # which finds its kernel by way of this module

    blob = folder.parent / "btf"
    try:
        with Vm(str(folder), vcpus=1, memory_mib=1024, shape="floating:1") as vm:
            vm.get("/sys/kernel/btf/vmlinux", blob)
        bad = btf.malformed_kfuncs(blob.read_bytes())
    except (LabError, ValueError) as why:
        return f"its trial failed ({why})"
    if bad:
        return f"its BTF is malformed for schedulers ({len(bad)} kfuncs, such as {bad[0]})"
    return ""
