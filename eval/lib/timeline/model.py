# SPDX-License-Identifier: GPL-2.0-only
"""A timeline as data, and as JSON.

    {"title": "...", "notes": ["..."], "facts": {"build": "..."},
     "begin_ns": 0, "end_ns": 200000000,
     "lanes": [{"name": "vCPU 0",
                "inactive": [[begin_ns, end_ns], ...],
                "halted":   [[begin_ns, end_ns], ...],
                "tasks":    [[begin_ns, end_ns, "name"], ...],
                "gaps":     [[begin_ns, end_ns], ...],
                "decisions": [[at_ns, "kind", "what was done"], ...]}]}

All times are of one clock, in ns. `inactive` is the truth, `gaps` is what the guest made of it;
what is missing from a lane is empty.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

Period = tuple[int, int]
Run = tuple[int, int, str]
Decision = tuple[int, str, str]


class BadTimeline(Exception):
    """The data is not a timeline; one sentence that ends with what to do."""


@dataclass
class Lane:
    """One vCPU."""

    name: str
    inactive: list[Period] = field(default_factory=list)  # it had something to run, and no core
    halted: list[Period] = field(default_factory=list)  # it had nothing to run
    tasks: list[Run] = field(default_factory=list)  # who ran, as the guest saw it
    gaps: list[Period] = field(default_factory=list)  # inactive periods that the scheduler found
    decisions: list[Decision] = field(default_factory=list)


@dataclass
class Timeline:
    """Lanes over the time from `begin_ns` to `end_ns`."""

    title: str
    begin_ns: int
    end_ns: int
    lanes: list[Lane]
    notes: list[str] = field(default_factory=list)
    facts: dict = field(default_factory=dict)  # of what build and machine, as in a manifest

    def between(self, begin_ns: int, end_ns: int) -> "Timeline":
        """The part from `begin_ns` to `end_ns`."""
        span = max(begin_ns, self.begin_ns), min(end_ns, self.end_ns)
        if span[0] >= span[1]:
            raise BadTimeline("the timeline has nothing in that time; choose a part of it")
        lanes = [
            Lane(
                lane.name,
                _cut(lane.inactive, span),
                _cut(lane.halted, span),
                _cut(lane.tasks, span),
                _cut(lane.gaps, span),
                [decision for decision in lane.decisions if span[0] <= decision[0] <= span[1]],
            )
            for lane in self.lanes
        ]
        return Timeline(self.title, *span, lanes, self.notes, self.facts)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_json(text: str) -> Timeline:
    """Read a timeline. Raises BadTimeline."""
    try:
        data = json.loads(text)
        lanes = [Lane(lane.pop("name"), **_tuples(lane)) for lane in data.pop("lanes")]
        timeline = Timeline(lanes=lanes, **data)
        if not timeline.begin_ns < timeline.end_ns:
            raise ValueError("it ends before it begins")
        return timeline
    except (ValueError, TypeError, KeyError, AttributeError) as why:
        raise BadTimeline(
            f"this is no timeline ({why}); see timeline/model.py for what it should be"
        ) from None


def _tuples(lane: dict) -> dict:
    return {name: [tuple(entry) for entry in entries] for name, entries in lane.items()}


def _cut(entries: Iterable[tuple], span: Period) -> list[tuple]:
    return [
        (max(begin, span[0]), min(end, span[1]), *rest)
        for begin, end, *rest in entries
        if begin < span[1] and end > span[0]
    ]
