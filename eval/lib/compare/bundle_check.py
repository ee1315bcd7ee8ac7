# SPDX-License-Identifier: GPL-2.0-only
"""Reads bundles, and says what is wrong with one: by the schema, and in what it tells of people.

A bundle may come from anybody: it is read up to a size, and nothing in it is believed unchecked.
"""

import gzip
import json
import zlib
from pathlib import Path

import jsonschema

from vlab import LabError
from vlab.errors import EX_USAGE

from . import private

SCHEMA = json.loads(Path(__file__).with_name("bundle.schema.json").read_text())
# Of 1024 vCPUs with a comparison it has 3 MiB.
BYTES_MAX = 32 << 20
# What one bundle is told of: the first mistakes explain the others.
PROBLEMS_MAX = 8
QUOTE_MAX = 200


def read(path: Path) -> dict:
    """The bundle in a file, packed or not. Raises LabError (64) if there is none."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            text = file.read(BYTES_MAX + 1)
        if len(text) > BYTES_MAX:
            raise LabError(
                f"{path} is longer than {BYTES_MAX >> 20} MiB; it is no bundle", EX_USAGE
            )
        return json.loads(text, parse_constant=_refuse)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as why:
        raise LabError(
            f"{path} is no bundle ({why}); give what eval/bundle wrote", EX_USAGE
        ) from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def problems(bundle: object) -> list[str]:
    """What is wrong with it, as sentences; nothing if it can be published."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    wrong = sorted(validator.iter_errors(bundle), key=lambda error: error.json_path)
    found = [_sentence(jsonschema.exceptions.best_match([error])) for error in wrong]
    if not found:
        found = _contradictions(bundle) + _private(bundle)
    return found[:PROBLEMS_MAX]


def _sentence(error: jsonschema.ValidationError) -> str:
    message = error.message
    if len(message) > QUOTE_MAX:
        message = f"{message[: QUOTE_MAX // 2]} ... {message[-QUOTE_MAX // 2 :]}"
    return f"{error.json_path}: {message}"


def _contradictions(bundle: dict) -> list[str]:
    """What a schema cannot say."""
    snapshot = bundle["probe"].get("said")
    if snapshot is None:
        return []
    numbers = [vcpu["id"] for vcpu in snapshot["vcpus"]]
    found = []
    if numbers != sorted(set(numbers)):
        found.append("$.probe.said.vcpus: the numbers of vCPUs do not ascend")
    for level in ("stacks", "cores", "llcs", "sockets"):
        members = [v for group in snapshot["topology"][level] for v in group["members"]]
        where = f"$.probe.said.topology.{level}"
        if unknown := set(members) - set(numbers):
            found.append(f"{where}: there is no vCPU {min(unknown)}")
        if len(members) != len(set(members)):
            found.append(f"{where}: a vCPU is in two groups")
    for vcpu in snapshot["vcpus"]:
        for name in ("share_ratio", "speed_ratio", "stolen_ratio"):
            if (estimate := vcpu.get(name)) and estimate["value"] > 1:
                found.append(f"$.probe.said.vcpus, vCPU {vcpu['id']}: {name} is above 1")
    return found


def _private(bundle: object, where: str = "$") -> list[str]:
    """Where there is what eval/bundle takes out."""
    if isinstance(bundle, dict):
        keys = [f"{where}: the key {k!r}" for k in bundle if private.scrub(k, set()) != k]
        return keys + [p for k, v in bundle.items() for p in _private(v, f"{where}.{k}")]
    if isinstance(bundle, list):
        return [p for n, v in enumerate(bundle) for p in _private(v, f"{where}[{n}]")]
    if private.scrub(bundle, set()) == bundle:
        return []
    return [f"{where}: this may tell whose machine it is: {str(bundle)[:QUOTE_MAX]!r}"]
