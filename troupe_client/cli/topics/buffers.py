"""`troupe buffer serve`: serve rollouts from other programs to runs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from troupe_client.server_api import home
from workers.rollout_buffer.rules import BufferLimits

app = typer.Typer()


@app.command("serve")
def buffer(
    port: Annotated[
        int, typer.Option(help="Port; if it is in use, the next free one.", min=0, max=65535)
    ] = 8889,
    generators: Annotated[
        Path | None, typer.Option(help="Folder of generator plugins, in addition to the built-in ones.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder that must contain the input files; default: data/ in TROUPE_HOME."),
    ] = None,
    group_size: Annotated[
        int, typer.Option(help="Records of a complete group, unless a rollout specifies another size.", min=1)
    ] = BufferLimits.group_size,
    least_reward: Annotated[
        float, typer.Option(help="A record is valid if its reward is greater.")
    ] = BufferLimits.least_reward,
    minimum_ratio: Annotated[
        float,
        typer.Option(
            help="Share of valid records that a group needs, and share of its records after a timeout.",
            min=0.0,
            max=1.0,
        ),
    ] = BufferLimits.minimum_ratio,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a group waits after its last record.", min=0.0)
    ] = BufferLimits.timeout,
    max_records: Annotated[
        int, typer.Option(help="Maximum number of stored records; further writers must wait.", min=1)
    ] = BufferLimits.max_records,
) -> None:
    """Serve a rollout buffer: generators write records, and a run with workflow.type = "rollout_buffer" trains on them."""
    from workers.rollout_buffer.server import Settings, serve

    limits = BufferLimits(group_size, least_reward, minimum_ratio, timeout, max_records)
    host = os.environ.get("TROUPE_HOST", "").strip() or "127.0.0.1"
    serve(Settings(home(), host, port, generators, data, limits))
