"""Reports: what is written about runs."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.show import console, visible
from troupe_client.server_api import find_server

app = typer.Typer()
report = typer.Typer(
    help="Reports: Markdown with charts and transcripts of runs in it.", no_args_is_help=True
)
app.add_typer(report, name="report")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Number = Annotated[int, typer.Argument(help="Number of the report, as `troupe report list` shows it.")]
File = Annotated[Path, typer.Argument(help="Markdown; - reads standard input.")]


@report.command("list")
def report_list(as_json: AsJson = False) -> None:
    """List the reports of your projects."""
    found = find_server().call("/api/v1/reports/")["results"]
    if as_json:
        return _print_json(found)
    table = Table("report", "title", "project", "author", "changed", box=None, pad_edge=False)
    for row in found:
        table.add_row(
            str(row["id"]), Text(visible(row["title"])), row["project"], row["author"], row["updated_at"][:16]
        )
    console.print(table if found else "No reports yet: troupe report new FILE --title TITLE")


@report.command("new")
def report_new(
    file: File,
    title: Annotated[str, typer.Option(help="What it is called.")] = "",
    project: Annotated[str, typer.Option(help="Slug of the project; default: your first.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a report from a file."""
    server = find_server()
    made = server.call("/api/v1/reports/", {"title": title, "text": _read(file), "project": project})
    if as_json:
        return _print_json(made)
    _line(f"{made['id']}  {made['title']}  {server.address(made['links']['page'])}")


@report.command("show")
def report_show(
    number: Number,
    version: Annotated[int, typer.Option(help="An older one; see `troupe report versions`.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print a report's Markdown."""
    part = f"versions/{version}/" if version else ""
    found = find_server().call(f"/api/v1/reports/{number}/{part}")
    _print_json(found) if as_json else sys.stdout.write(visible(found["text"]) + "\n")


@report.command("write")
def report_write(
    number: Number,
    file: File,
    title: Annotated[str, typer.Option(help="Another title.")] = "",
    base: Annotated[int, typer.Option(help="The revision you began from; default: as it is now.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Put a file in the place of a report's text; what was there stays as a version."""
    server = find_server()
    now = server.call(f"/api/v1/reports/{number}/")
    body = {"title": title or now["title"], "text": _read(file), "base": base or now["revision"]}
    saved = server.send("PUT", f"/api/v1/reports/{number}/", body)
    _print_json(saved) if as_json else _line(f"saved as version {saved['version']}")


@report.command("versions")
def report_versions(number: Number, as_json: AsJson = False) -> None:
    """List every text that was saved, the newest first."""
    found = find_server().call(f"/api/v1/reports/{number}/versions/")["results"]
    if as_json:
        return _print_json(found)
    for row in found:
        beside = "  beside: somebody else had saved" if row["kind"] == "beside" else ""
        _line(
            f"{row['number']}  {row['updated_at'][:16]}  {row['author']}  {row['characters']} characters{beside}"
        )


@report.command("restore")
def report_restore(
    number: Number, version: Annotated[int, typer.Argument(help="The version.")], as_json: AsJson = False
) -> None:
    """Make an older version the report again."""
    found = find_server().send("POST", f"/api/v1/reports/{number}/versions/{version}/restore/", {})
    _print_json(found) if as_json else _line(f"version {version} is the report again")


@report.command("export")
def report_export(
    number: Number,
    output: Annotated[Path, typer.Option("--output", "-o", help="File; .html or .md says which.")],
) -> None:
    """Write a report to a file: Markdown, or a page that needs nothing else."""
    kind = "html" if output.suffix == ".html" else "md"
    found = find_server().call(f"/api/v1/reports/{number}/export/", **{"as": kind})
    output.write_text(found["text"], encoding="utf-8")
    _line(f"{output}  {len(found['text'])} characters")


@report.command("share")
def report_share(
    number: Number, days: Annotated[int, typer.Option(help="How long it works; 0: until revoked.")] = 30
) -> None:
    """Make a read-only link; it is shown this once."""
    made = find_server().call(f"/api/v1/reports/{number}/share/", {"days": days or None})
    _line(made["link"])


@report.command("delete")
def report_delete(number: Number, as_json: AsJson = False) -> None:
    """Delete a report with all its versions."""
    gone = find_server().send("DELETE", f"/api/v1/reports/{number}/")
    _print_json(gone) if as_json else _line(f"{gone['title']}  deleted")


def _read(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")


def _line(text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
