"""Findings and rules."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from troupe_client.cli.show import console, visible
from troupe_client.server_api import ServerFailure, find_server, run_path

app = typer.Typer()
RunId = Annotated[str, typer.Argument(help="Id of the run, as `troupe runs` shows it.")]
FindingId = Annotated[int, typer.Argument(help="Number of the finding, as `troupe health` shows it.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Project = Annotated[str, typer.Argument(help="Slug of the project.")]
ChannelId = Annotated[
    int, typer.Argument(help="Number of the channel, as `troupe channels` shows it.", min=1)
]
COLOURS = {"bad": "bold red", "warn": "yellow"}


@app.command()
def health(
    run_id: RunId,
    every: Annotated[bool, typer.Option("--all", help="Also what is resolved or dismissed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with a run, why that may be, and what to do."""
    found = find_server().call(run_path(run_id, "findings/"), state="" if every else "open")["results"]
    if as_json:
        return _print_json(found)
    for each in found:
        _show(each)
    if not found:
        console.print("No rule has anything to say.")


@app.command()
def dismiss(run_id: RunId, finding: FindingId, as_json: AsJson = False) -> None:
    """Hear no more of a finding."""
    _act(run_id, finding, "dismiss", as_json)


@app.command()
def reopen(run_id: RunId, finding: FindingId, as_json: AsJson = False) -> None:
    """Count a dismissed finding again."""
    _act(run_id, finding, "reopen", as_json)


@app.command()
def fork_finding(
    run_id: RunId,
    finding: FindingId,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Fields to change: key=value; without any, the edits of the finding's rule."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fork a run from its last good checkpoint before a finding, once per finding."""
    from training_core.config.files import parse_overrides

    server = find_server()
    body = {"overrides": parse_overrides(overrides or [])}
    made = server.call(run_path(run_id, f"findings/{finding}/fork/"), body)
    if as_json:
        return _print_json(made)
    _line(f"{made['id']}  {made['state']}  {server.address(made['links']['page'])}")


def _act(run_id: str, finding: int, act: str, as_json: bool) -> None:
    found = find_server().call(run_path(run_id, f"findings/{finding}/{act}/"), {})
    if as_json:
        return _print_json(found)
    _line(f"{found['id']}  {found['state']}  {found['title']}")


def _show(found: dict[str, Any]) -> None:
    where = f"steps {found['first_step']} to {found['last_step']}"
    word = found["severity"] if found["state"] == "open" else found["state"]
    _line(f"{found['id']}  {word}  {found['title']}  ({where})", COLOURS.get(word, "dim"))
    for name in ("cause", "remedy", "done", "fork"):
        if found[name]:
            _line(f"    {name}: {found[name]}")


def _line(text: str, style: str = "") -> None:
    console.print(Text(visible(text), style=style), soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@app.command()
def channels(project: Project, as_json: AsJson = False) -> None:
    """List where a project's messages go."""
    found = find_server().call(_channels(project))["results"]
    if as_json:
        return _print_json(found)
    for each in found:
        _line(f"{each['id']}  {each['name']}  {each['kind']}  {each['said']}")
    if not found:
        console.print("No channels yet: troupe channel-add PROJECT NAME")


@app.command()
def channel_add(
    project: Project,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    address: Annotated[
        str,
        typer.Option(prompt="Apprise URL", hide_input=True, help="An Apprise URL; asked for if not given."),
    ],
    as_json: AsJson = False,
) -> None:
    """Give a project a channel for messages: webhook, e-mail, chat."""
    made = find_server().call(_channels(project), {"name": name, "address": address})
    _print_json(made) if as_json else _line(f"{made['id']}  {made['name']}")


@app.command()
def channel_try(project: Project, channel: ChannelId, as_json: AsJson = False) -> None:
    """Send a message to a channel now."""
    tried = find_server().call(_channels(project, f"{channel}/try/"), {})
    _print_json(tried) if as_json else _line(f"{tried['name']}  {tried['said']}")
    if not tried["taken"]:
        sys.exit(1)


@app.command()
def channel_remove(project: Project, channel: ChannelId, as_json: AsJson = False) -> None:
    """Send no more messages to a channel."""
    gone = find_server().call(_channels(project, f"{channel}/remove/"), {})
    _print_json(gone) if as_json else _line(f"{gone['name']}  removed")


def _channels(project: str, below: str = "") -> str:
    if not project.replace("-", "").replace("_", "").isalnum() or not project.isascii():
        raise ServerFailure(f"{project!r} is no project's slug")
    return f"/api/v1/projects/{project}/channels/{below}"
