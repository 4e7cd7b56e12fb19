"""Import the runs of a bundle into a server, as runs of a custom program: config, tags, metrics, media, episodes and state.

A repeated import adds only what is new: run, producers and sequence numbers are functions of the bundle, and episodes have names. A bundle
that contradicts what an earlier one of its run has stored is refused.
"""

import base64
import gzip
import hashlib
import io
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import orjson

from training_core.errors import TroupeError
from troupe_client.bundles.continuing import check_continues
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
MOST_MIB = 512
"""Maximum size of the data, decompressed, unless the caller gives another one."""
VALUES = 100_000
"""Maximum number of values per MiB of that size, each of which needs up to 64 bytes of memory."""
_PIECE = 1 << 20


@dataclass(frozen=True)
class _Part:
    """What one attempt reports."""

    begin: dict[str, Any]
    metrics: list[bytes]
    media: list[bytes]
    episodes: list[list[bytes]]
    end: bytes
    end_producer: str


def bundle_read(path: Path, most_mib: int = MOST_MIB) -> list[dict[str, Any]]:
    """Return the documents of the runs in a bundle. Raises TroupeError, also if its data expand to more than `most_mib`."""
    try:
        page = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise TroupeError(f"{path} cannot be read: {error.strerror}") from error
    data = page.partition(DATA)[2].partition("</script>")[0]
    del page
    try:
        bundle = orjson.loads(_expanded(path, most_mib, base64.b64decode(data, validate=True)))
        number, runs = bundle["format"], list(bundle["runs"])
        titles = [(document["run"]["id"], document["run"]["name"]) for document in runs]
        if not all(isinstance(text, str) for title in titles for text in title):
            raise TypeError("a run without an id or a name")
    except (EOFError, KeyError, OSError, TypeError, ValueError, zlib.error) as error:
        raise TroupeError(
            f"{path} is not a bundle, or is damaged; write it with troupe bundle create"
        ) from error
    if number != FORMAT:
        raise TroupeError(
            f"{path} has format {number}, and this version of Troupe reads {FORMAT}; update Troupe"
        )
    return runs


def _expanded(path: Path, most_mib: int, packed: bytes) -> bytes:
    """The data, which are first counted without being kept. Raises TroupeError if they are too large, and the errors of gzip."""
    size = values = 0
    for piece in _pieces(packed):
        size += len(piece)
        values += sum(map(piece.count, (b",", b"[", b"{")))
        if size > most_mib << 20 or values > most_mib * VALUES:
            raise TroupeError(
                f"{path} expands to more than {most_mib} MiB, or to more than {most_mib * VALUES:,} values:",
                remedy="if you trust its author, raise the limit with --most-mib",
            )
    return b"".join(_pieces(packed))


def _pieces(packed: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        while piece := file.read(_PIECE):
            yield piece


def run_import(server: Server, document: Mapping[str, Any], project: str) -> str:
    """Import a run and return its id. Raises TroupeError (the document is damaged or contradicts what is stored; the server refuses),
    Undelivered.
    """
    try:
        run_id = stable_id(f"bundle {document['run']['id']} {project}")
        parts = list(_parts(document, {"id": run_id, "project": project, "resume": "allow"}))
        check_continues(server, run_id, document, FACTS, COLUMNS)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        message = " ".join(str(error).split())[:200]
        raise TroupeError(
            f"a run of the bundle is damaged ({type(error).__name__}: {message}):",
            remedy="write it again with troupe bundle create",
        ) from error
    for number, part in enumerate(parts, 1):
        attempt = _begun(server, part.begin, document["run"]["config"])
        deliver(server, run_id, attempt, f"metrics-{number}", part.metrics)
        deliver(server, run_id, attempt, f"media-{number}", part.media)
        for lines in part.episodes:
            deliver(server, run_id, attempt, hashlib.sha256(b"".join(lines)).hexdigest()[:32], lines)
        deliver(server, run_id, attempt, part.end_producer, [part.end])
    return run_id


def _parts(document: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[_Part]:
    """What each attempt of a run reports."""
    run = document["run"]
    points, episodes = _points(document["metrics"]), _episodes(document["episodes"])
    media: dict[int, list[Event]] = defaultdict(list)
    for item in document.get("media", []):
        media[item["attempt"]].append(
            {"type": "media"} | {name: item[name] for name in item if name != "attempt"}
        )
    attempts = run["attempts"] or [NOT_STARTED]
    if unknown := {*points, *media, *episodes} - {original["number"] for original in attempts}:
        raise ValueError(f"the run has no attempt {unknown.pop()}")
    for number, original in enumerate(attempts, 1):
        own, shown = points[original["number"]], media[original["number"]]
        steps = [max(0, event["step"]) for event in [*own, *shown]] or [0]
        end = _end(original, run["remedy"], run["iteration"] if original is attempts[-1] else max(steps))
        yield _Part(
            {**request, **_facts(run), "nonce": f"bundle-{number}", "first_step": min(steps)},
            [encode(event) for event in own],
            [encode(event) for event in shown],
            list(episodes[original["number"]].values()),
            encode(end),
            f"end-{number}-{end['iteration']}",
        )


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
