# SPDX-License-Identifier: GPL-2.0-only
"""PostgreSQL under pgbench: a database in memory, with as many clients as make it wait."""

import shlex
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from vlab import LabError
from vlab.errors import EX_UNAVAILABLE

from . import programs
from .workload import Metric, Size, Workload, number

METRICS = (Metric("rate", "transactions/s", "higher"), Metric("latency", "ms", "lower"))
FOLDER = "/dev/shm/vaware-postgresql"
PORT = 15432
CLIENTS = 8
USER = "postgres"  # made by the package; the server refuses to run as root
# No disk: what is compared is scheduling.
OPTIONS = f"-F -h '' -p {PORT} -c synchronous_commit=off -c autovacuum=off"


def binary(name: str) -> str:
    """A program of PostgreSQL: in PATH, or where Debian puts those of the newest version."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda path: int(path.parent.name) if path.parent.name.isdecimal() else 0,
    )
    for folder in reversed(versions):
        if (folder / name).exists():
            return str(folder / name)
    return shutil.which(name) or name


def archive() -> Path:
    """A database that is ready to be unpacked, of the version that is installed."""
    return programs.path(f"postgresql-{Path(binary('initdb')).parent.parent.name}.tar")


def prepare() -> None:
    """Make the database once, on this machine. Raises LabError (69)."""
    if archive().exists():
        return
    with tempfile.TemporaryDirectory(prefix="vaware-pg-", dir="/dev/shm") as temporary:
        data = Path(temporary) / "data"
        steps = [
            f"chown {USER} {temporary}",
            _as_user(f"{binary('initdb')} -D {data} -A trust --no-sync --locale=C"),
            f"{_as_user(_serve(data, temporary))} >{temporary}/log 2>&1 & server=$!",
            "trap 'kill -INT $server; wait $server' EXIT",  # also if a step fails
            _wait_until_ready(temporary),
            _as_user(f"{binary('pgbench')} -i -q -s 1 -h {temporary} -p {PORT} {USER}"),
            "kill -INT $server; wait $server; trap - EXIT",
            f"mkdir -p {shlex.quote(str(archive().parent))}",
            f"tar cf {shlex.quote(str(archive()))}.new -C {temporary} data",
            f"mv {shlex.quote(str(archive()))}.new {shlex.quote(str(archive()))}",
        ]
        done = subprocess.run(
            ["bash", "-ec", "\n".join(steps)], capture_output=True, text=True, cwd="/"
        )
    if done.returncode:
        raise LabError(
            f"PostgreSQL's database cannot be made ({done.stderr.strip()[-300:]}); "
            "run deploy/setup.sh eval, and as root",
            EX_UNAVAILABLE,
        )


def parse(output: str) -> dict[str, float]:
    """Transactions per second and their average latency."""
    return {
        "rate": number(r"^tps = ([\d.]+)", output),
        "latency": number(r"^latency average = ([\d.]+) ms", output),
    }


def operations(output: str) -> float:
    """Transactions."""
    return number(r"^number of transactions actually processed: (\d+)", output)


def workloads(size: Size) -> list[Workload]:
    """pgbench's own mix of updates and reads, eight clients."""
    return [replace(pgbench(size, CLIENTS), name="postgresql")]


def pgbench(size: Size, clients: int) -> Workload:
    """The same with so many clients."""
    data = f"{FOLDER}/data"
    seconds = max(1, round(size.seconds))
    bench = f"{binary('pgbench')} -n -c {clients} -j 2 -T {seconds} -h {FOLDER} -p {PORT} {USER}"
    command = (
        f"cd {FOLDER}; {_as_user(_serve(data, FOLDER))} >{FOLDER}/log 2>&1 & server=$!; "
        f"{_wait_until_ready(FOLDER)}; {_as_user(bench)}; kill -INT $server; wait $server"
    )
    setup = (
        f"rm -rf {FOLDER} && mkdir {FOLDER} && chown {USER} {FOLDER} && "
        f"tar xf {shlex.quote(str(archive()))} -C {FOLDER}"
    )
    return Workload(
        f"postgresql x{clients}",
        command,
        METRICS,
        parse,
        needs=(binary("postgres"), binary("pgbench"), "setpriv"),
        prepare=prepare,
        setup=setup,
        operations=operations,
    )


def _serve(data: object, sockets: object) -> str:
    return f"{binary('postgres')} -D {data} {OPTIONS} -k {sockets}"


def _as_user(command: str) -> str:
    return f"setpriv --reuid={USER} --regid={USER} --clear-groups {command}"


def _wait_until_ready(sockets: object) -> str:
    ready = f"{binary('pg_isready')} -q -h {sockets} -p {PORT}"
    return f"for i in $(seq 100); do {ready} && break; sleep 0.1; done"
