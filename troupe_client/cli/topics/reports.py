"""`troupe report`: reports about runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from troupe_client.cli.arguments import AsJson, InProject
from troupe_client.cli.output import (
    console,
    plain_table,
    print_json,
    print_line,
    print_result,
    print_rows,
    visible,
)
from troupe_client.server_api import find_server

app = typer.Typer()
report = typer.Typer(help="Reports: Markdown with charts and transcripts of runs.", no_args_is_help=True)
app.add_typer(report, name="report")
ReportId = Annotated[int, typer.Argument(help="Number of the report, as `troupe report list` shows it.")]
MarkdownFile = Annotated[Path, typer.Argument(help="Markdown file; - reads standard input.")]


@report.command("list")
def report_list(as_json: AsJson = False) -> None:
    """List the reports of your projects."""
    rows = find_server().call("/api/v1/reports/")["results"]
    if as_json:
        return print_json(rows)
    table = plain_table("report", "title", "project", "author", "changed")
    for row in rows:
        title = Text(visible(row["title"]))
        table.add_row(str(row["id"]), title, row["project"], row["author"], row["updated_at"][:16])
    console.print(table if rows else "No reports yet: troupe report new FILE --title TITLE")


@report.command("new")
def report_new(
    file: MarkdownFile,
    title: Annotated[str, typer.Option(help="Title of the report.")] = "",
    project: InProject = "",
    as_json: AsJson = False,
) -> None:
    """Create a report from a file."""
    server = find_server()
    created = server.call("/api/v1/reports/", {"title": title, "text": _read(file), "project": project})
    page = server.address(created["links"]["page"])
    print_result(created, as_json, f"{created['id']}  {created['title']}  {page}")


@report.command("show")
def report_show(
    number: ReportId,
    version: Annotated[int, typer.Option(help="An older version; see `troupe report versions`.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print a report's Markdown."""
    part = f"versions/{version}/" if version else ""
    shown = find_server().call(f"/api/v1/reports/{number}/{part}")
    print_json(shown) if as_json else sys.stdout.write(visible(shown["text"]) + "\n")


@report.command("write")
def report_write(
    number: ReportId,
    file: MarkdownFile,
    title: Annotated[str, typer.Option(help="New title.")] = "",
    base: Annotated[
        int, typer.Option(help="Revision that the file is based on; default: the current one.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Replace the text of a report by a file. The previous text remains as a version."""
    server = find_server()
    current = server.call(f"/api/v1/reports/{number}/")
    body = {"title": title or current["title"], "text": _read(file), "base": base or current["revision"]}
    saved = server.send("PUT", f"/api/v1/reports/{number}/", body)
    print_result(saved, as_json, f"saved as version {saved['version']}")


@report.command("versions")
def report_versions(number: ReportId, as_json: AsJson = False) -> None:
    """List the saved versions of a report, newest first."""
    rows = find_server().call(f"/api/v1/reports/{number}/versions/")["results"]
    print_rows(rows, as_json, _version)


def _version(row: dict[str, object]) -> str:
    conflict = "  conflict: another save came first" if row["kind"] == "beside" else ""
    time = str(row["updated_at"])[:16]
    return f"{row['number']}  {time}  {row['author']}  {row['characters']} characters{conflict}"


@report.command("restore")
def report_restore(
    number: ReportId,
    version: Annotated[int, typer.Argument(help="Number of the version.")],
    as_json: AsJson = False,
) -> None:
    """Restore an older version of a report."""
    restored = find_server().send("POST", f"/api/v1/reports/{number}/versions/{version}/restore/", {})
    print_result(restored, as_json, f"version {version} is restored")


@report.command("export")
def report_export(
    number: ReportId,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; .html or .md selects the format.")
    ],
) -> None:
    """Write a report to a file: Markdown, or a self-contained HTML page."""
    kind = "html" if output.suffix == ".html" else "md"
    exported = find_server().call(f"/api/v1/reports/{number}/export/", **{"as": kind})
    output.write_text(exported["text"], encoding="utf-8")
    print_line(f"{output}  {len(exported['text'])} characters")


@report.command("share")
def report_share(
    number: ReportId,
    days: Annotated[int, typer.Option(help="Days until the link expires; 0: valid until revoked.")] = 30,
) -> None:
    """Create a read-only link to a report. The link is shown only once."""
    created = find_server().call(f"/api/v1/reports/{number}/share/", {"days": days or None})
    print_line(created["link"])


@report.command("delete")
def report_delete(number: ReportId, as_json: AsJson = False) -> None:
    """Delete a report with all its versions."""
    deleted = find_server().send("DELETE", f"/api/v1/reports/{number}/")
    print_result(deleted, as_json, f"{deleted['title']}  deleted")


def _read(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
