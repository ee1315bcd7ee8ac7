# SPDX-License-Identifier: GPL-2.0-only
"""How the command lines of eval end."""

import argparse
import os
import signal

import pytest

from vlab import LabError, tool

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers():
    """The signal handlers of the tests come back."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def fail():
    raise LabError("it is gone; start it again", 75)


@pytest.mark.parametrize("act, code", [(lambda: None, 0), (lambda: 3, 3), (fail, 75)])
def test_a_command_ends_with_the_code_of_what_it_did(act, code, capsys):
    assert tool.run("name", act) == code
    assert capsys.readouterr().err == ("name: it is gone; start it again\n" if code == 75 else "")


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_lets_it_end_what_it_has_begun(number):
    signal.signal(number, signal.SIG_DFL)  # whatever these tests were started under
    ended = []

    def act():
        try:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 10)
        finally:
            ended.append(number)

    assert tool.run("name", act) == 130
    assert ended == [number]


@pytest.mark.parametrize("number", ENDING)
def test_a_second_signal_ends_what_hangs_while_it_ends(number):
    def act():
        try:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 10)
        finally:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 10)

    child = os.fork()
    if not child:
        signal.signal(number, signal.SIG_DFL)
        os._exit(tool.run("name", act))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -number


def test_under_nohup_a_hangup_is_nothing():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert tool.run("name", lambda: os.kill(os.getpid(), signal.SIGHUP)) == 0


def test_what_was_built_is_where_cargo_was_told(monkeypatch, tmp_path):
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    assert tool.built("release/x") == tmp_path / "release/x"
    monkeypatch.delenv("CARGO_TARGET_DIR")
    assert tool.built("release/x").parts[-3:] == ("target", "release", "x")


def test_a_bad_argument_is_told_in_a_sentence(capsys):
    parser = tool.make_parser("name", "Does it.")
    parser.add_argument("--count", type=tool.positive)
    for text in ("0", "-1", "many"):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([f"--count={text}"])
        assert ended.value.code == 64
        assert "see name --help" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon"])
def test_a_time_that_cannot_pass_is_refused(text):
    for read in (tool.seconds, tool.positive_seconds):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)


def test_no_time_is_enough_to_wait_and_too_short_to_run():
    assert tool.seconds("0") == 0
    assert tool.positive_seconds("0.5") == 0.5
    with pytest.raises(argparse.ArgumentTypeError):
        tool.positive_seconds("0")


def test_results_that_cannot_be_read_are_told(tmp_path):
    file = tmp_path / "trials.jsonl"
    with pytest.raises(LabError, match="--out"):
        tool.read_lines(file)
    file.write_text('{"a": 1}\n{"a": 2}\n')
    assert tool.read_lines(file) == [{"a": 1}, {"a": 2}]
    file.write_text('{"a"')
    with pytest.raises(LabError, match="--out"):
        tool.read_lines(file)
