"""Messages that are framed once and written to many sockets."""

import asyncio
from importlib.metadata import version

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import State
from websockets.uri import parse_uri

from webapp.live.feeds import Outbox
from webapp.live.frames import frame_of

from .conftest import until


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_a_frame_is_read_by_a_browser(size: int) -> None:
    text = "é" * (size // 2) + "x" * (size % 2)
    browser = ClientProtocol(parse_uri("ws://localhost/"), state=State.OPEN, max_size=None)
    browser.receive_data(frame_of(text))
    (frame,) = browser.events_received()
    assert isinstance(frame, Frame) and frame.fin and bytes(frame.data).decode() == text


def test_the_private_parts_of_the_server_are_those_of_these_versions() -> None:
    """FrameProtocol uses private parts of both: read their changes before you raise a version here."""
    assert (version("uvicorn"), version("websockets")) == ("0.54.0", "17.4")


async def test_a_slow_socket_gets_all_messages_in_order() -> None:
    ready, got = True, []
    free = asyncio.Event()

    def write(frame: bytes) -> bool:
        if ready:
            got.append(frame.decode())
        return ready

    async def send(text: str) -> None:
        await free.wait()
        got.append(text)

    outbox = Outbox(send, write=write)
    outbox.put("1", 1, b"1")
    ready = False
    outbox.put("2", 2, b"2")
    await asyncio.sleep(0)  # the task waits for the socket with message 2
    ready = True
    outbox.put("3", 3, b"3")
    assert got == ["1"]
    free.set()
    await until(lambda: got == ["1", "2", "3"])
    outbox.put("4", 4, b"4")
    assert got == ["1", "2", "3", "4"]
    outbox.close()


async def test_a_message_without_a_frame_is_sent_by_the_server() -> None:
    got: list[str] = []

    async def send(text: str) -> None:
        got.append(text)

    outbox = Outbox(send, write=lambda frame: False)
    outbox.put("1", 1)
    outbox.put("2", 2, b"2")
    await until(lambda: got == ["1", "2"])
    outbox.close()
