# SPDX-License-Identifier: GPL-2.0-only
"""Which accelerator: what a trial boot said is remembered, and what nobody said is not."""

import pytest

from vlab import accel


@pytest.mark.parametrize(
    "written, works", [("works", True), ("fails", False), ("", None), ("wor", None)]
)
def test_a_record_that_is_not_complete_says_nothing(tmp_path, monkeypatch, written, works):
    record = tmp_path / "record"
    monkeypatch.setattr(accel, "_record", lambda kernel: record)
    assert accel._remembered(None) is None
    record.write_text(written)
    assert accel._remembered(None) is works
