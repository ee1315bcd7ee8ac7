# SPDX-License-Identifier: GPL-2.0-only
"""The documents: their links resolve, and what they list is there."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def tracked(pattern: str = "") -> list[str]:
    """Files of the repository, by path, new ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern or "."]
    listed = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (REPO / path).exists()]


def prose(path: Path) -> str:
    """The text of a document without its code blocks."""
    return FENCE.sub("", path.read_text())


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        base = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(next(a for n in range(99) if (a := f"{base}-{n}" if n else base) not in found))
    return found


@pytest.mark.parametrize("document", tracked("*.md"))
def test_links_resolve(document):
    page = REPO / document
    broken = []
    for text, image in LINK.findall(prose(page)):
        target = text or image
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken, f"{document} links to {broken}; correct the path or the heading"


def test_every_alert_is_in_the_operators_table():
    alerts = re.findall(r"- alert: (\w+)", (REPO / "deploy/prometheus-rules.yml").read_text())
    table = re.findall(r"^\| `(Vaware\w+)` \|", (REPO / "docs/operations.md").read_text(), re.M)
    assert sorted(table) == sorted(alerts)


def test_the_exit_codes_after_which_the_unit_stays_down_are_those_of_the_page():
    unit = (REPO / "deploy/scx_vaware.service").read_text()
    codes = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)[1].split()
    page = (REPO / "docs/operations.md").read_text()
    told = re.search(r"not after exit codes ([\d, and]+)\.", page)[1]
    assert codes == re.findall(r"\d+", told)
    assert "73" not in codes, "who takes the port for some seconds would keep the scheduler away"


def test_the_layout_names_every_folder_and_no_other():
    page = (REPO / "CONTRIBUTING.md").read_text()
    named = re.findall(r"^\| `([\w./]+)/` \|", page, re.MULTILINE)
    assert len(named) > 10
    for folder in named:
        assert (REPO / folder).is_dir(), f"CONTRIBUTING.md names {folder}/, which is not there"
    top = {path.split("/")[0] for path in tracked() if "/" in path} - {".cargo", ".ci"}
    assert top <= {folder.split("/")[0] for folder in named}
    packages = {"/".join(path.split("/")[:3]) for path in tracked("eval/lib/*/*")}
    assert packages <= set(named)


def test_the_components_are_the_folders_of_the_layout():
    """The table of docs/architecture.md against that of CONTRIBUTING.md."""
    page = (REPO / "docs/architecture.md").read_text().partition("## Data flow")[0]
    named = re.findall(r"^\| `([\w./]+)/` \|", page, re.MULTILINE)
    layout = set(re.findall(r"^\| `([\w./]+)/` \|", (REPO / "CONTRIBUTING.md").read_text(), re.M))
    assert len(named) > 10
    assert set(named) <= layout


def test_every_shared_field_has_its_writer():
    """The table of docs/architecture.md against the structs of bpf/intf.h."""
    header = re.sub(r"/\*.*?\*/", "", (REPO / "bpf/intf.h").read_text(), flags=re.DOTALL)
    page = (REPO / "docs/architecture.md").read_text()
    table = page.partition("| struct | field |")[2].partition("\n\n")[0]
    named: dict[str, list[str]] = {}
    for struct, fields in re.findall(r"^\| (?:`(\w+)`)? ?\| ([^|]+) \|", table, re.MULTILINE):
        owner = struct or next(reversed(named))
        known = ["*"] if fields == "all" else re.findall(r"`(\w+\*?)(?:\[\d+\])?`", fields)
        named.setdefault(owner, []).extend(known)
    assert len(named) > 4
    for struct, patterns in named.items():
        body = header.partition(f"struct {struct} {{")[2].partition("\n}")[0]
        fields = set(re.findall(r"(\w+)(?:\[\w+\])*;", body)) - {"unused"}
        assert fields, f"{struct} is not in intf.h"
        missing = {f for f in fields if not any(fnmatch(f, pattern) for pattern in patterns)}
        extra = [p for p in patterns if not any(fnmatch(field, p) for field in fields)]
        assert not missing and not extra, (struct, missing, extra)


def test_the_record_of_the_soak_has_all_of_its_faults():
    test = (REPO / "tests/test_vm_soak.py").read_text().partition("FAULTS = [")[2].partition("]")[0]
    page = (REPO / "docs/results/soak.md").read_text()
    assert set(re.findall(r"Soak\.(\w+)", test)) == set(re.findall(r"^\| `(\w+)` \|", page, re.M))
