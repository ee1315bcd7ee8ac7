# SPDX-License-Identifier: GPL-2.0-only
"""nginx and wrk over loopback: a web server whose clients wait for each answer (closed loop)."""

from .workload import Metric, ParseError, Size, Workload, number

METRICS = (
    Metric("rate", "requests/s", "higher"),
    Metric("p99", "ms", "lower"),
    Metric("p50", "ms", "lower"),
)
FOLDER = "/dev/shm/vaware-nginx"
PORT = 18080
CONFIGURATION = f"""
worker_processes auto;
daemon off;
pid {FOLDER}/pid;
error_log {FOLDER}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {FOLDER}/body;
  proxy_temp_path {FOLDER}/proxy;
  fastcgi_temp_path {FOLDER}/fastcgi;
  uwsgi_temp_path {FOLDER}/uwsgi;
  scgi_temp_path {FOLDER}/scgi;
  server {{ listen 127.0.0.1:{PORT}; root {FOLDER}; }}
}}
"""
UNIT_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def parse(output: str) -> dict[str, float]:
    """wrk's rate and latencies. Raises ParseError if requests have failed."""
    if "Non-2xx" in output or "Socket errors" in output:
        raise ParseError("requests have failed")
    return {
        "rate": number(r"Requests/sec: +([\d.]+)", output),
        "p50": _milliseconds("50", output),
        "p99": _milliseconds("99", output),
    }


def operations(output: str) -> float:
    """Requests."""
    return number(r"^ +(\d+) requests in ", output)


def _milliseconds(percent: str, output: str) -> float:
    for unit, ms in UNIT_MS.items():
        try:
            return number(rf"^ +{percent}% +([\d.]+){unit}$", output) * ms
        except ParseError:
            continue
    raise ParseError(f"wrk told no latency for {percent} %")


def workloads(size: Size) -> list[Workload]:
    """A worker per vCPU, 32 connections."""
    wait = (
        f"for i in $(seq 100); do : 2>/dev/null </dev/tcp/127.0.0.1/{PORT} && break; "
        "sleep 0.1; done"
    )
    command = (
        f"nginx -p {FOLDER} -e {FOLDER}/error.log -c {FOLDER}/nginx.conf & server=$!; ( {wait} ) "
        f"2>/dev/null; wrk -t 2 -c 32 -d {max(1, round(size.seconds))}s --latency "
        f"http://127.0.0.1:{PORT}/page; kill $server && wait"
    )
    setup = (
        f"mkdir -p {FOLDER} && cat >{FOLDER}/nginx.conf <<'END' && "
        f"head -c 4096 /dev/zero | tr '\\0' v >{FOLDER}/page && chmod -R a+rX {FOLDER}"
        f"\n{CONFIGURATION}END\n"
    )
    return [
        Workload(
            "nginx",
            command,
            METRICS,
            parse,
            needs=("nginx", "wrk"),
            setup=setup,
            operations=operations,
        ),
    ]
