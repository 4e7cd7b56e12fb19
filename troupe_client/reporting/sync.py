"""Deliver the events that a dead run left on disk. The server stores each event once, even if the run still delivers."""

from dataclasses import dataclass
from pathlib import Path

import orjson

from workers.telemetry.delivery import HttpChannel, SpoolUploader
from workers.telemetry.spool import KeptLines


@dataclass(frozen=True)
class Shipped:
    """Result of `ship_spool`."""

    spools: int
    events: int
    """Newly acknowledged."""
    rejected: int
    """Events that the server has refused and that were set aside, in total."""


def ship_spool(folder: Path, url: str, token: str) -> Shipped:
    """Deliver every spool below the folder of a run or an attempt to the ingest address `url`.

    Raises Undelivered if the server does not accept them; the next call continues at that event.
    """
    spools = [
        path for path in sorted(folder.rglob("spool/*.jsonl")) if not path.name.endswith(".rejected.jsonl")
    ]
    events = sum(_ship(path, url, token) for path in spools)
    rejected = sum(_lines(path) for path in folder.rglob("spool/*.rejected.jsonl"))
    return Shipped(len(spools), events, rejected)


def ship_rest(spool: Path, lines: tuple[bytes, ...], url: str, token: str) -> None:
    """Deliver a spool, and the lines that follow it and that the disk may not have taken. Raises Undelivered.

    If the server has stored more than the program has on disk, the last line is sent again, behind what the server has.
    """
    first = orjson.loads(lines[0])["seq"]
    last = first + len(lines) - 1
    if (stored := _ship_with(spool, KeptLines(first, lines), url, token)) > last:
        again = orjson.dumps(orjson.loads(lines[-1]) | {"seq": stored + 1}) + b"\n"
        _ship_with(spool, KeptLines(stored + 1, (again,)), url, token)


def _ship_with(spool: Path, rest: KeptLines, url: str, token: str) -> int:
    """Deliver a spool and the rest. Returns the last seq that the server has stored."""
    uploader = SpoolUploader(spool, HttpChannel(url, token), rest)
    try:
        while uploader.step():
            pass
    finally:
        uploader.close()
    return uploader.acknowledged


def undelivered(folder: Path) -> int:
    """Number of events below a run folder that the server has not acknowledged."""
    count = 0
    for path in folder.rglob("spool/*.jsonl"):
        if not path.name.endswith(".rejected.jsonl"):
            ack = path.with_suffix(".ack")
            count += _lines(path) - (int(ack.read_text() or 0) if ack.exists() else 0)
    return count


def _ship(path: Path, url: str, token: str) -> int:
    uploader = SpoolUploader(path, HttpChannel(url, token))
    before = uploader.acknowledged
    try:
        while uploader.step():
            pass
    finally:
        uploader.close()
    return uploader.acknowledged - before


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
