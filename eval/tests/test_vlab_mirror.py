# SPDX-License-Identifier: GPL-2.0-only
"""Which kernels are taken from which archive, and the initrd that some of them need."""

import pytest

from vlab import LabError, initrd, mirror

UBUNTU_TARGETS = (
    "http://mirror.example/third-party/ubuntu Third Party\n"
    "http://security.example/ubuntu/ Ubuntu\n"
    "http://mirror.example/ubuntu/ Ubuntu\n"
)
RELEASE = "7.0.0-43-generic"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Stands for programs: each prints what it is given here."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def add(name, output):
        (tmp_path / f"{name}.out").write_text(output)
        (tmp_path / name).write_text(f"#!/bin/sh\ncat {tmp_path}/{name}.out\n")
        (tmp_path / name).chmod(0o755)

    return add


@pytest.fixture
def keyrings(tmp_path, monkeypatch):
    """Both keys are here."""
    for name in ("DEBIAN", "UBUNTU"):
        archive = getattr(mirror, name)
        monkeypatch.setattr(mirror, name, _with_key(archive, tmp_path))


def _with_key(archive, folder):
    key = folder / archive.keyring.name
    key.touch()
    return mirror.Archive(**vars(archive) | {"keyring": key})


def apt(tmp_path, archive):
    return mirror._Apt(tmp_path / "home", archive, "http://mirror.example/")


def test_the_archive_is_the_one_of_the_system_itself(programs, keyrings):
    programs("apt-get", UBUNTU_TARGETS)
    archive, address = mirror._archive(None)
    assert archive.origin == "Ubuntu" and address == "http://mirror.example/ubuntu/"


def test_without_a_known_archive_it_says_what_to_do(programs, keyrings):
    programs("apt-get", "http://mirror.example/ubuntu/ Third Party\n")
    with pytest.raises(LabError, match="apt-get update") as error:
        mirror._archive("7.2")
    assert error.value.exit_code == 69


def test_of_ubuntu_the_newest_of_each_series_is_tried(programs, tmp_path):
    programs("apt-get", "")
    programs(
        "apt-cache",
        "linux-image-6.8.0-50-generic\nlinux-image-7.0.0-9-generic\n"
        "linux-image-7.0.0-43-generic\nlinux-image-unsigned-7.0.0-44-generic\n"
        "linux-image-7.0.0-1018-aws\nlinux-image-generic\n",
    )
    found = apt(tmp_path, mirror.UBUNTU)
    assert found.releases(None) == ["7.0.0-43-generic", "6.8.0-50-generic"]
    assert found.releases("7.0.0-9-generic") == ["7.0.0-9-generic"]


def test_of_debian_every_cloud_kernel_is_tried(programs, tmp_path):
    programs("apt-get", "")
    programs(
        "apt-cache",
        "linux-image-7.2.9+deb13-cloud-amd64\nlinux-binary-unsigned-7.2.13+deb14-cloud-amd64\n"
        "linux-binary-7.2.13+deb14-cloud-amd64\nlinux-image-7.2.13+deb14-amd64\n",
    )
    assert apt(tmp_path, mirror.DEBIAN).releases("7.2") == [
        "7.2.13+deb14-cloud-amd64",
        "7.2.9+deb13-cloud-amd64",
    ]


def modules(tmp_path, content):
    """An unpacked package that has virtiofs."""
    module = tmp_path / "unpacked" / initrd.MODULE.format(RELEASE)
    module.parent.mkdir(parents=True)
    module.write_bytes(content)
    return tmp_path / "unpacked"


def test_an_initrd_holds_what_the_kernel_has_as_a_module(tmp_path):
    busybox = tmp_path / "busybox"
    busybox.write_text(
        "#!/bin/sh\nwhile read name; do echo $name; [ -d $name ] || cat $name; done\n"
    )
    busybox.chmod(0o755)
    unpacked = modules(tmp_path, b"the module\0depends=\0")
    assert initrd.build(unpacked, RELEASE, busybox, tmp_path / "initrd") == ""
    made = (tmp_path / "initrd").read_bytes()
    assert b"virtiofs.ko\nthe module" in made and b"switch_root" in made


def test_a_kernel_that_needs_more_than_one_module_will_not_do(tmp_path):
    unpacked = modules(tmp_path, b"\0depends=fuse,virtio\0")
    assert "fuse,virtio" in initrd.build(unpacked, RELEASE, tmp_path, tmp_path / "initrd")
    assert "no virtiofs" in initrd.build(tmp_path, RELEASE, tmp_path, tmp_path / "initrd")
