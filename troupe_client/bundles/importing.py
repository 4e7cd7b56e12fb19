"""Import the runs of a bundle into a server, as runs of a custom program: config, tags, metrics, media, episodes and state.

A repeated import adds only what is new: run, producers and sequence numbers are functions of the bundle, and episodes have names.
"""

import base64
import gzip
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import orjson

from training_core.errors import TroupeError
from troupe_client.bundles.writing import COLUMNS, DATA, FORMAT
from troupe_client.reporting.config_values import config_json
from troupe_client.reporting.importing import deliver, stable_id
from troupe_client.reporting.opening import begin, within_limits
from troupe_client.server_api import Server, ServerFailure
from workers.reporting.encoding import encode
from workers.telemetry.limits import MAX_METRICS

Event = dict[str, Any]
ENDS = ("finished", "stopped", "paused", "failed")
FACTS = (
    "iteration", "kind", "probe", "task", "title", "outcome", "success", "failed", "error", "truncated", "episode_return", "rewards",
    "versions", "tokens", "started", "ended",
)  # fmt: skip
LEARNT = ("ratios", "entropies", "training_logprobs", "masks")
"""Values of the update for each token of a candidate, which an annotation has."""
NOT_STARTED = {"number": 1, "ended_as": "", "reason": ""}


def bundle_read(path: Path) -> list[dict[str, Any]]:
    """Return the documents of the runs in a bundle. Raises TroupeError."""
    try:
        page = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise TroupeError(f"{path} cannot be read: {error.strerror}") from error
    data = page.partition(DATA)[2].partition("</script>")[0]
    try:
        bundle = orjson.loads(gzip.decompress(base64.b64decode(data, validate=True)))
        number, runs = bundle["format"], list(bundle["runs"])
    except (EOFError, KeyError, OSError, TypeError, ValueError, zlib.error) as error:
        raise TroupeError(
            f"{path} is not a bundle, or is damaged; write it with troupe bundle create"
        ) from error
    if number != FORMAT:
        raise TroupeError(
            f"{path} has format {number}, and this version of Troupe reads {FORMAT}; update Troupe"
        )
    return runs


def run_import(server: Server, document: Mapping[str, Any], project: str) -> str:
    """Import a run and return its id. Raises TroupeError (the server refuses), Undelivered."""
    run = document["run"]
    request = {"id": stable_id(f"bundle {run['id']} {project}"), "project": project, "resume": "allow"}
    request |= _facts(run)
    points, episodes = _points(document["metrics"]), _episodes(document["episodes"])
    media: dict[int, list[Event]] = defaultdict(list)
    for item in document.get("media", []):
        media[item["attempt"]].append(
            {"type": "media"} | {name: item[name] for name in item if name != "attempt"}
        )
    attempts = run["attempts"] or [NOT_STARTED]
    for number, original in enumerate(attempts, 1):
        own = points[original["number"]]
        shown = media[original["number"]]
        steps = [max(0, event["step"]) for event in [*own, *shown]] or [0]
        body = request | {"nonce": f"bundle-{number}", "first_step": min(steps)}
        attempt = _begun(server, body, run["config"])
        end = _end(original, run["remedy"], run["iteration"] if original is attempts[-1] else max(steps))
        deliver(server, request["id"], attempt, f"metrics-{number}", map(encode, own))
        deliver(server, request["id"], attempt, f"media-{number}", map(encode, shown))
        for lines in episodes[original["number"]].values():
            deliver(server, request["id"], attempt, hashlib.sha256(b"".join(lines)).hexdigest()[:32], lines)
        deliver(server, request["id"], attempt, f"end-{number}-{end['iteration']}", [encode(end)])
    return str(request["id"])


def _facts(run: Mapping[str, Any]) -> dict[str, Any]:
    """The facts from which the server makes the run and the config of a custom program."""
    config = run["config"]
    return {
        "name": run["name"],
        "tags": run["tags"],
        "steps": run["iterations"],
        "config": config_json(config.get("client", config)),
        "team": {role: section["policy"] for role, section in config["team"]["roles"].items()},
        "algorithm": config["algorithm"]["type"],
        "environment": config["environment"]["type"],
    }


def _begun(server: Server, request: dict[str, Any], config: Mapping[str, Any]) -> int:
    """Begin an attempt and return its number. A config of another version of Troupe becomes that of a custom program."""
    if "client" not in config:
        try:
            return begin(server, within_limits(request) | {"resolved": config_json(config)}).attempt
        except ServerFailure as error:
            if not error.fields:
                raise
    return begin(server, within_limits(request)).attempt


def _points(metrics: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[int, list[Event]]:
    """The events by attempt in the order of their times, to which later points of a run are appended.

    Points of equal time and step are one event; a metric that has several of them has one in each of several events.
    """
    events: dict[tuple[int, float, int, int], dict[str, Any]] = defaultdict(dict)
    for name, columns in metrics.items():
        for attempt, step, time, value in zip(*(columns[column] for column in COLUMNS), strict=True):
            nth = 0
            while name in (values := events[attempt, time, step, nth]) or len(values) == MAX_METRICS:
                nth += 1
            values[name] = value
    grouped: dict[int, list[Event]] = defaultdict(list)
    for (attempt, time, step, _), values in sorted(events.items()):
        grouped[attempt].append({"type": "metrics", "step": step, "time": time, "values": values})
    return grouped


def _episodes(newest_first: Sequence[Mapping[str, Any]]) -> dict[int, dict[int, list[bytes]]]:
    """The lines of events by attempt and iteration."""
    lines: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for episode in reversed(newest_first):
        lines[episode["attempt"]][episode["iteration"]] += map(encode, _episode_events(episode))
    return lines


def _episode_events(episode: Mapping[str, Any]) -> Iterator[Event]:
    """The episode, and what the update has recorded for it."""
    turns, learnt = episode.get("turns") or [], []
    for index, turn in enumerate(turns):
        values = {name: _leading(turn["candidates"], name) for name in LEARNT}
        if any(values.values()):
            learnt.append({"turn": index, "advantages": _leading(turn["candidates"], "advantage"), **values})
    plain = [turn | {"candidates": [_reported(one) for one in turn["candidates"]]} for turn in turns]
    head = {"episode": episode["name"], "time": episode["ended"]}
    facts = {name: episode[name] for name in FACTS}
    yield {"type": "episode", **head, **facts, "turns": plain, "final_board": episode.get("final_board")}
    if learnt or episode.get("stages"):
        yield {"type": "episode_annotation", **head, "turns": learnt, "stages": episode.get("stages") or {}}


def _leading(candidates: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """The values of the first candidates, up to one without a value."""
    return [candidate[name] for candidate in takewhile(lambda one: one.get(name) is not None, candidates)]


def _reported(candidate: Mapping[str, Any]) -> Event:
    """A candidate as it was reported, before the update."""
    return {name: value for name, value in candidate.items() if name not in LEARNT}


def _end(attempt: Mapping[str, Any], remedy: str, iteration: int) -> Event:
    """The end of an attempt. One that had not ended when the bundle was written is stopped."""
    ended, reason = attempt["ended_as"], attempt["reason"]
    if not ended:
        ended, reason = "stopped", reason or "The run had not ended when its bundle was written"
    state = ended if ended in ENDS else "failed"
    words = {"message": reason, "remedy": remedy if state == "failed" else ""}
    return {"type": "status", "state": state, "iteration": iteration, "time": 0.0, **words}
