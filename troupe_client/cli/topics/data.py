"""`troupe data`: data sets and prompt files."""

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from training_core.errors import TroupeError
from training_core.json_lines import json_line, read_lines
from troupe_client.cli.arguments import AsJson
from troupe_client.cli.output import print_json, print_line, print_result
from troupe_client.server_api import home

app = typer.Typer()


@app.command("import")
def import_(  # noqa: PLR0913 - each is an option of the command
    source: Annotated[
        Path, typer.Argument(help="A .jsonl or .parquet file, or a folder of these or of `datasets`.")
    ],
    name: Annotated[str, typer.Argument(help="Folder to write, below data/ in TROUPE_HOME.")],
    question: Annotated[str, typer.Option(help="Column of the task's text, or of its messages.")] = "prompt",
    answer: Annotated[str, typer.Option(help="Column of the answer; default: label or answer.")] = "",
    tests: Annotated[str, typer.Option(help="Column of inputs and outputs: tasks for `coding`.")] = "",
    solution: Annotated[str, typer.Option(help="Column of a correct program.")] = "",
    task_id: Annotated[
        str, typer.Option("--id", help="Column of ids; default: a hash of the question.")
    ] = "",
    keep: Annotated[
        list[str] | None, typer.Option(help="A further column for the reward function; may be repeated.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to train on; default: train, or the only one.")] = "",
    held_out: Annotated[
        str, typer.Option("--eval", help="Held-out tasks: a split of the source, a file or a folder.")
    ] = "",
    eval_share: Annotated[
        float | None,
        typer.Option(help="Share of tasks to hold out without --eval; default: 0.1.", min=0.001, max=0.9),
    ] = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out rows with errors and count them.")
    ] = False,
    drop_shared: Annotated[
        bool, typer.Option("--drop-shared", help="Leave out of training what is held out.")
    ] = False,
    project: Annotated[
        str,
        typer.Option(help="Project of the server that gets the data; default: that of the server's owner."),
    ] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite other tasks of the same name.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import tasks from JSON Lines, parquet or a folder of `datasets` into the data folder."""
    from training_core.llm.datasets.columns import Columns
    from training_core.llm.datasets.importing import Request, import_data

    columns = Columns(question, answer, tests, solution, task_id, tuple(keep or ()))
    request = Request(source, columns, split, held_out, eval_share, skip_invalid, drop_shared, replace)
    result = import_data(name, request, home(), project)
    if as_json:
        return print_json(asdict(result) | {"folder": str(result.folder)})
    left_out = {
        "duplicates": result.duplicates,
        "held-out tasks": result.shared,
        "invalid rows": result.invalid,
    }
    print_line(
        f"{result.train:,} tasks for training and {result.held_out:,} for evaluation in {result.folder}"
    )
    for what, count in left_out.items():
        if count:
            print_line(f"left out: {count:,} {what}")
    if result.first_invalid:
        print_line(f"first invalid row: {result.first_invalid}")
    if not result.changed:
        print_line("unchanged: the files were there already")
    print_line(" ".join(f"{path}={value}" for path, value in result.settings.items()))


@app.command("assign-ids")
def assign_ids(
    file: Annotated[Path, typer.Argument(help="JSONL file of prompts, changed in place.")],
    output: Annotated[Path | None, typer.Option(help="File to write instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add an instance_id to every prompt that has none."""
    items = _read(file)
    added = add_ids(items)
    target = output or file
    if added or output:
        _write(target, items)
    result = {"file": str(target), "added": added, "prompts": len(items)}
    print_result(result, as_json, f"{target}: added an instance_id to {added} of {len(items)} prompts")


def add_ids(items: list[dict[str, Any]]) -> int:
    """Add an instance_id to items without one and return their number.

    The id is a hash of the item's content, so that the order of lines does not matter. Equal items are numbered.
    """
    used = {str(item["instance_id"]) for item in items if _has_id(item)}
    seen: Counter[str] = Counter()
    added = 0
    for item in items:
        if _has_id(item):
            continue
        content = {name: value for name, value in item.items() if name != "instance_id"}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        while True:
            seen[digest] += 1
            name = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
            if name not in used:
                break
        used.add(name)
        item["instance_id"] = name
        added += 1
    return added


def _has_id(item: dict[str, Any]) -> bool:
    return item.get("instance_id") not in (None, "")


def _read(file: Path) -> list[dict[str, Any]]:
    """Return the file's objects. Raises TroupeError with file and line."""
    try:
        lines = list(read_lines(file))
    except OSError as error:
        raise TroupeError(f"cannot read {file}: {error}") from error
    items: list[dict[str, Any]] = []
    first_lines: dict[str, int] = {}
    for line in lines:
        number, item = line.number, line.value
        if line.problem:
            raise TroupeError(f"{file}, line {number}: {line.problem}")
        if not isinstance(item, dict) or not item.get("prompt"):
            raise TroupeError(f'{file}, line {number}: no prompt; a line is {{"prompt": ..., "label": ...}}')
        if _has_id(item):
            first = first_lines.setdefault(str(item["instance_id"]), number)
            if first != number:
                raise TroupeError(
                    f"{file}: lines {first} and {number} both have instance_id {item['instance_id']}"
                )
        items.append(item)
    if not items:
        raise TroupeError(f"{file} has no prompt")
    return items


def _write(target: Path, items: list[dict[str, Any]]) -> None:
    """Replace the file atomically, with the id first in each line. An existing file keeps its mode."""
    draft = target.with_name(f".{target.name}.draft")
    ordered = [{"instance_id": item["instance_id"], **item} for item in items]
    try:
        draft.write_text("".join(map(json_line, ordered)), encoding="utf-8")
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o777)
        draft.rename(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise TroupeError(f"cannot write {target}: {error}") from error
