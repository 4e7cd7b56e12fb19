"""The kinds of share links, and the URLs that each kind opens.

A new kind is one entry of KINDS. Visitors with a link cannot open any other URL.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from django.urls import reverse

RUN = "run_id"


@dataclass(frozen=True)
class Kind:
    """One kind of share link."""

    name: str
    views: Mapping[str, str]
    """Names of the views it opens for reading -> the URL argument that must equal the target; empty: none."""
    runs: Callable[[str], Collection[str]]
    """target -> ids of the runs that those views may read; evaluated at every request. Runs outside the link's project
    are never readable."""
    address: Callable[[str], str]
    """target -> the URL the link redirects to."""


def compared_runs(query: str) -> list[str]:
    """Return the ids in the query of a comparison's URL: runs=a,b."""
    return [pk for words in parse_qs(query).get("runs", []) for pk in words.split(",") if pk]


RUN_VIEWS = (
    "runs:detail",
    "runs:curves",
    "runs:chart",
    "transcripts:list",
    "transcripts:detail",
    "transcripts:tree",
    "transcripts:probes",
    "transcripts:diff",
    "media:page",
    "api:media-content",
    "api:media-heat-map",
    "api:run-series",
    "api:series-export",
)
EPISODE_VIEWS = ("api:answer-tokens", "api:episode-boards")
"""Views used by the page of an episode; the selector of episodes limits which episodes."""
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
            "compare:media": "",
            "api:compare": "",
            "api:compare-curves": "",
            "api:compare-config": "",
            "api:compare-table": "",
            "api:compare-probes": "",
            "api:run-series": "",
            "api:media-content": "",
            "api:media-heat-map": "",
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
