# SPDX-License-Identifier: GPL-2.0-only
"""Which kernel is found by which name."""

import pytest

from vlab import LabError, find_kernel, kernels, mirror


@pytest.fixture
def collection(tmp_path, monkeypatch):
    """A folder of kernels, with an empty cache and no mirror."""

    def add(release, sched_ext=True, initrd=False, folder=None):
        where = (folder or tmp_path / "collection") / release
        where.mkdir(parents=True)
        (where / "vmlinuz").touch()
        (where / "config").write_text("CONFIG_SCHED_CLASS_EXT=y\n" if sched_ext else "\n")
        if initrd:
            (where / "initrd").touch()

    def download(name, cache, fault):
        raise LabError(f"downloads {name}", 69)

    monkeypatch.setenv("VAWARE_LAB_KERNELS", str(tmp_path / "collection"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "download", download)
    (tmp_path / "collection").mkdir()
    return add


def test_default_is_the_preferred_series(collection):
    for release in ("7.3.4-cloud", "7.2.13-cloud", "6.12.1"):
        collection(release)
    assert find_kernel().release == "7.2.13-cloud"


def test_default_is_else_the_newest_with_sched_ext(collection):
    collection("6.12.9")
    collection("6.14.1")
    collection("7.4.0", sched_ext=False)
    assert find_kernel().release == "6.14.1"


def test_a_prefix_ends_at_the_end_of_a_number(collection):
    collection("6.12.117")
    collection("6.1.0-56", sched_ext=False, initrd=True)
    found = find_kernel("6.1")
    assert found.release == "6.1.0-56"
    assert found.initrd and not found.sched_ext


def test_a_prefix_takes_the_newest_that_it_fits(collection):
    collection("7.2.9-cloud")
    collection("7.2.13-cloud")
    assert find_kernel("7.2").release == "7.2.13-cloud"


def test_a_folder_is_taken_as_it_is(collection, tmp_path):
    collection("mine", folder=tmp_path / "elsewhere")
    assert find_kernel(str(tmp_path / "elsewhere/mine")).release == "mine"


def test_the_named_folder_wins_over_the_cache(collection, tmp_path):
    collection("7.2.1")
    collection("7.2.1", folder=kernels.cache())
    assert find_kernel("7.2").vmlinuz.is_relative_to(tmp_path / "collection")


def test_what_is_not_at_hand_is_downloaded(collection):
    collection("7.2.1")
    with pytest.raises(LabError, match="downloads 7.3"):
        find_kernel("7.3")


def test_a_name_that_means_nothing_is_refused(collection):
    with pytest.raises(LabError) as error:
        find_kernel("newest")
    assert error.value.exit_code == 64


def test_an_empty_folder_is_refused(collection, tmp_path):
    with pytest.raises(LabError) as error:
        find_kernel(str(tmp_path))
    assert error.value.exit_code == 64
    assert "vmlinuz and config" in error.value.message
