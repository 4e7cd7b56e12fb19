"""`troupe mcp`: the MCP server on standard input and output."""

from importlib.util import find_spec

import typer

from training_core.errors import TroupeError
from troupe_client.cli.sections import START
from troupe_client.server_api import find_server

top = typer.Typer()


@top.command("mcp", rich_help_panel=START)
def mcp() -> None:
    """Serve an assistant on standard input and output (MCP), with TROUPE_TOKEN or the token of the local server."""
    if find_spec("mcp") is None:
        raise TroupeError("this command needs the package mcp", remedy="pip install 'troupe[mcp]'")
    import asyncio

    from troupe_client.mcp.server import serve_stdio

    asyncio.run(serve_stdio(find_server()))
