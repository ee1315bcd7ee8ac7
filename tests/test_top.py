# SPDX-License-Identifier: GPL-2.0-only
"""`scx_vaware top` on a terminal and elsewhere, on the metrics of a VM that does not exist."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from prometheus_tools import REPO, simulated
from vlab import tool

LIMIT_S = 60
COLORS = re.compile(r"\x1b\[[\d;]*38;5;\d")
ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\x1b[()][A-Z0-9]")
LEAVES_SCREEN = "\x1b[?1049l"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with simulated(64) as address:
        yield address


@pytest.fixture(scope="module")
def binary() -> str:
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "-p", "scx_vaware"],
        check=True,
        cwd=REPO,
    )
    return str(tool.built("release/scx_vaware"))


@dataclass
class Terminal:
    """A pseudo-terminal and the program on it."""

    process: subprocess.Popen
    controller: int
    before: list
    output: str = field(default="")

    def wait_for(self, text: str) -> None:
        """Read until `text` was written. Letters that stand there already are not written again."""
        seen, deadline = len(self.output), time.monotonic() + LIMIT_S
        while text not in ESCAPES.sub("", self.output[seen:]):
            assert time.monotonic() < deadline, f"{text!r} is not in {self.output[seen:]!r}"
            self._read()

    def press(self, keys: str) -> None:
        os.write(self.controller, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.controller, termios.TIOCSWINSZ, size)

    def expect_end(self) -> None:
        """The program ends well, and leaves the terminal as it was."""
        deadline = time.monotonic() + LIMIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.output
            self._read()
        self._read()
        assert self.process.returncode == 0, self.output
        assert LEAVES_SCREEN in self.output
        assert termios.tcgetattr(self.controller) == self.before

    def _read(self) -> None:
        if select.select([self.controller], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                self.output += os.read(self.controller, 1 << 16).decode(errors="replace")


@contextlib.contextmanager
def on_terminal(*command: str, **environment: str) -> Iterator[Terminal]:
    controller, user = pty.openpty()
    terminal = Terminal(None, controller, termios.tcgetattr(controller))
    terminal.resize(80, 24)
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    terminal.process = subprocess.Popen(
        command,
        stdin=user,
        stdout=user,
        stderr=user,
        env=inherited | {"TERM": "xterm-256color"} | environment,
        start_new_session=True,
    )
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(user)
        os.close(controller)


def test_keys_sort_filter_help_and_quit(binary, address):
    with on_terminal(binary, "top", "--from", address, "--interval", "0.5") as terminal:
        terminal.wait_for("1-18 of 64")
        assert COLORS.search(terminal.output)
        terminal.press("/banned\r")
        terminal.wait_for("1-8 of 8")
        terminal.press("h")
        terminal.wait_for("┌ help ")
        terminal.press("x")
        terminal.resize(200, 60)
        terminal.wait_for("socket")
        terminal.press("q")
        terminal.expect_end()


def test_no_colors_where_they_are_not_wanted(binary, address):
    with on_terminal(binary, "top", "--from", address, NO_COLOR="1") as terminal:
        terminal.wait_for("1-18 of 64")
        terminal.press("q")
        terminal.expect_end()
        assert not COLORS.search(terminal.output)


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_gives_the_terminal_back(binary, address, ended_by):
    with on_terminal(binary, "top", "--from", address) as terminal:
        terminal.wait_for("of 64")
        terminal.process.send_signal(ended_by)
        terminal.expect_end()


@pytest.mark.parametrize("read_bytes", [1 << 16, 1])  # the first screen, or not even that
def test_it_ends_with_its_terminal(binary, address, read_bytes):
    """As when a window is closed, or a connection breaks: nobody reads what it would write."""
    controller, user = pty.openpty()
    command = [binary, "top", "--from", address]
    ends = {"stdin": user, "stdout": user, "stderr": user}
    environment = os.environ | {"TERM": "xterm"}
    process = subprocess.Popen(command, **ends, env=environment, start_new_session=True)
    os.close(user)
    try:
        assert os.read(controller, read_bytes)
        os.close(controller)
        assert process.wait(LIMIT_S) in (0, 1)
    finally:
        process.kill()


def test_a_daemon_that_goes_and_comes_is_waited_for(binary):
    with on_terminal(binary, "top", "--from", "127.0.0.1:1", "--interval", "0.5") as terminal:
        terminal.wait_for("no answer: 127.0.0.1:1")
        terminal.press("q")
        terminal.expect_end()


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_terminal_that_has_no_screen_gets_tables(binary, address, environment):
    command = (binary, "top", "--from", address, "--interval", "0.5")
    with on_terminal(*command, **environment) as terminal:
        terminal.wait_for("scx_vaware: running, 64 vCPUs")
        assert "\x1b" not in terminal.output


def once(binary: str, address: str, *arguments: str) -> str:
    """What one table is, without a terminal."""
    command = [binary, "top", "--from", address, "--once", "--interval", "0.5", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_elsewhere_there_are_tables_of_each_kind(binary, address):
    text = once(binary, address)
    assert "\x1b" not in text and len(text.splitlines()) == 2 + 64
    told = json.loads(once(binary, address, "--format", "json", "--sort", "busy"))
    assert [vcpu["cpu"] for vcpu in told["vcpus"]][:3] == [60, 59, 58]
    assert told["vcpus"][0]["busy_ratio"] == pytest.approx(0.6, abs=0.05)
    names, *rows = once(binary, address, "--format", "csv", "--filter", "straggler").splitlines()
    assert names.startswith("cpu,busy_ratio,stolen_ratio,") and len(rows) == 8


def test_it_asks_where_the_configuration_says(binary, address, tmp_path):
    config = tmp_path / "scx_vaware.toml"
    config.write_text(f'listen = "{address}"\n')
    command = [binary, "top", "--config", str(config), "--once", "--interval", "0.5"]
    assert "64 vCPUs" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    config.write_text('listen = "off"\n')
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 78 and "--from" in refused.stderr
