"""Output of every command: lines, rows, tables and JSON."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from troupe_client.documents.base import Document
from troupe_client.server_api import Server

console = Console(soft_wrap=not sys.stdout.isatty())
errors = Console(stderr=True)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.+Z]")
UNLIMITED = 1_000_000
"""Width of output that is not a terminal: nothing is wrapped or cut."""
LEAST_WIDTH = 16
"""Characters that a shortened column keeps."""


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
        print_line(empty)


def print_documents(
    rows: Sequence[dict[str, Any]], document: type[Document], as_json: bool, empty: str
) -> None:
    """Print rows of the API as JSON, or as a table with the columns of their document; `empty` if there are none."""
    if as_json:
        return print_json(rows)
    if not rows:
        return console.print(empty)
    numbers = [
        heading
        for heading, name in document.columns.items()
        if document.model_fields[name].annotation in (int, float)
    ]
    table = plain_table(*document.columns, right=numbers)
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in document.columns.values()))
    print_table(table)


def print_document(row: dict[str, Any], document: type[Document], done: str = "") -> None:
    """Print the columns of a row of the API in a line, numbers after their headings, and the word `done`.

    Of a true value the heading is printed, of a false or missing one nothing.
    """
    first, *others = document.columns
    cells = [_cell(row[document.columns[first]])]
    for heading in others:
        value = row.get(document.columns[heading])
        if value is True:
            cells.append(heading)
        elif isinstance(value, int | float) and value is not False:
            cells.append(f"{heading} {_cell(value)}")
        elif value:
            cells.append(_cell(value))
    print_line("  ".join([*cells, done]).rstrip())


def _cell(value: Any) -> str:
    """A value of JSON as the text of a cell."""
    if value in (None, "", [], {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, dict):
        value = "  ".join(f"{key}={item}" for key, item in value.items())
    text = str(value)
    return text[:19] if _TIME.match(text) else visible(text)


def print_launched(server: Server, run: dict[str, Any], as_json: bool) -> None:
    """Print a launched run: id, state and the address of its page."""
    print_result(run, as_json, f"{run['id']}  {run['state']}  {server.page(run['links']['page'])}")
    if not as_json and run["reason"]:
        print_line(f"{run['reason']} {run['remedy']}".strip(), "yellow")


def print_forked(server: Server, origin: str, run: dict[str, Any], as_json: bool) -> None:
    """Print a fork of the run `origin`, and whether it was launched again because there was no checkpoint."""
    print_launched(server, run, as_json)
    if not as_json and run["parent"] != origin:
        print_line(f"There was no checkpoint yet: launched again from the start of {origin}.")


def plain_table(*headings: str, right: Sequence[str] = (), wrap: Sequence[str] = ()) -> Table:
    """Return a table without borders. Columns named in `right` are aligned to the right; those in `wrap` may be narrowed."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, no_wrap=heading not in wrap, overflow="fold")
    return table


def print_table(table: Table, drop: Sequence[str] = ()) -> None:
    """Print a table. In a terminal that is too narrow, columns are narrowed, and then those in `drop` left out in this order.

    The first column is never cut. Output that is not a terminal has every column at its full width.
    """
    if not console.is_terminal:
        return console.print(_Wide(table, UNLIMITED), crop=False)
    drop = list(drop)
    while (missing := _least_width(table) - console.width) > 0 and drop:
        table = _without(table, drop.pop(0))
    console.print(_Wide(table, console.width + max(missing, 0)), crop=False)


def print_wide(content: RenderableType) -> None:
    """Print content; without a limit of its width if the output is not a terminal."""
    console.print(content if console.is_terminal else _Wide(content, UNLIMITED), crop=False)


@dataclass(frozen=True)
class _Wide:
    """Content rendered at a width that may exceed the console's."""

    content: RenderableType
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.content, options.update(width=self.width))


def _least_width(table: Table) -> int:
    """Characters that the table needs if its wrapped columns have LEAST_WIDTH."""
    cells = sum(
        min(width, LEAST_WIDTH if not column.no_wrap else width) + 2
        for column in table.columns
        for width in [max(cell_len(str(cell)) for cell in (column.header, *column.cells))]
    )
    return cells - 2  # the last column has no gap


def _without(table: Table, heading: str) -> Table:
    columns = [column for column in table.columns if column.header != heading]
    rest = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        rest.add_column(
            column.header, justify=column.justify, no_wrap=column.no_wrap, overflow=column.overflow
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        rest.add_row(*cells)
    return rest


def visible(text: str) -> str:
    """Replace control characters, which could command the terminal; line breaks and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
