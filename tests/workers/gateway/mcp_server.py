"""A small MCP server: `python mcp_server.py` speaks over standard input and output, `python mcp_server.py PORT` over HTTP."""

import asyncio
import os
import socket
import sys
import threading
from pathlib import Path

from mcp.server.fastmcp import FastMCP, Image
from mcp.types import ListToolsRequest, ListToolsResult

server = FastMCP(
    "desk", port=int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 8000, log_level="ERROR"
)
kept: list[str] = []


@server.tool()
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool()
def note(text: str) -> str:
    """Everything noted so far."""
    kept.append(text)
    return " ".join(kept)


@server.tool()
def look() -> str:
    """The direction of the goal."""
    return "north"


@server.tool()
async def wait(seconds: float) -> str:
    """Return later."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
def picture() -> list:
    """A text and a picture."""
    return ["here", Image(data=b"\x89PNG", format="png")]


@server.tool()
def end() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def surroundings(path: str) -> str:
    """What the server can reach."""
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    except OSError as error:
        network = type(error).__name__
    return f"{network} {Path(path).exists()} {sorted(os.environ)}"


@server.tool()
def leave() -> str:
    """Answer, then end the server."""
    threading.Timer(0.2, os._exit, (3,)).start()
    return "done"


async def pages(request: ListToolsRequest) -> ListToolsResult:
    """A tool per page."""
    tools = await server.list_tools()
    number = int(request.params.cursor or 0) if request.params else 0
    following = str(number + 1) if number + 1 < len(tools) else None
    return ListToolsResult(tools=[tools[number]], nextCursor=following)


async def hangs(request: ListToolsRequest) -> ListToolsResult:
    """No list."""
    await asyncio.sleep(600)
    raise AssertionError


if __name__ == "__main__":
    word = "".join(sys.argv[1:])
    if word in ("pages", "hangs"):
        server._mcp_server.list_tools()(pages if word == "pages" else hangs)
    server.run("streamable-http" if word.isdigit() else "stdio")
