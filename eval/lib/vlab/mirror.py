# SPDX-License-Identifier: GPL-2.0-only
"""Gets a stock kernel from the mirror this system uses, and checks that it will do.

Debian's are cloud kernels, Ubuntu's the newer ones of its updates, with an initrd. An apt run of
its own, with its own sources and lists: the system's apt never hears of it. Packages are verified
with the distribution's archive key, as always.
"""

import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import initrd, kernels
from .errors import EX_UNAVAILABLE, LabError, notice


@dataclass(frozen=True)
class Archive:
    """The archive of a distribution, and which of its packages are kernels for the lab."""

    origin: str  # as the archive calls itself
    keyring: Path
    suites: tuple[str, ...]  # {} is the codename of this system
    release: re.Pattern  # finds a kernel's release in the name of a package
    packages: tuple[str, ...]  # of a release: those with its files; names differ between suites
    whole_series: bool  # try all updates of a series (7.2), or the newest one only


KEYRINGS = Path("/usr/share/keyrings")
DEBIAN = Archive(
    "Debian",
    KEYRINGS / "debian-archive-keyring.gpg",
    ("bookworm-backports", "trixie-backports", "sid"),
    re.compile(r"linux-(?:binary|image)-(?:unsigned-)?(\d\S*-cloud-amd64)$"),
    ("linux-binary-{}", "linux-binary-unsigned-{}", "linux-base-{}", "linux-image-{}"),
    whole_series=True,
)
# Here the flavors of single clouds have nothing that the generic one has not.
UBUNTU = Archive(
    "Ubuntu",
    KEYRINGS / "ubuntu-archive-keyring.gpg",
    ("{}", "{}-updates"),
    re.compile(r"linux-image-(\d\S*-generic)$"),
    ("linux-image-{}", "linux-modules-{}"),
    whole_series=False,
)
BUSYBOX = "busybox-static"
# Where a release keeps its kernel and configuration has changed over time: first ones first.
PLACES = {
    "vmlinuz": (
        "usr/lib/modules/{}/vmlinuz",
        "usr/lib/modules/{}/vmlinuz.unsigned",
        "boot/vmlinuz-{}",
    ),
    "config": ("usr/lib/modules/{}/config", "boot/config-{}"),
}
WANTED = ("SCHED_CLASS_EXT", "DEBUG_INFO_BTF", "VIRTIO_PCI", "VIRTIO_CONSOLE", "FUSE_FS")
TRIES = 5


def download(name: str | None, cache: Path, fault: Callable[[Path], str]) -> Path:
    """Download the newest fitting release that `name` matches into `cache`; returns its folder.

    `fault` tries the kernel in a folder and says what is wrong with it, or nothing. A
    whole release name is taken even if no scheduler can load on it (a case for tests). Raises
    LabError (69) if there is none, with what was tried.
    """
    archive, address = _archive(name)
    cache.mkdir(parents=True, exist_ok=True)
    reasons = []
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix="download-") as temporary:
        apt = _Apt(Path(temporary), archive, address)
        releases = apt.releases(name)
        for release in releases[:TRIES]:
            notice(f"trying kernel {release} from {apt.mirror}.")
            folder = Path(temporary) / "kernels" / release
            reason = apt.fetch(release, folder) or _missing_options(folder) or fault(folder)
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

    def __init__(self, home: Path, archive: Archive, mirror: str):
        self.home = home
        self.archive = archive
        self.mirror = mirror
        for folder in ("lists/partial", "archives/partial", "packages"):
            (home / folder).mkdir(parents=True)
        lines = [
            f"deb [arch=amd64 target=Packages signed-by={archive.keyring}] {mirror} {suite} main\n"
            for suite in map(_with_codename, archive.suites)
        ]
        (home / "sources.list").write_text("".join(lines))
        self._run("apt-get", "update")

    def releases(self, name: str | None) -> list[str]:
        """Releases of kernels that `name` matches, newest first."""
        names = self._run("apt-cache", "pkgnames", "linux-").split()
        found = {match[1] for match in map(self.archive.release.match, names) if match}
        fitting = [release for release in found if not name or kernels.matches(release, name)]
        fitting.sort(key=kernels.version, reverse=True)
        if self.archive.whole_series:
            return fitting
        newest: dict[tuple[int, ...], str] = {}
        for release in fitting:
            newest.setdefault(kernels.version(release)[:2], release)
        return list(newest.values())

    def fetch(self, release: str, folder: Path) -> str:
        """Put vmlinuz, config and, where it needs one, initrd of `release` into `folder`.

        Returns why not, or nothing.
        """
        unpacked = self.home / "packages" / release
        folder.mkdir(parents=True)
        known = set(self._run("apt-cache", "pkgnames", "linux-").split())
        for package in (p.format(release) for p in self.archive.packages):
            if package in known:
                self._unpack(package, unpacked)
            for file, places in PLACES.items():
                for place in (unpacked / p.format(release) for p in places):
                    if place.exists():
                        shutil.copy(place, folder / file)
            if all((folder / file).exists() for file in PLACES):
                break
        else:
            return "its packages hold no vmlinuz and config"
        if "CONFIG_VIRTIO_FS=y\n" in (folder / "config").read_text():
            return ""
        tools = self.home / "packages" / BUSYBOX
        self._unpack(BUSYBOX, tools)
        busybox = next(tools.glob("**/bin/busybox"))
        return initrd.build(unpacked, release, busybox, folder / "initrd")

    def _unpack(self, package: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._run("apt-get", "download", package, cwd=folder)
        for deb in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)
            deb.unlink()

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


def _archive(name: str | None) -> tuple[Archive, str]:
    """The archive to take a kernel from, and its address in the configuration of apt."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN)", "Created-By: Packages"]
    said = ""
    if shutil.which("apt-get"):
        said = subprocess.run(asked, capture_output=True, text=True).stdout
    for archive in (DEBIAN, UBUNTU):
        for address, _, origin in (line.partition(" ") for line in said.splitlines()):
            is_main = origin == archive.origin and "security" not in address
            if is_main and archive.keyring.exists():
                return archive, address
    raise LabError(
        f"there is no kernel {name or 'with sched_ext'} at hand, and apt knows no archive of "
        "Debian or Ubuntu to take one from; run apt-get update, or put one into "
        f"${kernels.FOLDERS_VARIABLE}/RELEASE as vmlinuz and config",
        EX_UNAVAILABLE,
    )


def _with_codename(suite: str) -> str:
    return suite.format(platform.freedesktop_os_release().get("VERSION_CODENAME", ""))


def _missing_options(folder: Path) -> str:
    config = (folder / "config").read_text()
    missing = [option for option in WANTED if f"CONFIG_{option}=y\n" not in config]
    return f"it is built without {', '.join(missing)}" if missing else ""
