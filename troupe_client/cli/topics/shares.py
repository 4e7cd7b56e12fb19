"""Read-only links for people without an account."""

from typing import Annotated

import typer

from troupe_client.cli.topics.projects import AsJson, Project, project_path, say
from troupe_client.server_api import find_server, run_path

app = typer.Typer()


@app.command()
def share(
    runs: Annotated[list[str], typer.Argument(help="A run's id; several ids show their comparison.")],
    title: Annotated[str, typer.Option(help="What the list of links calls it.")] = "",
    days: Annotated[int, typer.Option(help="How long it works; 0: until it is revoked.", min=0)] = 30,
    as_json: AsJson = False,
) -> None:
    """Make a read-only link to a run, or to a comparison of runs. It is shown this once."""
    server = find_server()
    project = server.call(run_path(runs[0]))["project"]
    one = len(runs) == 1
    body = {
        "kind": "run" if one else "comparison",
        "target": runs[0] if one else f"runs={','.join(runs)}",
        "title": title,
        "days": days or None,
    }
    made = server.call(project_path(project, "shares/"), body)
    say([made], as_json, lambda each: str(each["link"]))


@app.command()
def shares(project: Project, as_json: AsJson = False) -> None:
    """List a project's read-only links."""
    rows = find_server().call(project_path(project, "shares/"))["results"]
    say(rows, as_json, _line, "nothing is shared")


@app.command()
def share_revoke(
    project: Project,
    link: Annotated[int, typer.Argument(help="Its number, as `troupe shares` shows it.")],
    as_json: AsJson = False,
) -> None:
    """End a read-only link."""
    gone = find_server().call(project_path(project, f"shares/{link}/revoke/"), {})
    say([gone], as_json, _line)


def _line(each: dict[str, object]) -> str:
    state = "works" if each["live"] else "revoked" if each["revoked_at"] else "over"
    until = f" until {str(each['expires_at'])[:10]}" if each["live"] and each["expires_at"] else ""
    return f"{each['id']}  {each['kind']}  {each['target']}  {state}{until}  opened {each['opened']} times  {each['title']}".rstrip()
