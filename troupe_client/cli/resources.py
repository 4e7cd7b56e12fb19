"""Commands that send one request and print its answer, as one table: REQUESTS.

The variables of a path are the command's arguments. A list is printed as a table, any other answer as a line; the columns of both are
those of the document that the API answers with.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, Project, RunId
from troupe_client.cli.output import print_document, print_documents, print_json
from troupe_client.documents.base import Document
from troupe_client.server_api import Server, ServerFailure, find_server

Option = tuple[Any, Any]
"""Annotation of a parameter, and its default."""


def option(kind: Any, about: str, default: Any, **more: Any) -> Option:
    """An option of a command."""
    return Annotated[kind, typer.Option(help=about, **more)], default


def argument(kind: Any, about: str) -> Option:
    """An argument that is not a variable of the path."""
    return Annotated[kind, typer.Argument(help=about)], Parameter.empty


def number(noun: str, command: str = "") -> Any:
    """The argument that names a row of a list by its number."""
    about = f"Number of the {noun}, as `troupe {command or f'{noun} list'}` shows it."
    return Annotated[int, typer.Argument(help=about, min=1)]


def name_of(noun: str) -> Any:
    """The argument that names a row of a list by its name or number."""
    return Annotated[
        str, typer.Argument(help=f"Name or number of the {noun}, as `troupe {noun} list` shows it.")
    ]


ARGUMENTS: dict[str, Any] = {
    "project": Project,
    "run_id": RunId,
    "channel": number("channel"),
    "checkpoint": Annotated[str, typer.Argument(help="last, best, or an iteration.")],
    "delivery": number("delivery", "webhook deliveries"),
    "episode": number("episode"),
    "episode_note": Annotated[
        int,
        typer.Argument(
            metavar="NOTE", help="Number of the note, as `troupe episode-note list` shows it.", min=1
        ),
    ],
    "finding": number("finding"),
    "hook": number("webhook"),
    "link": number("link", "share list"),
    "note": number("note", "run-note list"),
    "number": number("report"),
    "sweep_id": number("sweep"),
    "template": name_of("template"),
    "token": number("token"),
    "username": Annotated[str, typer.Argument(help="Username of the member.")],
    "version": Annotated[int, typer.Argument(help="Number of the version.")],
    "view": name_of("view"),
}
"""Variable of a path -> annotation of the argument."""
LISTS = {"template": "templates/", "view": "views/"}
"""Variable that is a name or a number -> path of the list that has it."""
CHECKED = {
    "run_id": (str.isalnum, "run id; `troupe runs` lists them"),
    "project": (lambda slug: slug.replace("-", "").replace("_", "").isalnum(), "project slug; `troupe project list` lists them"),
    "checkpoint": (lambda name: name.replace("-", "").isalnum(), "checkpoint; use last, best or an iteration"),
    "username": (lambda name: name.strip(".") and "/" not in name, "username; `troupe member list PROJECT` lists them"),
}  # fmt: skip
"""Variable -> test of its text, and what it should have been."""


@dataclass(frozen=True)
class Request:
    """A command."""

    about: str
    path: str
    """Below /api/v1/."""
    document: str
    """Of the answer or of its rows: module of troupe_client.documents, class."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """By name: the query of a GET, the fields of the body otherwise. None is not sent."""
    method: str = "GET"
    empty: str = "None."
    """Text in place of an empty list."""
    done: str = ""
    """Word at the end of the line."""

    def command(self) -> Callable[..., None]:
        """Return the function of a typer command."""
        parameters: dict[str, Option] = {
            name: (ARGUMENTS[name], Parameter.empty) for name in re.findall(r"{(\w+)}", self.path)
        }
        parameters |= {**self.options, "as_json": (AsJson, False)}

        def run(**values: Any) -> None:
            self._print(self.send(find_server(), values), values["as_json"])

        run.__doc__ = self.about
        run.__annotations__ = {name: annotation for name, (annotation, _) in parameters.items()}
        run.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
                for name, (annotation, default) in parameters.items()
            ]
        )
        return run

    def send(self, server: Server, values: Mapping[str, Any]) -> Any:
        """Return the answer. Raises ServerAway, ServerFailure."""
        path = path_of(server, self.path, values)
        sent = {name: values[name] for name in self.options if values[name] is not None}
        if self.method == "GET":
            return server.call(path, **sent)
        return server.send(self.method, path, None if self.method == "DELETE" else sent)

    def _print(self, answer: Any, as_json: bool) -> None:
        module, _, name = self.document.partition(":")
        document: type[Document] = getattr(importlib.import_module(f"troupe_client.documents.{module}"), name)
        if "results" in answer:
            print_documents(answer["results"], document, as_json, self.empty)
        elif as_json:
            print_json(answer)
        else:
            print_document(answer, document, self.done)


def path_of(server: Server, path: str, values: Mapping[str, Any]) -> str:
    """Return a path of the REST API with its variables. Raises ServerFailure for a value that cannot be one."""
    parts = {}
    for variable in re.findall(r"{(\w+)}", path):
        value = parts[variable] = values[variable]
        fits, wanted = CHECKED.get(variable, (None, ""))
        if fits and not (value.isascii() and fits(value)):
            raise ServerFailure(f"{value!r} is not a {wanted}")
        if variable in LISTS:
            rows = server.call(f"/api/v1/{LISTS[variable]}")["results"]
            parts[variable] = find_named(rows, value, variable)["id"]
    return f"/api/v1/{path.format(**parts)}"


def find_named(rows: list[dict[str, Any]], name: str, kind: str) -> dict[str, Any]:
    """Return the row with this name, else the one with this number.

    Raises ServerFailure if there is none or if several have the name. `kind` is the word for a row, e.g. "view".
    """
    matches = [row for row in rows if row["name"] == name] or [row for row in rows if str(row["id"]) == name]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(f"{row['name']} ({row['id']})" for row in rows) or "none yet"
    problem = f"several {kind}s have the name" if matches else f"there is no {kind}"
    raise ServerFailure(f"{problem} {name!r}; {kind}s are {names}")


# fmt: off
post, patch, delete = (partial(Request, method=method) for method in ("POST", "PATCH", "DELETE"))
LIMIT = option(int, "Maximum number of lines.", 50, min=1, max=500)
STEP = option(int | None, "Iteration that the note belongs to; default: the whole run.", None, min=0)
TURN = option(int | None, "Number of the turn, from 1; default: the whole episode.", None, min=1)
AUDIT = {
    "user": option(str, "Username of who acted.", ""),
    "act": option(str, "Prefix of the action: run, or run.stop.", ""),
    "target": option(str, "Part of the target's name.", ""),
    "since": option(str, "Start: a date, e.g. 2026-01-31, or a date and time.", ""),
    "until": option(str, "End: a date, or a date and time.", ""),
    "limit": LIMIT,
}
CHANNEL = {
    "name": argument(str, "Name of the channel."),
    "address": option(str, "An Apprise URL; prompted for by default.", Parameter.empty, prompt="Apprise URL", hide_input=True),
}
VIEW = {
    "name": option(str | None, "New name.", None),
    "default": (Annotated[bool | None, typer.Option("--default/--no-default", help="Open this view by default.")], None),
}
WEBHOOK = {
    "name": argument(str, "Name of the webhook."),
    "address": argument(str, "https://host/path; later only the host is shown."),
    "events": (Annotated[list[str] | None, typer.Option("--event", help="An event; may be repeated. Default: all events.")], None),
}
EPISODE_NOTE = {
    "text": (Annotated[str, typer.Argument(help="Text of the note.")], ""),
    "label": (Annotated[str, typer.Option("--label", "-l", help="A label to search for.")], ""),
    "turn": TURN,
}
TOKEN: dict[str, Option] = {
    "name": argument(str, "The purpose of the token."),
    "scope": option(str, "read, launch (also launch and change runs) or admin (also delete, and manage members and tokens).", "launch"),
    "project": option(str | None, "Slug of the only project that it opens; default: all of yours.", None),
    "runs_per_day": option(int | None, "Maximum number of launches, resumes and jobs in 24 hours.", None, min=0),
    "days": option(int, "Days until it expires; 0: it does not expire.", 365, min=0),
}
REQUESTS: dict[str, dict[str, Request]] = {
    "checkpoint": {
        "pin": post("Exempt a checkpoint from retention.", "runs/{run_id}/checkpoints/{checkpoint}/pin/", "checkpoints:Checkpoint"),
        "unpin": post("Apply retention to a pinned checkpoint again.",
            "runs/{run_id}/checkpoints/{checkpoint}/unpin/", "checkpoints:Checkpoint"),
        "delete": post("Delete a checkpoint from disk.", "runs/{run_id}/checkpoints/{checkpoint}/delete/", "checkpoints:Checkpoint"),
    },
    "channel": {
        "list": Request("List the channels that receive a project's messages.", "projects/{project}/channels/", "notifications:Channel",
            empty="No channels yet: troupe channel add PROJECT NAME"),
        "add": post("Add a channel for a project's messages: webhook, e-mail or chat.",
            "projects/{project}/channels/", "notifications:Channel", CHANNEL),
        "remove": post("Remove a channel.", "projects/{project}/channels/{channel}/remove/", "notifications:Channel", done="removed"),
    },
    "episode-note": {
        "add": post("Add a label or a note to an episode or to one of its turns.", "episodes/{episode}/notes/", "transcripts:EpisodeNote",
            EPISODE_NOTE),
        "list": Request("List the labels and notes of an episode.", "episodes/{episode}/notes/", "transcripts:EpisodeNote",
            empty="No notes yet: troupe episode-note add EPISODE TEXT --label LABEL"),
        "remove": post("Remove a note.", "episodes/{episode}/notes/{episode_note}/remove/", "transcripts:EpisodeNote", done="removed"),
    },
    "finding": {
        "dismiss": post("Dismiss a finding.", "runs/{run_id}/findings/{finding}/dismiss/", "health:Finding"),
        "reopen": post("Reopen a dismissed finding.", "runs/{run_id}/findings/{finding}/reopen/", "health:Finding"),
    },
    "media": {
        "list": Request("List the names of the media, with kind, number of values and steps.", "runs/{run_id}/media/", "media:MediaName",
            empty='No media yet: troupe.log({"samples": troupe.Image(array)})'),
    },
    "member": {
        "list": Request("List the members of a project.", "projects/{project}/members/", "projects:Member"),
        "set": post("Add a member to a project, or change a member's level.", "projects/{project}/members/", "projects:Member",
            {"username": argument(str, "Username of an existing account."), "level": argument(str, "owner, editor or viewer.")}),
        "remove": post("Remove a member from a project.",
            "projects/{project}/members/{username}/remove/", "projects:Member", done="removed"),
    },
    "project": {
        "list": Request("List your projects.", "projects/", "projects:Project"),
        "create": post("Create a project that you own.",
            "projects/", "projects:Project", {"name": argument(str, "Name of the project.")}),
        "tokens": Request("List the API tokens with access to a project: of all members for its owners, otherwise your own.",
            "projects/{project}/tokens/", "projects:ProjectToken", empty="No tokens."),
        "audit": Request("Show the audit log of a project, newest first.",
            "projects/{project}/audit/", "projects:AuditEntry", AUDIT),
    },
    "report": {
        "list": Request("List the reports of your projects.",
            "reports/", "reports:Report", empty="No reports yet: troupe report create FILE --title TITLE"),
        "versions": Request("List the saved versions of a report, newest first.", "reports/{number}/versions/", "reports:ReportVersion"),
        "restore": post("Restore an older version of a report.",
            "reports/{number}/versions/{version}/restore/", "reports:Report", done="restored"),
        "delete": delete("Delete a report with all its versions.", "reports/{number}/", "reports:Report", done="deleted"),
    },
    "run-note": {
        "add": post("Add a note to a run, or to a step on its curves.", "runs/{run_id}/notes/", "runs:RunNote",
            {"text": argument(str, "Text of the note."), "step": STEP}),
        "list": Request("List the notes on a run, newest first.", "runs/{run_id}/notes/", "runs:RunNote",
            empty="No notes yet: troupe run-note add RUN TEXT --step STEP"),
        "edit": post("Change the text of a note on a run.", "runs/{run_id}/notes/{note}/change/", "runs:RunNote",
            {"text": argument(str, "New text of the note.")}),
        "remove": post("Remove a note from a run.", "runs/{run_id}/notes/{note}/remove/", "runs:RunNote", done="removed"),
    },
    "share": {
        "list": Request("List a project's read-only links.", "projects/{project}/shares/", "shares:Share", empty="No links."),
        "revoke": post("Revoke a read-only link.", "projects/{project}/shares/{link}/revoke/", "shares:Share", done="revoked"),
    },
    "sweep": {
        "list": Request("List sweeps, newest first.", "sweeps/", "sweeps:Sweep",
            {"limit": option(int, "Maximum number of sweeps.", 20, min=1, max=500)},
            empty="No sweeps yet: troupe sweep launch PRESET --seeds 0,1,2"),
        "stop": post("Stop the runs of a sweep that have not ended.", "sweeps/{sweep_id}/stop/", "runs:BulkResult"),
    },
    "template": {
        "list": Request("List the templates of your projects.", "templates/", "experiments:Template",
            empty="No templates yet: troupe template save NAME PRESET key=value"),
        "delete": delete("Delete a template; runs launched from it remain.",
            "templates/{template}/", "experiments:Template", done="deleted"),
    },
    "token": {
        "list": Request("List your API tokens, newest first.", "tokens/", "projects:Token", empty="No tokens."),
        "create": post("Create an API token and print it once; it may do no more than the one that creates it.",
            "tokens/", "projects:NewToken", TOKEN),
        "revoke": post("Revoke an API token permanently.", "tokens/{token}/revoke/", "projects:Token", done="revoked"),
    },
    "view": {
        "list": Request("List saved views: your own, and those of your projects.", "views/", "runs:SavedView",
            empty="No views yet: troupe view save NAME --filter 'state = failed'"),
        "edit": patch("Rename a view, or make it the default.", "views/{view}/", "runs:SavedView", VIEW),
        "delete": delete("Delete a view.", "views/{view}/", "runs:SavedView", done="deleted"),
    },
    "webhook": {
        "add": post("Send a project's events to an address, and print the secret of their signatures once.",
            "projects/{project}/webhooks/", "notifications:NewWebhook", WEBHOOK),
        "list": Request("List the webhooks of a project.", "projects/{project}/webhooks/", "notifications:Webhook", empty="No webhooks."),
        "ping": post("Send a test event to a webhook.", "projects/{project}/webhooks/{hook}/ping/", "notifications:Delivery"),
        "enable": post("Switch a webhook on.", "projects/{project}/webhooks/{hook}/on/", "notifications:Webhook"),
        "disable": post("Switch a webhook off.", "projects/{project}/webhooks/{hook}/off/", "notifications:Webhook"),
        "remove": post("Remove a webhook.", "projects/{project}/webhooks/{hook}/remove/", "notifications:Webhook", done="removed"),
        "deliveries": Request("List the deliveries of a webhook and their responses.", "projects/{project}/webhooks/{hook}/deliveries/",
            "notifications:Delivery", empty="No deliveries."),
        "redeliver": post("Repeat a delivery of a webhook.", "projects/{project}/webhooks/{hook}/deliveries/{delivery}/again/",
            "notifications:Delivery"),
    },
}
"""Group of commands -> name -> command."""
# fmt: on
