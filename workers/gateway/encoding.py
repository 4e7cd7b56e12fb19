"""Documents as bytes. Encoding never fails, whatever a policy has answered: single surrogates become question marks."""

import json
from typing import Any

from starlette.responses import JSONResponse


def encoded(document: Any) -> bytes:
    """A document as JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def event(document: Any) -> bytes:
    """A document as a server-sent event."""
    return b"data: " + encoded(document) + b"\n\n"


def as_received(value: Any) -> Any:
    """A document with texts that UTF-8 can encode, as the client receives it."""
    return json.loads(encoded(value))


class Json(JSONResponse):
    """A response in JSON."""

    def render(self, content: Any) -> bytes:
        return encoded(content)
