"""Where a project's events are sent."""

from typing import Annotated, Any

import typer

from troupe_client.cli.topics.projects import AsJson, Project, project_path, say
from troupe_client.server_api import find_server

app = typer.Typer()
Hook = Annotated[int, typer.Argument(help="Its number, as `troupe webhooks` shows it.")]


@app.command()
def webhooks(project: Project, as_json: AsJson = False) -> None:
    """List where a project's events are sent."""
    rows = find_server().call(project_path(project, "webhooks/"))["results"]
    say(rows, as_json, _line, "no webhooks")


@app.command()
def webhook_add(
    project: Project,
    name: Annotated[str, typer.Argument(help="What it is called.")],
    address: Annotated[str, typer.Argument(help="https://host/path; only its host is shown later.")],
    event: Annotated[
        list[str] | None, typer.Option(help="An event; several times for more. None: all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a project's events to an address. Prints the secret that they are signed with, this once."""
    body = {"name": name, "address": address, "events": event or []}
    made = find_server().call(project_path(project, "webhooks/"), body)
    say([made], as_json, lambda each: f"{_line(each)}\nsecret: {each['secret']}")


@app.command()
def webhook_act(
    project: Project,
    hook: Hook,
    act: Annotated[str, typer.Argument(help="ping, on, off or remove.")],
    as_json: AsJson = False,
) -> None:
    """Try a webhook, switch it on or off, or remove it."""
    if act not in ("ping", "on", "off", "remove"):
        raise typer.BadParameter("use ping, on, off or remove")
    told = find_server().call(project_path(project, f"webhooks/{hook}/{act}/"), {})
    say([told], as_json, _delivery if act == "ping" else lambda each: f"{_line(each)}  {act}")


@app.command()
def deliveries(project: Project, hook: Hook, as_json: AsJson = False) -> None:
    """Show what was sent to a webhook, and how it was answered."""
    rows = find_server().call(project_path(project, f"webhooks/{hook}/deliveries/"))["results"]
    say(rows, as_json, _delivery, "nothing was sent")


@app.command()
def redeliver(
    project: Project,
    hook: Hook,
    delivery: Annotated[int, typer.Argument(help="Its number, as `troupe deliveries` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Send an event to a webhook once more."""
    path = project_path(project, f"webhooks/{hook}/deliveries/{delivery}/again/")
    say([find_server().call(path, {})], as_json, _delivery)


def _line(each: dict[str, Any]) -> str:
    state = "" if each["enabled"] else "  off"
    return f"{each['id']}  {each['name']}  {each['host']}{state}  {', '.join(each['events'])}"


def _delivery(each: dict[str, Any]) -> str:
    last = each["tries"][-1] if each["tries"] else {}
    answer = f"HTTP {last['code']}" if last.get("code") else last.get("said", "")
    return f"{each['id']}  {each['time'][:19]}  {each['event']}  {each['state']}  {len(each['tries'])} tries  {answer}".rstrip()
