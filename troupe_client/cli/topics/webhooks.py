"""Webhooks: addresses that receive a project's events."""

from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, Project
from troupe_client.cli.output import print_rows
from troupe_client.server_api import find_server, project_path

app = typer.Typer()
WebhookId = Annotated[int, typer.Argument(help="Number of the webhook, as `troupe webhooks` shows it.")]


@app.command()
def webhooks(project: Project, as_json: AsJson = False) -> None:
    """List the webhooks of a project."""
    rows = find_server().call(project_path(project, "webhooks/"))["results"]
    print_rows(rows, as_json, _webhook, "No webhooks.")


@app.command()
def webhook_add(
    project: Project,
    name: Annotated[str, typer.Argument(help="Name of the webhook.")],
    address: Annotated[str, typer.Argument(help="https://host/path; later only the host is shown.")],
    event: Annotated[
        list[str] | None, typer.Option(help="An event; may be repeated. Default: all events.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a project's events to an address. Prints the secret of their signatures, only once."""
    body = {"name": name, "address": address, "events": event or []}
    created = find_server().call(project_path(project, "webhooks/"), body)
    print_rows([created], as_json, lambda webhook: f"{_webhook(webhook)}\nsecret: {webhook['secret']}")


@app.command()
def webhook_act(
    project: Project,
    hook: WebhookId,
    act: Annotated[str, typer.Argument(help="ping, on, off or remove.")],
    as_json: AsJson = False,
) -> None:
    """Ping a webhook, switch it on or off, or remove it."""
    if act not in ("ping", "on", "off", "remove"):
        raise typer.BadParameter("use ping, on, off or remove")
    changed = find_server().call(project_path(project, f"webhooks/{hook}/{act}/"), {})
    line = _delivery if act == "ping" else lambda webhook: f"{_webhook(webhook)}  {act}"
    print_rows([changed], as_json, line)


@app.command()
def deliveries(project: Project, hook: WebhookId, as_json: AsJson = False) -> None:
    """List the deliveries of a webhook and their responses."""
    rows = find_server().call(project_path(project, f"webhooks/{hook}/deliveries/"))["results"]
    print_rows(rows, as_json, _delivery, "No deliveries.")


@app.command()
def redeliver(
    project: Project,
    hook: WebhookId,
    delivery: Annotated[int, typer.Argument(help="Number of the delivery, as `troupe deliveries` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Repeat a delivery of a webhook."""
    path = project_path(project, f"webhooks/{hook}/deliveries/{delivery}/again/")
    print_rows([find_server().call(path, {})], as_json, _delivery)


def _webhook(webhook: dict[str, Any]) -> str:
    state = "" if webhook["enabled"] else "  off"
    return f"{webhook['id']}  {webhook['name']}  {webhook['host']}{state}  {', '.join(webhook['events'])}"


def _delivery(delivery: dict[str, Any]) -> str:
    last = delivery["tries"][-1] if delivery["tries"] else {}
    response = f"HTTP {last['code']}" if last.get("code") else last.get("said", "")
    facts = (delivery["id"], delivery["time"][:19], delivery["event"], delivery["state"])
    return "  ".join([*map(str, facts), f"{len(delivery['tries'])} tries", response]).rstrip()
