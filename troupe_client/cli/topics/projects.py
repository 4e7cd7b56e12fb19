"""Projects, their people, their audit log."""

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from troupe_client.cli.show import console, visible
from troupe_client.server_api import ServerFailure, find_server

app = typer.Typer()
Project = Annotated[str, typer.Argument(help="Slug of the project, as `troupe projects` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command()
def projects(as_json: AsJson = False) -> None:
    """List your projects."""
    rows = find_server().call("/api/v1/projects/")["results"]
    say(rows, as_json, lambda each: f"{each['slug']}  {each['level']}  {each['name']}")


@app.command()
def project_create(name: Annotated[str, typer.Argument(help="Its name.")], as_json: AsJson = False) -> None:
    """Make a project that you own."""
    say([find_server().call("/api/v1/projects/", {"name": name})], as_json, lambda each: str(each["slug"]))


@app.command()
def members(project: Project, as_json: AsJson = False) -> None:
    """List who belongs to a project."""
    rows = find_server().call(project_path(project, "members/"))["results"]
    say(rows, as_json, lambda each: f"{each['username']}  {each['level']}")


@app.command()
def member_set(
    project: Project,
    username: Annotated[str, typer.Argument(help="Somebody with an account.")],
    level: Annotated[str, typer.Argument(help="owner, editor or viewer.")],
    as_json: AsJson = False,
) -> None:
    """Add somebody to a project, or change what they may do."""
    body = {"username": username, "level": level}
    made = find_server().call(project_path(project, "members/"), body)
    say([made], as_json, lambda each: f"{each['username']}  {each['level']}")


@app.command()
def member_remove(
    project: Project, username: Annotated[str, typer.Argument(help="Who it is.")], as_json: AsJson = False
) -> None:
    """Take somebody out of a project."""
    if "/" in username or username in ("", ".", ".."):
        raise ServerFailure(f"{username!r} is no username")
    gone = find_server().call(project_path(project, f"members/{username}/remove/"), {})
    say([gone], as_json, lambda each: f"{each['username']}  removed")


@app.command()
def project_tokens(project: Project, as_json: AsJson = False) -> None:
    """List the API tokens that reach a project: of all members for its owners, else your own."""
    rows = find_server().call(project_path(project, "tokens/"))["results"]
    say(rows, as_json, _token, "no tokens")


@app.command()
def audit(
    project: Project,
    user: Annotated[str, typer.Option(help="Who did it.")] = "",
    act: Annotated[str, typer.Option(help="How the act begins: run, or run.stop.")] = "",
    target: Annotated[str, typer.Option(help="Part of what it was done to.")] = "",
    since: Annotated[str, typer.Option(help="A date, e.g. 2026-01-31, or a moment.")] = "",
    until: Annotated[str, typer.Option(help="A date or a moment.")] = "",
    limit: Annotated[int, typer.Option(help="Lines.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """Say who did what in a project, newest first."""
    asked = {"user": user, "act": act, "target": target, "since": since, "until": until, "limit": limit}
    rows = find_server().call(project_path(project, "audit/"), **asked)["results"]
    say(rows, as_json, _entry)


def project_path(project: str, below: str = "") -> str:
    """Address of something below a project. Raises ServerFailure for what can be no slug."""
    if not project.replace("-", "").replace("_", "").isalnum() or not project.isascii():
        raise ServerFailure(f"{project!r} is no project's slug; `troupe projects` lists them")
    return f"/api/v1/projects/{project}/{below}"


def say(rows: list[dict[str, Any]], as_json: bool, line: Any, empty: str = "") -> None:
    """A line each, or JSON. `line` makes the text of one row."""
    if as_json:
        return typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    for each in rows:
        console.print(Text(visible(line(each))), soft_wrap=True)
    if empty and not rows:
        console.print(empty)


def _token(each: dict[str, Any]) -> str:
    used = f"used {each['last_used_at'][:10]}" if each["last_used_at"] else "never used"
    reach = "this project alone" if each["project"] else "all projects"
    return (
        f"{each['prefix']}  {each['username']}  {each['name']}  {', '.join(each['scopes'])}  {reach}  {used}"
    )


def _entry(entry: dict[str, Any]) -> str:
    details = " ".join(f"{name}={value}" for name, value in entry["details"].items())
    return f"{entry['time'][:19]}  {entry['user'] or 'Troupe'}  {entry['act']}  {entry['target']}  {details}".rstrip()
