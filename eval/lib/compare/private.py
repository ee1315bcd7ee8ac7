# SPDX-License-Identifier: GPL-2.0-only
"""Takes out of a value what could tell whose machine it comes from."""

import os
import pwd
import re
import socket
from pathlib import Path

REMOVED = "[removed]"
# What such keys hold is a person's or a site's, whatever it is.
PRIVATE_KEYS = re.compile(
    r"^(cmdline|command|command_line|arm_command|argv|args|host_?name|nodename|user|username|home|"
    r"ip|address|mac|uuid|serial|machine_id|boot_id|output|cgroups?|path)$"
)
# The first two of four numbers may be a version (6.1.2.3): it goes as well, for who can tell.
PATTERNS = (
    re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),  # IPv4
    re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"),  # MAC
    re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])"),  # IPv6
    re.compile(r"(?<![\w:])[0-9a-fA-F:]*::[0-9a-fA-F:.]*(?![\w:])"),  # IPv6, shortened
    re.compile(r"\b[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\b"),  # UUID, machine-id
    re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b"),  # mail
    re.compile(r"(?<![\w.])/(?!(?:proc|sys|dev)/)[\w.@+~-]+(?:/[\w.@+~:-]+)*"),  # paths, cgroups
    re.compile(r"/sys/fs/cgroup/\S+"),
)
# Ends of a domain name say nothing, and are words.
TOO_SHORT = 3


def secrets() -> set[str]:
    """The names of this machine, its domain and its people."""
    found = set()
    for name in {socket.gethostname(), os.uname().nodename, _read("/etc/hostname")}:
        found |= {name, name.split(".")[0]}
    found.update(domain for domain in [socket.getfqdn().partition(".")[2]] if "." in domain)
    for entry in pwd.getpwall():
        if 1000 <= entry.pw_uid < 60000:
            found |= {entry.pw_name, *entry.pw_gecos.split(",")}
    found |= {os.environ.get(name, "") for name in ("SUDO_USER", "LOGNAME", "USER")} - {"root"}
    return {secret.strip() for secret in found if len(secret.strip()) >= TOO_SHORT} - {"localhost"}


def scrub(value: object, names: set[str]) -> object:
    """A copy without what PRIVATE_KEYS, PATTERNS and `names` (whole words, any case) describe."""
    if isinstance(value, dict):
        return {
            _scrub_text(str(key), names): (
                REMOVED if PRIVATE_KEYS.match(str(key).lower()) else scrub(each, names)
            )
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [scrub(each, names) for each in value]
    return _scrub_text(value, names) if isinstance(value, str) else value


def _scrub_text(text: str, names: set[str]) -> str:
    for pattern in PATTERNS:
        text = pattern.sub(REMOVED, text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", REMOVED, text, flags=re.IGNORECASE)
    return text


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
