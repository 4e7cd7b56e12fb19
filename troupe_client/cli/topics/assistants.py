"""`troupe mcp`: the MCP server on standard input and output."""

import typer

from training_core.errors import TroupeError
from troupe_client.cli.sections import START
from troupe_client.server_api import find_server

top = typer.Typer()


@top.command("mcp", rich_help_panel=START)
def mcp() -> None:
    """Serve an assistant on standard input and output (MCP), with TROUPE_TOKEN or the token of the local server."""
    import asyncio

    from troupe_client.mcp.rest import package_error

    if error := package_error():
        raise TroupeError(error)
    from troupe_client.mcp.server import serve_stdio

    asyncio.run(serve_stdio(find_server()))
