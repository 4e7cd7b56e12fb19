"""A small MCP server: `python mcp_server.py` speaks over standard input and output, `python mcp_server.py PORT` over HTTP."""

import asyncio
import os
import socket
import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP, Image

server = FastMCP("desk", port=int((sys.argv[1:] or ["8000"])[0]), log_level="ERROR")
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


if __name__ == "__main__":
    server.run("streamable-http" if sys.argv[1:] else "stdio")
