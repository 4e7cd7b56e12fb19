"""The team of an experiment: turn order, policies, and which of them are trained."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from training_core.errors import ConfigError
from troupe_client.cli.arguments import AsJson, Overrides, Source
from troupe_client.cli.output import plain_table, print_json, print_line, print_result, print_table, visible
from troupe_client.server_api import find_server

app = typer.Typer()


@app.command("team")
def team(
    source: Annotated[
        str, typer.Argument(help="Name of a preset, a .toml file, or the id of a run with --run.")
    ],
    overrides: Overrides = None,
    of_run: Annotated[bool, typer.Option("--run", help="Show the team of the run with this id.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show roles in turn order, their policies, and which policies are trained."""
    from troupe_client.cli.launching import launch_body

    body = {"run": source} if of_run else launch_body(source, overrides or [])
    team = find_server().call("/api/v1/team/", body)
    if as_json:
        return print_json(team)
    print_line("turn order: " + " → ".join(" + ".join(step) for step in team["steps"]))
    roles = [
        (role["role"], role["policy"], _learns(role["trained"]), role["prompt"]) for role in team["roles"]
    ]
    print_table(_table(("role", "policy", "learns", "prompt"), roles))
    policies = [
        (
            policy["policy"],
            policy["model"],
            ", ".join(policy["roles"]) or "no role",
            _learns(policy["trained"]),
        )
        for policy in team["policies"]
    ]
    print_table(_table(("policy", "model", "roles", "learns"), policies))


@app.command("profile")
def profile(
    source: Source,
    name: Annotated[str, typer.Argument(help="minimal, recommended or large; default: list them.")] = "",
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Print the fields that distribute a run of language models over a cluster of a given size."""
    from training_core.config.profiles import PROFILES, profile_overrides
    from troupe_client.cli.launching import config_of

    if not name and as_json:
        return print_json({key: vars(size) for key, size in PROFILES.items()})
    if not name:
        sizes = [(key, str(size.gpus), str(size.cpus), str(size.memory)) for key, size in PROFILES.items()]
        return print_table(_table(("profile", "GPUs", "CPU cores", "memory, GB"), sizes))
    if name not in PROFILES:
        raise ConfigError({"profile": f"there is no profile {name!r}; profiles are {', '.join(PROFILES)}"})
    changes = profile_overrides(name, config_of(source, overrides or []))
    print_result(changes, as_json, " ".join(f"{path}={value}" for path, value in changes.items()))


def _learns(trained: Any) -> str:
    return "trained" if trained else "frozen"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = plain_table(*headings, wrap=("prompt", "model", "roles"))
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table
