"""Webhooks: addresses that receive a project's events."""

from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, Project
from troupe_client.cli.output import print_rows
from troupe_client.server_api import find_server, project_path

app = typer.Typer()
WebhookId = Annotated[int, typer.Argument(help="Number of the webhook, as `troupe webhook list` shows it.")]


@app.command("list")
def webhooks(project: Project, as_json: AsJson = False) -> None:
    """List the webhooks of a project."""
    rows = find_server().call(project_path(project, "webhooks/"))["results"]
    print_rows(rows, as_json, _webhook, "No webhooks.")


@app.command("add")
def webhook_add(
    project: Project,
    name: Annotated[str, typer.Argument(help="Name of the webhook.")],
    address: Annotated[str, typer.Argument(help="https://host/path; later only the host is shown.")],
    event: Annotated[
        list[str] | None, typer.Option(help="An event; may be repeated. Default: all events.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a project's events to an address, and print the secret of their signatures once."""
    body = {"name": name, "address": address, "events": event or []}
    created = find_server().call(project_path(project, "webhooks/"), body)
    print_rows([created], as_json, lambda webhook: f"{_webhook(webhook)}\nsecret: {webhook['secret']}")


@app.command("ping")
def webhook_ping(project: Project, hook: WebhookId, as_json: AsJson = False) -> None:
    """Send a test event to a webhook."""
    print_rows([_act(project, hook, "ping")], as_json, _delivery)


@app.command("enable")
def webhook_enable(project: Project, hook: WebhookId, as_json: AsJson = False) -> None:
    """Switch a webhook on."""
    print_rows([_act(project, hook, "on")], as_json, lambda webhook: f"{_webhook(webhook)}  on")


@app.command("disable")
def webhook_disable(project: Project, hook: WebhookId, as_json: AsJson = False) -> None:
    """Switch a webhook off."""
    print_rows([_act(project, hook, "off")], as_json, _webhook)


@app.command("remove")
def webhook_remove(project: Project, hook: WebhookId, as_json: AsJson = False) -> None:
    """Remove a webhook."""
    print_rows([_act(project, hook, "remove")], as_json, lambda webhook: f"{_webhook(webhook)}  removed")


def _act(project: str, hook: int, act: str) -> Any:
    return find_server().call(project_path(project, f"webhooks/{hook}/{act}/"), {})


@app.command("deliveries")
def deliveries(project: Project, hook: WebhookId, as_json: AsJson = False) -> None:
    """List the deliveries of a webhook and their responses."""
    rows = find_server().call(project_path(project, f"webhooks/{hook}/deliveries/"))["results"]
    print_rows(rows, as_json, _delivery, "No deliveries.")


@app.command("redeliver")
def redeliver(
    project: Project,
    hook: WebhookId,
    delivery: Annotated[
        int, typer.Argument(help="Number of the delivery, as `troupe webhook deliveries` shows it.")
    ],
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
