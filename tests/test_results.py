# SPDX-License-Identifier: GPL-2.0-only
"""The generated pages of docs/results: each as its tool wrote it, and of code that is not outdated.

Needs no history: the manifest beside the pages says of which build and version they are.
"""

import tomllib
from pathlib import Path

import manifest

REPO = Path(__file__).resolve().parents[1]
RESULTS = REPO / "docs/results"


def test_each_page_is_as_written_and_at_most_a_release_older_than_the_code():
    code = tomllib.loads((REPO / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    known = set(manifest.entries(RESULTS))
    assert {"comparison.md", "comparison.svg", "ivh.svg", "papers.md", "scale.md"} <= known
    assert manifest.problems(RESULTS, code) == []
