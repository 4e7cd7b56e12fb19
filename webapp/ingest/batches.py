"""From the bytes of a request to validated events, with a limit on everything."""

import zlib
from dataclasses import dataclass
from typing import Any

import orjson
import zstandard
from pydantic import TypeAdapter, ValidationError

from webapp.ingest.errors import invalid, too_large
from workers.launch.events import AnyEvent

MAX_BODY = 16 << 20
"""Bytes as sent."""
MAX_EXPANDED = 64 << 20
"""Bytes after decompression."""
MAX_EVENTS = 20_000
_EVENTS: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
_MESSAGES = 20
"""Field messages told at most."""


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


def batch_read(run_id: str, body: bytes, encoding: str) -> Batch:
    """Decompress, parse, validate. Raises IngestRejected."""
    content = expand(body, encoding.strip().lower())
    if not content.endswith(b"\n"):
        content += b"\n"
    lines = content.split(b"\n")[:-1]
    if len(lines) > MAX_EVENTS:
        raise too_large(f"at most {MAX_EVENTS} events at once")
    head = _event(lines[0], None)
    _check_envelope(head, head, run_id, head.seq)
    events = [head]
    for seq, line in enumerate(lines[1:], head.seq + 1):
        event = _event(line, seq)
        _check_envelope(event, head, run_id, seq)
        events.append(event)
    return Batch(head.attempt, head.producer, head.seq, events)


def expand(body: bytes, encoding: str) -> bytes:
    """The body as it was before compression, at most MAX_EXPANDED bytes of it. Raises IngestRejected."""
    if len(body) > MAX_BODY:
        raise too_large(f"at most {MAX_BODY} bytes at once")
    if encoding in ("", "identity"):
        return body
    if encoding not in _EXPANDERS:
        raise invalid(None, {"": f"Content-Encoding {encoding[:40]!r} is not known; use zstd or gzip"})
    try:
        content = _EXPANDERS[encoding](body)
    except (zstandard.ZstdError, zlib.error, EOFError, MemoryError) as error:
        raise invalid(None, {"": f"the body is no {encoding}: {error}"}) from error
    if len(content) > MAX_EXPANDED:
        raise too_large(f"at most {MAX_EXPANDED} bytes at once, decompressed")
    return content


def _zstd(body: bytes) -> bytes:
    promised = zstandard.frame_content_size(body)
    if promised > MAX_EXPANDED:
        raise too_large(f"at most {MAX_EXPANDED} bytes at once, decompressed")
    with zstandard.ZstdDecompressor(max_window_size=MAX_EXPANDED).stream_reader(body) as reader:
        content: bytes = reader.read(MAX_EXPANDED + 1)
    if 0 <= promised != len(content):
        raise EOFError("it is cut off")
    return content


def _gzip(body: bytes) -> bytes:
    expander = zlib.decompressobj(wbits=31)
    content = expander.decompress(body, MAX_EXPANDED + 1)
    if not expander.eof and len(content) <= MAX_EXPANDED:
        raise EOFError("it is cut off")
    return content


_EXPANDERS = {"zstd": _zstd, "gzip": _gzip}


def _event(line: bytes, seq: int | None) -> AnyEvent:
    """The event of a line. `seq`, where it is known, names a line that cannot be read."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise invalid(seq, {"": f"a line is no JSON: {str(error)[:200]}"}) from error
    if b"\\u0000" in line:
        data = _without_nul(data)
    try:
        return _EVENTS.validate_python(data)
    except ValidationError as error:
        raise invalid(seq or _seq(data), _messages(error)) from error


def _check_envelope(event: AnyEvent, head: AnyEvent, run_id: str, seq: int) -> None:
    if event.run != run_id:
        raise invalid(event.seq, {"run": f"this address is for run {run_id}"})
    if (event.producer, event.attempt) != (head.producer, head.attempt):
        raise invalid(event.seq, {"producer": "one batch has events of one producer and attempt"})
    if event.seq != seq:
        raise invalid(event.seq, {"seq": f"seqs of a batch follow one another; {seq} was expected here"})


def _without_nul(value: Any) -> Any:
    """The same data without NUL characters, which the database cannot hold."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list) else value


def _seq(data: Any) -> int | None:
    seq = data.get("seq") if isinstance(data, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None


def _messages(error: ValidationError) -> dict[str, str]:
    """One message per field path; the first part of a location is the event's type."""
    messages: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:_MESSAGES]:
        messages.setdefault(".".join(str(part) for part in item["loc"][1:])[:200], item["msg"][:300])
    return messages
