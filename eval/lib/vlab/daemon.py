# SPDX-License-Identifier: GPL-2.0-only
"""A VM that stays up under a name: its server, and the client that talks to it.

One request per connection to the unix socket in the run's folder, in lines of JSON. Replies:
{"out": base64} any number of times, then {"rc", "text"} or {"error", "code"}.
"""

import base64
import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from . import runs, truth
from .errors import EX_NOT_UP, EX_USAGE, LabError
from .vm import Vm

SOCKET = "control.sock"
DOWN_TIMEOUT_S = 20


def find(name: str) -> dict:
    """The live run called `name`. Raises LabError (64)."""
    for run in runs.live():
        if run["name"] == name and (run["path"] / SOCKET).exists():
            return run
    raise LabError(f"no VM called '{name}' is up; see vlab list", EX_USAGE)


def serve(vm: Vm, on_ready: Callable[[], None]) -> None:
    """Serve requests for `vm` until it is told to go down, or dies."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(vm.folder / SOCKET))
        listener.listen()
        listener.settimeout(0.5)
        on_ready()
        ended = threading.Event()
        while not ended.is_set() and vm.alive:
            with contextlib.suppress(TimeoutError):
                line, _ = listener.accept()
                threading.Thread(target=_answer, args=(vm, line, ended), daemon=True).start()


def ask(
    name: str, request: dict, on_output: Callable[[bytes], None] = lambda data: None
) -> tuple[int, str]:
    """Send one request to the VM called `name`; returns its exit code and text.

    Raises the LabError that the server met, or one (75) if it goes away.
    """
    run = find(name)
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(run["path"] / SOCKET))
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as replies:
                for reply in map(json.loads, replies):
                    if "out" in reply:
                        on_output(base64.b64decode(reply["out"]))
                    elif "error" in reply:
                        raise LabError(reply["error"], reply["code"])
                    else:
                        return reply["rc"], reply["text"]
        except OSError:
            pass  # told below
    raise LabError(f"the VM '{name}' went away; start it again with vlab up", EX_NOT_UP)


def down(name: str) -> None:
    """End the VM called `name`; by force if its server does not answer."""
    run = find(name)
    with contextlib.suppress(ProcessLookupError):
        os.kill(run["pid"], signal.SIGTERM)
    deadline = time.monotonic() + DOWN_TIMEOUT_S
    while run["path"].exists():
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(run["pid"], signal.SIGKILL)
            runs.destroy(run["path"])
        time.sleep(0.05)


def _answer(vm: Vm, line: socket.socket, ended: threading.Event) -> None:
    with line, contextlib.suppress(OSError), line.makefile("rb") as requests:
        try:
            reply = _do(vm, json.loads(requests.readline()), line)
        except LabError as why:
            reply = {"error": why.message, "code": why.exit_code}
            if why.exit_code == EX_NOT_UP:
                ended.set()
        line.sendall(json.dumps(reply).encode() + b"\n")


def _do(vm: Vm, request: dict, line: socket.socket) -> dict:
    text = ""
    match request["op"]:
        case "exec":
            return {"rc": _exec(vm, request, line), "text": ""}
        case "shape":
            vm.shape(request["shape"])
        case "truth":
            text = truth.table(vm.truth())
        case "get":
            vm.get(request["source"], Path(request["target"]))
        case "put":
            vm.put(Path(request["source"]), request["target"])
    return {"rc": 0, "text": text}


def _exec(vm: Vm, request: dict, line: socket.socket) -> int:
    handle = vm.spawn(request["cmd"], cwd=request["cwd"])

    def watch_client() -> None:
        # The client says nothing more: whatever ends this read is its end.
        with contextlib.suppress(OSError):
            line.recv(1)
        with contextlib.suppress(LabError):
            handle.kill(signal.SIGKILL)

    threading.Thread(target=watch_client, daemon=True).start()

    def pass_on(data: bytes) -> None:
        with contextlib.suppress(OSError):  # the watcher sees to it
            line.sendall(json.dumps({"out": base64.b64encode(data).decode()}).encode() + b"\n")

    return handle.wait(request["timeout_s"], pass_on).rc
