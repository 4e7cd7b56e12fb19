"""The curves page of a run with many metrics: a part of its charts, chosen by section and words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.run_pages.charts import SECTIONS

MOST = 1000
"""Maximum number of metrics on the curves page; of more, a part is shown."""


@dataclass(frozen=True)
class MetricPart:
    """The shown metrics of a run."""

    keys: list[str]
    matching: int
    """Number of metrics that match section and words."""
    sections: list[dict[str, Any]]
    """All sections of the run, with their numbers of metrics; empty if all metrics are shown."""

    @property
    def limited(self) -> bool:
        """Whether the page states that it shows a part."""
        return bool(self.sections)


def part_of(keys: Sequence[str], section: str, words: str) -> MetricPart:
    """Return all metrics of a run with at most MOST; else the first of the section whose names contain all words."""
    if len(keys) <= MOST:
        return MetricPart(list(keys), len(keys), [])
    counts = Counter(_section(key) for key in keys)
    wanted = words.lower().split()
    matching = [
        key
        for key in keys
        if (not section or _section(key) == section) and all(word in key.lower() for word in wanted)
    ]
    order = [*(name for name in SECTIONS if name in counts), *sorted(set(counts) - set(SECTIONS))]
    sections = [
        {"key": name, "name": SECTIONS.get(name, name), "count": counts[name], "shown": name == section}
        for name in order
    ]
    return MetricPart(matching[:MOST], len(matching), sections)


def _section(key: str) -> str:
    section, slash, _ = key.partition("/")
    return section if slash else "other"
