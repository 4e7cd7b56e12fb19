"""`troupe report`: reports about runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from troupe_client.cli.arguments import AsJson, InProject
from troupe_client.cli.output import (
    print_json,
    print_result,
    visible,
)
from troupe_client.server_api import find_server

app = typer.Typer()
ReportId = Annotated[int, typer.Argument(help="Number of the report, as `troupe report list` shows it.")]
MarkdownFile = Annotated[Path, typer.Argument(help="Markdown file; - reads standard input.")]


@app.command("create")
def report_create(
    file: MarkdownFile,
    title: Annotated[str, typer.Option(help="Title of the report.")] = "",
    project: InProject = "",
    as_json: AsJson = False,
) -> None:
    """Create a report from a file."""
    server = find_server()
    created = server.call("/api/v1/reports/", {"title": title, "text": _read(file), "project": project})
    page = server.page(created["links"]["page"])
    print_result(created, as_json, f"{created['id']}  {created['title']}  {page}")


@app.command("show")
def report_show(
    number: ReportId,
    version: Annotated[int, typer.Option(help="An older version; see `troupe report versions`.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print a report's Markdown."""
    part = f"versions/{version}/" if version else ""
    shown = find_server().call(f"/api/v1/reports/{number}/{part}")
    print_json(shown) if as_json else sys.stdout.write(visible(shown["text"]) + "\n")


@app.command("edit")
def report_edit(
    number: ReportId,
    file: MarkdownFile,
    title: Annotated[str, typer.Option(help="New title.")] = "",
    base: Annotated[
        int, typer.Option(help="Revision that the file is based on; default: the current one.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Replace the text of a report by a file; the previous text remains as a version."""
    server = find_server()
    current = server.call(f"/api/v1/reports/{number}/")
    body = {"title": title or current["title"], "text": _read(file), "base": base or current["revision"]}
    saved = server.send("PUT", f"/api/v1/reports/{number}/", body)
    print_result(saved, as_json, f"saved as version {saved['version']}")


@app.command("export")
def report_export(
    number: ReportId,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; .html or .md selects the format.")
    ],
    as_json: AsJson = False,
) -> None:
    """Write a report to a file: Markdown, or a self-contained HTML page."""
    kind = "html" if output.suffix == ".html" else "md"
    exported = find_server().call(f"/api/v1/reports/{number}/export/", **{"as": kind})
    output.write_text(exported["text"], encoding="utf-8")
    characters = len(exported["text"])
    written = {"file": str(output), "characters": characters}
    print_result(written, as_json, f"{output}  {characters} characters")


@app.command("share")
def report_share(
    number: ReportId,
    days: Annotated[int, typer.Option(help="Days until the link expires; 0: valid until revoked.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Create a read-only link to a report, shown only once."""
    created = find_server().call(f"/api/v1/reports/{number}/share/", {"days": days or None})
    print_result(created, as_json, created["link"])


def _read(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
