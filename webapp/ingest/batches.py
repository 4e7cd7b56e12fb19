"""Parsing of a request body into validated events, with limits."""

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
"""Maximum number of reported field errors."""
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""The escape of NUL in JSON, not an escaped backslash before u0000."""


@dataclass(frozen=True)
class EventBatch:
    """Consecutive events of one producer; at least one."""

    attempt: int
    producer: str
    first: int
    events: list[AnyEvent]

    @property
    def last(self) -> int:
        """Seq of the last event."""
        return self.first + len(self.events) - 1


def batch_read(run_id: str, body: bytes, encoding: str, room: Room) -> EventBatch:
    """Decompress, parse and validate a body. Raises IngestRejected."""
    content = expand(body, encoding.strip().lower(), room)
    if content.count(b"\n") + (not content.endswith(b"\n")) > MAX_EVENTS:
        raise too_large(f"at most {MAX_EVENTS} events at once")
    if b"\\u0000" in content:  # the database cannot store NUL
        content = _NUL.sub(rb"\1\\ufffd", content)
    lines = _lines(content)
    head = _event(next(lines), None)
    _check_envelope(head, head, run_id, head.seq)
    events = [head]
    for seq, line in enumerate(lines, head.seq + 1):
        event = _event(line, seq)
        _check_envelope(event, head, run_id, seq)
        events.append(event)
    return EventBatch(head.attempt, head.producer, head.seq, events)


def _lines(content: bytes | bytearray) -> Iterator[memoryview]:
    """Yield the lines without copying; at least one. The last newline may be missing."""
    view, start = memoryview(content), 0
    while start < len(content) or start == 0:
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        yield view[start:end]
        start = end + 1


def _event(line: memoryview, seq: int | None) -> AnyEvent:
    """Return the event of a line. `seq`, if known, identifies an invalid line in the error."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise invalid(seq, {"": f"a line is not valid JSON: {str(error)[:200]}"}) from error
    try:
        return _EVENTS.validate_python(data)
    except ValidationError as error:
        refused = invalid(seq or _seq(data), _messages(error))
    del data  # a traceback would keep this large object alive
    raise refused


def _check_envelope(event: AnyEvent, head: AnyEvent, run_id: str, seq: int) -> None:
    if event.run != run_id:
        raise invalid(event.seq, {"run": f"this URL is for run {run_id}"})
    if (event.producer, event.attempt) != (head.producer, head.attempt):
        raise invalid(event.seq, {"producer": "one batch has events of one producer and attempt"})
    if event.seq != seq:
        raise invalid(event.seq, {"seq": f"seqs of a batch must be consecutive; {seq} was expected"})


def _seq(data: Any) -> int | None:
    seq = data.get("seq") if isinstance(data, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None


def _messages(error: ValidationError) -> dict[str, str]:
    """Return one message per field path; the first part of a location is the event's type."""
    messages: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:_MESSAGES]:
        messages.setdefault(".".join(str(part)[:200] for part in item["loc"][1:])[:200], item["msg"][:300])
    return messages
