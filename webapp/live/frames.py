"""Frames of websockets that are made once and written to many sockets.

A message that passes through ASGI is encoded, framed and awaited for each socket. Where uvicorn serves, `FrameProtocol` offers a function
in the scope that writes a finished frame at once; sockets of other servers get messages by ASGI.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.protocol import State

EXTENSION = "troupe.frames"
TEXT = 0x81
"""The first byte of a whole text message."""
Write = Callable[[bytes], bool]
"""Writes a frame; returns False if the socket cannot take it now."""


def frame_of(text: str) -> bytes:
    """Return a message as the frame of a server (RFC 6455, 5.2)."""
    payload = text.encode()
    size = len(payload)
    if size < 126:
        return struct.pack(">BB", TEXT, size) + payload
    if size < 1 << 16:
        return struct.pack(">BBH", TEXT, 126, size) + payload
    return struct.pack(">BBQ", TEXT, 127, size) + payload


def writer_of(scope: Mapping[str, Any]) -> Write | None:
    """Return the function that writes frames to this socket; None if its server has none, or compresses messages."""
    write: Write | None = scope.get("extensions", {}).get(EXTENSION)
    return write


class FrameProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websockets with EXTENSION in the scope."""

    def handle_connect(self, event: Request) -> None:
        """Offer the function before the application starts."""
        super().handle_connect(event)
        if self.response.status_code == 101 and not self.conn.extensions:
            self.scope["extensions"][EXTENSION] = self.write_frame  # type: ignore[assignment]

    def write_frame(self, frame: bytes) -> bool:
        """Write a frame unless the socket is closing, or has not yet taken earlier ones."""
        if self.disconnected or self.close_sent or not self.handshake_complete or not self.writable.is_set():
            return False
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            return False
        self.transport.write(frame)
        return True
