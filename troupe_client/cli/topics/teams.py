"""The team of an experiment: who speaks when, through which policy, and who learns."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from training_core.errors import ConfigError
from troupe_client.cli.show import console, visible
from troupe_client.server_api import find_server

app = typer.Typer()


@app.command()
def team(
    source: Annotated[str, typer.Argument(help="A preset's name, a .toml file, or a run's id with --run.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Fields to change: key=value.")] = None,
    of_run: Annotated[bool, typer.Option("--run", help="Show the team of the run of that id.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Show roles in turn order, the policy behind each, and who is trained."""
    from troupe_client.cli.launching import launch_body

    body = {"run": source} if of_run else launch_body(source, overrides or [])
    found = find_server().call("/api/v1/team/", body)
    if as_json:
        return typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    console.print(
        Text(visible("turn order: " + " → ".join(" + ".join(step) for step in found["steps"]))),
        soft_wrap=True,
    )
    roles = [
        (each["role"], each["policy"], _learns(each["trained"]), each["prompt"]) for each in found["roles"]
    ]
    console.print(_table(("role", "policy", "learns", "prompt"), roles))
    policies = [
        (each["policy"], each["model"], ", ".join(each["roles"]) or "nobody", _learns(each["trained"]))
        for each in found["policies"]
    ]
    console.print(_table(("policy", "model", "speaks for", "learns"), policies))


@app.command()
def profile(
    source: Annotated[str, typer.Argument(help="A preset's name, or a .toml file.")],
    name: Annotated[str, typer.Argument(help="minimal, recommended or large; none lists them.")] = "",
    overrides: Annotated[list[str] | None, typer.Argument(help="Fields to change first: key=value.")] = None,
) -> None:
    """Print the fields that spread a run of language models over a cluster of a given size, to launch it with."""
    from training_core.config.profiles import PROFILES, profile_overrides
    from troupe_client.cli.launching import config_of

    if not name:
        sizes = [(key, str(p.gpus), str(p.cpus), str(p.memory)) for key, p in PROFILES.items()]
        return console.print(_table(("profile", "GPUs", "CPU cores", "memory, GB"), sizes))
    if name not in PROFILES:
        raise ConfigError({"profile": f"no profile {name!r}; profiles are {', '.join(PROFILES)}"})
    changes = profile_overrides(name, config_of(source, overrides or []))
    typer.echo(" ".join(f"{path}={value}" for path, value in changes.items()))


def _learns(trained: Any) -> str:
    return "trained" if trained else "frozen"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(*headings, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table
