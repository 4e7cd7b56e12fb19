"""What a link can show, and the only addresses that it opens.

A new kind is one entry of KINDS. Everything that is not named there stays closed to whoever comes by a link.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from django.urls import reverse

RUN = "run_id"


@dataclass(frozen=True)
class Kind:
    """One sort of thing that links show."""

    name: str
    views: Mapping[str, str]
    """Names of views that it opens for reading -> the part of their address that must be the target; empty: none."""
    runs: Callable[[str], Collection[str]]
    """target -> ids of the runs that those views may read; asked at every request. Runs of other projects than the
    link's are never read, whatever it says."""
    address: Callable[[str], str]
    """target -> where the link leads."""


def compared_runs(query: str) -> list[str]:
    """Ids in the query of a comparison's address: runs=a,b."""
    return [each for words in parse_qs(query).get("runs", []) for each in words.split(",") if each]


RUN_VIEWS = (
    "runs:detail",
    "runs:curves",
    "runs:chart",
    "transcripts:list",
    "transcripts:detail",
    "transcripts:tree",
    "transcripts:probes",
    "transcripts:diff",
    "api:run-series",
    "api:series-export",
)
EPISODE_VIEWS = ("api:answer-tokens", "api:episode-boards")
"""What the page of an episode reads; which episodes, their selector says."""
KINDS: dict[str, Kind] = {
    "run": Kind(
        name="run",
        views=dict.fromkeys(RUN_VIEWS, RUN) | dict.fromkeys(EPISODE_VIEWS, ""),
        runs=lambda target: [target],
        address=lambda target: reverse("runs:detail", args=[target]),
    ),
    "comparison": Kind(
        name="comparison",
        views={
            "compare:page": "",
            "compare:config": "",
            "compare:parallel": "",
            "compare:probes": "",
            "api:compare": "",
            "api:compare-curves": "",
            "api:compare-config": "",
            "api:compare-table": "",
            "api:compare-probes": "",
            "api:run-series": "",
        },
        runs=compared_runs,
        address=lambda target: f"{reverse('compare:page')}?{target}",
    ),
    "report": Kind(
        name="report",
        views={"reports:page": "pk"},
        runs=lambda target: [],
        address=lambda target: reverse("reports:page", args=[target]),
    ),
}
