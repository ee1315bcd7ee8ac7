# SPDX-License-Identifier: GPL-2.0-only
"""The picture of gathering: what is read of the metrics, and what is drawn."""

import json
from xml.etree import ElementTree

import pytest

import gathering
from vlab import LabError

PAGE = """\
# HELP scx_vaware_open_vcpus Online vCPUs
scx_vaware_open_vcpus 6.0
scx_vaware_gather_factor_ratio{factor="rho"} 0.5
scx_vaware_gather_factor_ratio{factor="eta"} 1.0
"""
FACTS = {
    "command": "make gathering",
    "build": "abc",
    "version": "0.1.0",
    "date": "2026-11-28",
    "kernels": ["7.2"],
    "ns_per_instruction": 2,
}


def line(picture, kind):
    found = [each for each in ElementTree.fromstring(picture) if each.get("class") == kind]
    assert len(found) == 1
    return found[0].get("d")


def test_a_sample_is_read_of_a_page():
    assert gathering.parse(PAGE, 1.5) == gathering.Sample(1.5, 6, 0.5, 1)


def test_a_page_without_the_policy_is_refused():
    with pytest.raises(LabError, match="rho"):
        gathering.parse("scx_vaware_open_vcpus 6.0\n", 0)


def test_a_value_holds_until_the_next_one():
    samples = [gathering.Sample(0, 8, 1, 1), gathering.Sample(7, 4, 0.1, 1)]
    drawn = gathering.picture(samples, "of today")
    at = gathering.LEFT + (gathering.WIDTH - gathering.LEFT - gathering.RIGHT) / 6
    top, half = gathering.TOP, gathering.TOP + gathering.PANEL_H / 2
    assert line(drawn, "open") == f"M{gathering.LEFT:.1f} {top:.1f}H{at:.1f}V{half:.1f}"
    eta, rho = gathering.TOP + gathering.PANEL_H + gathering.GAP, gathering.PANEL_H / 3
    assert line(drawn, "eta") == f"M{gathering.LEFT:.1f} {eta:.1f}H{at:.1f}V{eta:.1f}"
    assert line(drawn, "rho") == f"M{gathering.LEFT:.1f} {eta:.1f}H{at:.1f}V{eta + rho:.1f}"
    assert "of today" in drawn and "4 to 8 of 8 vCPUs" in drawn


def test_what_was_kept_is_drawn_again(tmp_path):
    kept, out = tmp_path / "kept.json", tmp_path / "out.svg"
    kept.write_text(
        json.dumps({"facts": FACTS, "samples": [{"s": 1, "open": 8, "rho": 1, "eta": 1}]})
    )
    assert gathering.main(["--draw", str(kept), "--out", str(out)]) == 0
    assert "repository abc, 2026-11-28, kernel 7.2" in out.read_text()


def test_a_file_that_is_none_is_refused(tmp_path, capsys):
    assert gathering.main(["--draw", str(tmp_path / "none")]) == 64
    assert "cannot be read" in capsys.readouterr().err
