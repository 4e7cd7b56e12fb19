"""Whether a bundle continues what an earlier one of the same run has stored: two runs with one id never become one.

The id of a run is what its bundle says. A later bundle of the run has everything that an earlier one has.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from training_core.errors import TroupeError
from troupe_client.reading import media_facts, media_names, points_of, rows_of
from troupe_client.server_api import Server, ServerAway, ServerFailure, run_path
from workers.reporting.encoding import encode

Point = tuple[str, int, int, float, str]
"""Metric or media, attempt, step, time, and value or kind."""


def check_continues(
    server: Server, run_id: str, document: Mapping[str, Any], facts: Sequence[str], columns: Sequence[str]
) -> None:
    """Raises TroupeError if the server has a run of this id with other points, media or episodes, or with nothing in common.

    `facts`: fields of an episode that never change; `columns`: those of a metric.
    """
    try:
        server.call(run_path(run_id))
    except ServerAway:
        raise
    except ServerFailure:  # there is none
        return
    run = document["run"]
    mine = Counter(_stored_points(server, run_id)), Counter(_stored_media(server, run_id))
    new = Counter(_points(document, columns)), Counter(_media(document))
    for words, one, two in zip(
        ("the metric {0} at step {2}", "media {0} at step {2}"), mine, new, strict=True
    ):
        if (missing := one - two) and two - one:  # a bundle that is imported again may be an older one
            raise _contradiction(run, f"another value for {words.format(*next(iter(missing)))}")
    episodes = {episode["name"]: episode for episode in document["episodes"]}
    stored = {row["name"]: row for row in rows_of(server, run_path(run_id, "episodes/"), {})}
    common = stored.keys() & episodes.keys()
    for name in sorted(common):
        if _own(stored[name], facts) != _own(episodes[name], facts):
            raise _contradiction(run, f"another value for the episode {name}")
    if (any(mine) or stored) and not (common or any(one & two for one, two in zip(mine, new, strict=True))):
        raise _contradiction(run, "nothing in common with this one")


def _stored_points(server: Server, run_id: str) -> Iterator[Point]:
    for name, attempt, step, time, value in points_of(server, run_id):
        yield name, attempt, step, time, repr(value)


def _points(document: Mapping[str, Any], columns: Sequence[str]) -> Iterator[Point]:
    numbers = _numbers(document["run"])
    for name, values in document["metrics"].items():
        for attempt, step, time, value in zip(*(values[column] for column in columns), strict=True):
            yield name, numbers[attempt], int(step), float(time), repr(float(value))


def _stored_media(server: Server, run_id: str) -> Iterator[Point]:
    for name in media_names(server, run_id):
        for row in media_facts(server, run_id, name):
            yield row["name"], row["attempt"], row["step"], float(row["time"]), row["kind"]


def _media(document: Mapping[str, Any]) -> Iterator[Point]:
    numbers = _numbers(document["run"])
    for item in document.get("media", []):
        for value in item["values"]:
            yield item["name"], numbers[item["attempt"]], item["step"], float(item["time"]), value["kind"]


def _numbers(run: Mapping[str, Any]) -> dict[int, int]:
    """Number of an attempt in the bundle -> number in the import."""
    return {attempt["number"]: number for number, attempt in enumerate(run["attempts"], 1)} or {1: 1}


def _own(episode: Mapping[str, Any], facts: Sequence[str]) -> Any:
    return orjson.loads(encode({name: episode[name] for name in facts}))


def _contradiction(run: Mapping[str, Any], what: str) -> TroupeError:
    return TroupeError(
        f"run {run['id']} ({run['name']}) was imported from another bundle, which has {what}:",
        remedy="import this one into another project with --project",
    )
