"""Output of every command: lines, rows, tables and JSON."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from troupe_client.server_api import Server

console = Console()
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """Print indented JSON for scripts."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_line(text: str, style: str = "") -> None:
    """Print text without interpreting markup; see `visible`."""
    console.print(Text(visible(text), style=style), soft_wrap=True)


def print_result(result: Any, as_json: bool, line: str) -> None:
    """Print a response of the API as JSON, or `line` in its place."""
    if as_json:
        print_json(result)
    else:
        print_line(line)


def print_rows(
    rows: Sequence[dict[str, Any]], as_json: bool, line: Callable[[Any], str], empty: str = ""
) -> None:
    """Print rows of the API as JSON, or `line` of each; `empty` if there are none."""
    if as_json:
        return print_json(rows)
    for row in rows:
        print_line(line(row))
    if empty and not rows:
        console.print(empty)


def print_launched(server: Server, run: dict[str, Any], as_json: bool) -> None:
    """Print a launched run: id, state and the address of its page."""
    print_result(run, as_json, f"{run['id']}  {run['state']}  {server.address(run['links']['page'])}")


def plain_table(*headings: str, right: Sequence[str] = ()) -> Table:
    """Return a table without borders. Columns named in `right` are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    return table


def visible(text: str) -> str:
    """Replace control characters, which could command the terminal; line breaks and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
