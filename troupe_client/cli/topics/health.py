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
    every: Annotated[bool, typer.Option("--all", help="Include dismissed findings.")] = False,
    only_open: Annotated[bool, typer.Option("--open", help="Only open findings.")] = False,
    as_json: AsJson = False,
) -> None:
    """List findings of a run, open and resolved, with causes and remedies."""
    if every and only_open:
        raise typer.BadParameter("--open excludes the findings that --all adds; give one of them")
    stored = find_server().call(run_path(run_id, "findings/"))["results"]
    left_out = {"resolved", "dismissed"} if only_open else set() if every else {"dismissed"}
    findings = [finding for finding in stored if finding["state"] not in left_out]
    if as_json:
        return print_json(findings)
    for finding in findings:
        _show(finding)
    if hidden := len(stored) - len(findings):
        console.print(f"{hidden} more, {'resolved or dismissed' if only_open else 'dismissed'}: add --all.")
    elif not findings:
        console.print("No findings. `troupe finding rules` shows how near each rule came.")


@findings.command("rules")
def rules(run_id: RunId, as_json: AsJson = False) -> None:
    """List the health rules of a run: value, threshold, and how near each came to a finding."""
    rows = find_server().call(run_path(run_id, "health/"))["results"]
    if as_json:
        return print_json(rows)
    for row in rows:
        print_line(_measured(row), COLOURS.get(row["state"], ""))


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
    label, was = (
        finding["severity"] if finding["state"] == "open" else finding["state"],
        finding["critical_first"],
    )
    if label != "critical" and (was is not None or finding["severity"] == "critical"):
        label += ", was critical"
    print_line(f"{finding['id']}  {label}  {finding['title']}  ({steps})", COLOURS.get(label, "dim"))
    if finding["lasting"]:
        print_line(
            f"    still open: it was critical at steps {was} to {finding['critical_last']}; {finding['lasting']}"
        )
    for name in ("cause", "remedy", "done", "fork"):
        if finding[name]:
            print_line(f"    {name}: {finding[name]}")


def _measured(row: dict[str, Any]) -> str:
    """Return a rule as a line of text."""
    words = [f"{row['rule']}: {row['state']}"]
    if row["why"]:
        words.append(row["why"])
    if row["value"] is not None:
        side = "below" if row["fires_below"] else "above"
        words.append(
            f"{row['value']:.3g}, finding {side} {row['threshold']:.3g} ({row['measured']}, {row['key']})"
        )
    if row["nearest"]:
        words.append(f"nearest {row['nearest']:.0%} of the threshold at step {row['nearest_step']}")
    return "; ".join(words)


@channel.command("test")
def channel_try(project: Project, channel: ChannelId, as_json: AsJson = False) -> None:
    """Send a test message to a channel."""
    result = find_server().call(project_path(project, f"channels/{channel}/try/"), {})
    print_result(result, as_json, f"{result['name']}  {result['said']}")
    if not result["taken"]:
        sys.exit(1)
