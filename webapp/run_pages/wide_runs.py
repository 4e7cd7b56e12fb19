"""The curves page of a run with many metrics: the database searches them, and the browser gets the charts in view."""

import re
from dataclasses import dataclass
from typing import Any

from webapp.metrics.names import BadPattern, NameQuery, names_like, names_list, names_page
from webapp.metrics.selectors import key_names
from webapp.run_pages.charts import SECTIONS
from webapp.runs.models import Run

MOST = 1000
"""Maximum number of metrics that the curves page shows at once; of a run with more, it shows a part."""
WINDOW = 60
"""Number of metrics of a part; the browser loads the next part when its end is near the window."""

MOST_SECTIONS = 300
"""Maximum number of sections that the page offers; a search finds the metrics of others."""
MOST_OFFERED = 200
"""Number of metrics of such a run that the dialog of charts offers at first; it searches the others on the server."""


@dataclass(frozen=True)
class MetricPart:
    """The shown metrics of a run."""

    keys: list[str]
    matching: int
    """Number of metrics that match section and words."""
    sections: list[dict[str, Any]]
    """The sections with matching metrics, and how many they have; empty if all metrics of the run are shown."""
    after: str = ""
    """The last name of this part if further ones match."""
    error: str = ""
    """Why the search cannot be used."""
    limited: bool = False
    """Whether the run has more metrics than a page shows."""


def part_of(run: Run, section: str, text: str, *, is_pattern: bool = False, after: str = "") -> MetricPart:
    """Return all metrics of a run with at most MOST; else the first WINDOW that match, after the name `after`.

    text: words that names contain, or a regular expression. Later parts have no counts.
    """
    if run.series_count <= MOST:
        keys = key_names(run)
        return MetricPart(keys, len(keys), [])
    asked = {"pattern": text} if is_pattern else {"words": text}
    query = NameQuery(section=section, order=tuple(SECTIONS), **asked)
    counts: list[tuple[str, int]] = []
    try:
        if after:
            keys = names_list(run, query, WINDOW + 1, after)
        else:
            keys, counts = names_page(run, query, WINDOW + 1)
    except BadPattern as error:
        return MetricPart([], 0, [], error=str(error), limited=True)
    sections = [
        {"key": name, "name": SECTIONS.get(name, name), "count": count, "shown": name == section}
        for number, (name, count) in enumerate(counts)
        if number < MOST_SECTIONS or name == section
    ]
    matching = sum(count for name, count in counts if not section or name == section)
    more = keys[WINDOW - 1] if len(keys) > WINDOW else ""
    return MetricPart(keys[:WINDOW], matching, sections, more, limited=True)


def names_of_chart(run: Run, chart: str) -> list[str]:
    """Return the names that can belong to the chart with this id, which is made of the last parts of their names."""
    last = re.sub(r"--\d+$", "", chart).rpartition("-")[2]
    return names_like(run, re.sub(r"[^a-z0-9_]", "", last))
