"""Projects: members, tokens, audit log."""

from typing import Annotated, Any

import typer

from troupe_client.cli.arguments import AsJson, Project
from troupe_client.cli.output import print_rows
from troupe_client.server_api import ServerFailure, find_server, project_path

app = typer.Typer()
member = typer.Typer()


@app.command("list")
def projects(as_json: AsJson = False) -> None:
    """List your projects."""
    rows = find_server().call("/api/v1/projects/")["results"]
    print_rows(rows, as_json, lambda project: f"{project['slug']}  {project['level']}  {project['name']}")


@app.command("create")
def project_create(
    name: Annotated[str, typer.Argument(help="Name of the project.")], as_json: AsJson = False
) -> None:
    """Create a project that you own."""
    created = find_server().call("/api/v1/projects/", {"name": name})
    print_rows([created], as_json, lambda project: str(project["slug"]))


@member.command("list")
def members(project: Project, as_json: AsJson = False) -> None:
    """List the members of a project."""
    rows = find_server().call(project_path(project, "members/"))["results"]
    print_rows(rows, as_json, _member)


@member.command("set")
def member_set(
    project: Project,
    username: Annotated[str, typer.Argument(help="Username of an existing account.")],
    level: Annotated[str, typer.Argument(help="owner, editor or viewer.")],
    as_json: AsJson = False,
) -> None:
    """Add a member to a project, or change a member's level."""
    body = {"username": username, "level": level}
    print_rows([find_server().call(project_path(project, "members/"), body)], as_json, _member)


@member.command("remove")
def member_remove(
    project: Project,
    username: Annotated[str, typer.Argument(help="Username of the member.")],
    as_json: AsJson = False,
) -> None:
    """Remove a member from a project."""
    if "/" in username or username in ("", ".", ".."):
        raise ServerFailure(f"{username!r} is not a username; `troupe member list PROJECT` lists them")
    removed = find_server().call(project_path(project, f"members/{username}/remove/"), {})
    print_rows([removed], as_json, lambda member: f"{member['username']}  removed")


@app.command("tokens")
def project_tokens(project: Project, as_json: AsJson = False) -> None:
    """List the API tokens with access to a project: of all members for its owners, otherwise your own."""
    rows = find_server().call(project_path(project, "tokens/"))["results"]
    print_rows(rows, as_json, _token, "No tokens.")


@app.command("audit")
def audit(
    project: Project,
    user: Annotated[str, typer.Option(help="Username of who acted.")] = "",
    act: Annotated[str, typer.Option(help="Prefix of the action: run, or run.stop.")] = "",
    target: Annotated[str, typer.Option(help="Part of the target's name.")] = "",
    since: Annotated[str, typer.Option(help="Start: a date, e.g. 2026-01-31, or a date and time.")] = "",
    until: Annotated[str, typer.Option(help="End: a date, or a date and time.")] = "",
    limit: Annotated[int, typer.Option(help="Maximum number of lines.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the audit log of a project, newest first."""
    query = {"user": user, "act": act, "target": target, "since": since, "until": until, "limit": limit}
    rows = find_server().call(project_path(project, "audit/"), **query)["results"]
    print_rows(rows, as_json, _entry)


def _member(member: dict[str, Any]) -> str:
    return f"{member['username']}  {member['level']}"


def _token(token: dict[str, Any]) -> str:
    used = f"used {token['last_used_at'][:10]}" if token["last_used_at"] else "never used"
    reach = "this project only" if token["project"] else "all projects"
    scopes = ", ".join(token["scopes"])
    return f"{token['prefix']}  {token['username']}  {token['name']}  {scopes}  {reach}  {used}"


def _entry(entry: dict[str, Any]) -> str:
    details = " ".join(f"{name}={value}" for name, value in entry["details"].items())
    user = entry["user"] or "Troupe"
    return f"{entry['time'][:19]}  {user}  {entry['act']}  {entry['target']}  {details}".rstrip()
