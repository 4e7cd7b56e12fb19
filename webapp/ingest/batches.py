"""From the bytes of a request to validated events, with a limit on everything."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from webapp.ingest.bodies import Room, expand
from webapp.ingest.errors import invalid, too_large
from workers.telemetry.events import AnyEvent

MAX_EVENTS = 20_000
_EVENTS: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
_MESSAGES = 20
"""Field messages told at most."""
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""The escape of NUL in JSON, not an escaped backslash before u0000."""


@dataclass(frozen=True)
class Batch:
    """Events of one producer with consecutive seqs; at least one."""

    attempt: int
    producer: str
    first: int
    events: list[AnyEvent]

    @property
    def last(self) -> int:
        """Seq of the last event."""
        return self.first + len(self.events) - 1


def batch_read(run_id: str, body: bytes, encoding: str, room: Room) -> Batch:
    """Decompress, parse, validate. Raises IngestRejected."""
    content = expand(body, encoding.strip().lower(), room)
    if content.count(b"\n") + (not content.endswith(b"\n")) > MAX_EVENTS:
        raise too_large(f"at most {MAX_EVENTS} events at once")
    if b"\\u0000" in content:  # which the database cannot hold
        content = _NUL.sub(rb"\1\\ufffd", content)
    lines = _lines(content)
    head = _event(next(lines), None)
    _check_envelope(head, head, run_id, head.seq)
    events = [head]
    for seq, line in enumerate(lines, head.seq + 1):
        event = _event(line, seq)
        _check_envelope(event, head, run_id, seq)
        events.append(event)
    return Batch(head.attempt, head.producer, head.seq, events)


def _lines(content: bytes | bytearray) -> Iterator[memoryview]:
    """One after another, none of them copied; at least one. A newline at the end of the last may be missing."""
    view, start = memoryview(content), 0
    while start < len(content) or start == 0:
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        yield view[start:end]
        start = end + 1


def _event(line: memoryview, seq: int | None) -> AnyEvent:
    """The event of a line. `seq`, where it is known, names a line that cannot be read."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise invalid(seq, {"": f"a line is no JSON: {str(error)[:200]}"}) from error
    try:
        return _EVENTS.validate_python(data)
    except ValidationError as error:
        refused = invalid(seq or _seq(data), _messages(error))
    del data  # a traceback would keep it: it may be large
    raise refused


def _check_envelope(event: AnyEvent, head: AnyEvent, run_id: str, seq: int) -> None:
    if event.run != run_id:
        raise invalid(event.seq, {"run": f"this address is for run {run_id}"})
    if (event.producer, event.attempt) != (head.producer, head.attempt):
        raise invalid(event.seq, {"producer": "one batch has events of one producer and attempt"})
    if event.seq != seq:
        raise invalid(event.seq, {"seq": f"seqs of a batch follow one another; {seq} was expected here"})


def _seq(data: Any) -> int | None:
    seq = data.get("seq") if isinstance(data, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None


def _messages(error: ValidationError) -> dict[str, str]:
    """One message per field path; the first part of a location is the event's type."""
    messages: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:_MESSAGES]:
        messages.setdefault(".".join(str(part)[:200] for part in item["loc"][1:])[:200], item["msg"][:300])
    return messages
