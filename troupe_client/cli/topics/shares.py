"""Share links: read-only access without an account."""

from typing import Annotated

import typer

from troupe_client.cli.arguments import AsJson, Project
from troupe_client.cli.output import print_rows
from troupe_client.server_api import find_server, project_path, run_path

app = typer.Typer()


@app.command("create")
def share(
    runs: Annotated[list[str], typer.Argument(help="Id of a run; several ids share their comparison.")],
    title: Annotated[str, typer.Option(help="Title in the list of links.")] = "",
    days: Annotated[
        int, typer.Option(help="Days until the link expires; 0: valid until revoked.", min=0)
    ] = 30,
    as_json: AsJson = False,
) -> None:
    """Create a read-only link to a run or a comparison of runs, shown only once."""
    server = find_server()
    project = server.call(run_path(runs[0]))["project"]
    one = len(runs) == 1
    body = {
        "kind": "run" if one else "comparison",
        "target": runs[0] if one else f"runs={','.join(runs)}",
        "title": title,
        "days": days or None,
    }
    created = server.call(project_path(project, "shares/"), body)
    print_rows([created], as_json, lambda link: str(link["link"]))


@app.command("list")
def shares(project: Project, as_json: AsJson = False) -> None:
    """List a project's read-only links."""
    rows = find_server().call(project_path(project, "shares/"))["results"]
    print_rows(rows, as_json, _link, "No links.")


@app.command("revoke")
def share_revoke(
    project: Project,
    link: Annotated[int, typer.Argument(help="Number of the link, as `troupe share list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a read-only link."""
    revoked = find_server().call(project_path(project, f"shares/{link}/revoke/"), {})
    print_rows([revoked], as_json, _link)


def _link(link: dict[str, object]) -> str:
    state = "works" if link["live"] else "revoked" if link["revoked_at"] else "expired"
    until = f" until {str(link['expires_at'])[:10]}" if link["live"] and link["expires_at"] else ""
    opened = f"opened {link['opened']} times"
    return (
        f"{link['id']}  {link['kind']}  {link['target']}  {state}{until}  {opened}  {link['title']}".rstrip()
    )
