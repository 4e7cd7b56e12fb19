"""Health: findings of the rules, and channels for messages about them."""

import sys
from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, Project, RunId
from troupe_client.cli.output import console, print_forked, print_json, print_line, print_result
from troupe_client.server_api import find_server, project_path, run_path

findings = typer.Typer()
channel = typer.Typer()
FindingId = Annotated[
    int, typer.Argument(help="Number of the finding, as `troupe finding list` shows it.", min=1)
]
ChannelId = Annotated[
    int, typer.Argument(help="Number of the channel, as `troupe channel list` shows it.", min=1)
]
COLOURS = {"critical": "bold red", "warning": "yellow"}


@findings.command("list")
def health(
    run_id: RunId,
    every: Annotated[bool, typer.Option("--all", help="Include resolved and dismissed findings.")] = False,
    as_json: AsJson = False,
) -> None:
    """List findings of a run with causes and remedies."""
    stored = find_server().call(run_path(run_id, "findings/"))["results"]
    findings = [finding for finding in stored if every or finding["state"] == "open"]
    if as_json:
        return print_json(findings)
    for finding in findings:
        _show(finding)
    if not findings:
        critical = sum(finding["severity"] == "critical" for finding in stored)
        past = (
            f"No open findings. {len(stored)} resolved or dismissed, {critical} of them critical: add --all."
        )
        console.print(past if stored else "No findings.")


@findings.command("fork")
def fork_finding(
    run_id: RunId,
    finding: FindingId,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Fields to change: key=value; default: the edits of the finding's rule."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fork a run from its last good checkpoint before a finding, or launch it again if there is none; once per finding."""
    from training_core.config.files import parse_overrides

    server = find_server()
    body = {"overrides": parse_overrides(overrides or [])}
    print_forked(server, run_id, server.call(run_path(run_id, f"findings/{finding}/fork/"), body), as_json)


def _show(finding: dict[str, Any]) -> None:
    steps = f"steps {finding['first_step']} to {finding['last_step']}"
    label = finding["severity"] if finding["state"] == "open" else finding["state"]
    if label != finding["severity"] == "critical":
        label += ", was critical"
    print_line(f"{finding['id']}  {label}  {finding['title']}  ({steps})", COLOURS.get(label, "dim"))
    for name in ("cause", "remedy", "done", "fork"):
        if finding[name]:
            print_line(f"    {name}: {finding[name]}")


@channel.command("test")
def channel_try(project: Project, channel: ChannelId, as_json: AsJson = False) -> None:
    """Send a test message to a channel."""
    result = find_server().call(project_path(project, f"channels/{channel}/try/"), {})
    print_result(result, as_json, f"{result['name']}  {result['said']}")
    if not result["taken"]:
        sys.exit(1)
