"""The rollout buffer: rollouts made outside of Troupe, served to its runs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from troupe_client.server_api import home
from workers.rollout_buffer.rules import BufferLimits

app = typer.Typer()


@app.command("buffer")
def buffer(
    port: Annotated[
        int, typer.Option(help="Port; where it is taken, the next free one.", min=0, max=65535)
    ] = 8889,
    generators: Annotated[
        Path | None, typer.Option(help="Folder of generator plugins, beside the built-in ones.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that input files must lie in; default: data/ in TROUPE_HOME.")
    ] = None,
    group_size: Annotated[
        int, typer.Option(help="Records of a whole group, where no rollout says another size.", min=1)
    ] = BufferLimits.group_size,
    least_reward: Annotated[
        float, typer.Option(help="A record is valid when its reward is greater.")
    ] = BufferLimits.least_reward,
    minimum_ratio: Annotated[
        float,
        typer.Option(
            help="Valid share that a group needs, and share of a group that timed out.", min=0.0, max=1.0
        ),
    ] = BufferLimits.minimum_ratio,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a group waits after its last record.", min=0.0)
    ] = BufferLimits.timeout,
    max_records: Annotated[
        int, typer.Option(help="Records held at once; beyond it writers are told to wait.", min=1)
    ] = BufferLimits.max_records,
) -> None:
    """Serve a rollout buffer: generators write records, a run with workflow.type = "rollout_buffer" learns from them."""
    from workers.rollout_buffer.server import Settings, serve

    limits = BufferLimits(group_size, least_reward, minimum_ratio, timeout, max_records)
    serve(
        Settings(
            home(), os.environ.get("TROUPE_HOST", "").strip() or "127.0.0.1", port, generators, data, limits
        )
    )
