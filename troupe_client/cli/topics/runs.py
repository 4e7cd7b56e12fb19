"""Many runs at once: bulk actions and families."""

from typing import Annotated

import typer
from rich.text import Text

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, RunIds
from troupe_client.cli.output import plain_table, print_json, print_rows, print_table, visible
from troupe_client.cli.show import reported_keys
from troupe_client.server_api import find_server

family = typer.Typer()
bulk = typer.Typer()
FAMILY = {
    "eval_success": "success, greedy",
    "eval_sampled_success": "sampled",
    "eval_return": "return, greedy",
}
"""Columns of the table of families, if any family has them."""
Tag = Annotated[str, typer.Argument(help="The tag.")]
Filter = Annotated[str, typer.Option("--filter", help="E.g. 'state = failed'; see `troupe runs --filter`.")]


ACTS = {
    "stop": "Stop many runs after their current iteration.",
    "pause": "Pause many runs and release their devices.",
    "resume": "Resume many runs from their last checkpoints.",
    "archive": "Hide many runs from lists.",
    "unarchive": "Show archived runs in lists again.",
}
"""Commands of `troupe bulk` that need no value."""


def _add_act(act: str, about: str) -> None:
    @bulk.command(act, help=about)
    def command(runs: RunIds = None, filter_text: Filter = "", as_json: AsJson = False) -> None:
        _apply(act, "", runs, filter_text, as_json)


for _name, _about in ACTS.items():
    _add_act(_name, _about)


@bulk.command("tag")
def bulk_tag(tag: Tag, runs: RunIds = None, filter_text: Filter = "", as_json: AsJson = False) -> None:
    """Add a tag to many runs."""
    _apply("tag", tag, runs, filter_text, as_json)


@bulk.command("untag")
def bulk_untag(tag: Tag, runs: RunIds = None, filter_text: Filter = "", as_json: AsJson = False) -> None:
    """Remove a tag from many runs."""
    _apply("untag", tag, runs, filter_text, as_json)


@bulk.command("priority")
def bulk_priority(
    priority: Annotated[int, typer.Argument(help="Priority in the queue; the highest starts first.")],
    runs: RunIds = None,
    filter_text: Filter = "",
    as_json: AsJson = False,
) -> None:
    """Set the priority of many runs in the queue."""
    _apply("priority", str(priority), runs, filter_text, as_json)


def _apply(act: str, value: str, runs: list[str] | None, filter_text: str, as_json: bool) -> None:
    server, ids = find_server(), list(runs or [])
    if filter_text:
        matches = server.call("/api/v1/runs/", filter=filter_text, limit=500)["results"]
        ids += [row["id"] for row in matches]
    if not ids:
        raise TroupeError("no run is listed or matches the filter")
    results = server.call("/api/v1/bulk/", {"runs": ids, "act": act, "value": value})["results"]
    print_rows(results, as_json, lambda row: f"{row['id']}  {'done' if row['ok'] else row['detail']}")
    if not all(row["ok"] for row in results):
        raise typer.Exit(1)


@family.command("list")
def families(filter_text: Filter = "", as_json: AsJson = False) -> None:
    """Show runs that differ only in their seed as families, with mean and standard deviation."""
    rows = find_server().call("/api/v1/families/", filter=filter_text)["results"]
    if as_json:
        return print_json(rows)
    means = reported_keys(rows, [f"{key}_mean" for key in FAMILY])
    keys = [mean.removesuffix("_mean") for mean in means]
    table = plain_table("name", "runs", *(FAMILY[key] for key in keys), "family", wrap=("name",))
    for row in rows:
        cells = [_spread(row, key) for key in keys]
        table.add_row(Text(visible(row["name"])), str(row["runs"]), *cells, row["family"])
    print_table(table, ["family"])


def _spread(row: dict[str, float | None], key: str) -> str:
    mean, deviation = row[f"{key}_mean"], row[f"{key}_sd"]
    if mean is None:
        return "–"
    spread = f" ± {deviation:.3f}" if deviation is not None else ""
    return f"{mean:.3f}{spread} (n {row[f'{key}_n']})"
