# SPDX-License-Identifier: GPL-2.0-only
"""The cgroup layer against folders that stand in for the two hierarchies."""

import pytest

from vlab import LabError, cgroups


@pytest.fixture
def v1(tmp_path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.shares").write_text("1024")
    return tmp_path


@pytest.fixture
def v2(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io")
    (tmp_path / "cgroup.subtree_control").write_text("")
    return tmp_path


def files(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_v1_puts_a_thread_in_a_group_with_its_weight(v1):
    groups = cgroups.CpuGroups("run", v1)
    groups.put("vcpu0", 17, 200)
    assert files(v1 / "cpu/run/vcpu0") == {
        "cpu.shares": "2048",
        "cpu.cfs_quota_us": "-1",
        "tasks": "17",
    }


def test_v1_quota_is_set_and_gone_with_the_next_put(v1):
    groups = cgroups.CpuGroups("run", v1)
    groups.put("vcpu0", 17)
    groups.limit("vcpu0", 30000, 100000)
    assert files(v1 / "cpu/run/vcpu0")["cpu.cfs_quota_us"] == "30000"
    assert files(v1 / "cpu/run/vcpu0")["cpu.cfs_period_us"] == "100000"
    groups.put("vcpu0", 17)
    assert files(v1 / "cpu/run/vcpu0")["cpu.cfs_quota_us"] == "-1"


def test_v2_makes_threaded_groups_and_adopts_the_process_first(v2):
    groups = cgroups.CpuGroups("run", v2)
    groups.adopt(11)
    groups.put("vcpu0", 17, 200)
    groups.limit("vcpu0", 30000, 100000)
    assert files(v2)["cgroup.subtree_control"] == "+cpu"
    assert files(v2 / "run")["cgroup.procs"] == "11"
    assert files(v2 / "run")["cgroup.subtree_control"] == "+cpu"
    assert files(v2 / "run/vcpu0") == {
        "cgroup.type": "threaded",
        "cpu.weight": "200",
        "cpu.max": "30000 100000",
        "cgroup.threads": "17",
    }


@pytest.mark.parametrize(("hierarchy", "weights"), [("v1", "4096"), ("v2", "400")])
def test_the_run_weighs_what_its_members_weigh(hierarchy, weights, request):
    root = request.getfixturevalue(hierarchy)
    groups = cgroups.CpuGroups("run", root)
    groups.put("vcpu0", 17, 300)
    groups.put("hog0", 18)
    if hierarchy == "v1":
        assert files(root / "cpu/run")["cpu.shares"] == weights
    else:
        assert files(root / "run")["cpu.weight"] == weights


def test_remove_takes_the_members_and_the_run(v1):
    for folder in ("cpu/run/vcpu0", "cpu/run/hog0", "run/vcpu1"):
        (v1 / folder).mkdir(parents=True)
    cgroups.remove("run", v1)
    assert not (v1 / "cpu/run").exists()
    assert not (v1 / "run").exists()
    assert (v1 / "cpu/cpu.shares").exists()


def test_a_host_without_the_controller_is_told_so(tmp_path):
    with pytest.raises(LabError) as error:
        cgroups.CpuGroups("run", tmp_path)
    assert error.value.exit_code == 69
    assert "cgroup2" in error.value.message
