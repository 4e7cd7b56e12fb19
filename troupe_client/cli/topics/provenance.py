"""Code, machine and data of a run, as recorded at its launch and by its attempts."""

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, RunId
from troupe_client.cli.output import print_json, print_line
from troupe_client.cli.sections import RUNS
from troupe_client.server_api import find_server, run_path

top = typer.Typer()
SHORT = 12
"""Characters of a hash."""
Record = Mapping[str, Any]


@top.command("provenance", rich_help_panel=RUNS)
def provenance(
    run_id: RunId,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print only the uncommitted changes of the launch, as a patch.")
    ] = False,
    attempt: Annotated[int, typer.Option(help="Number of the attempt; default: the last one.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Show which code, machine, packages and data a run used."""
    if diff and as_json:
        raise TroupeError("--json contains the diffs: use either --json or --diff")
    document = find_server().call(run_path(run_id, "provenance/"))
    if as_json:
        return print_json(document)
    launch, records = document["launch"], document["attempts"]
    shown = _attempt(records, attempt)
    if diff:
        sys.stdout.write(_patch([record for record in ((shown,) if attempt else (launch, shown)) if record]))
        return
    if not launch and not records:
        return print_line("No provenance yet: the run has not reported its code.")
    for title, record in (("launch", launch), (f"attempt {shown['attempt']}" if shown else "", shown)):
        if record:
            print_line(title, "bold")
            for line in record_lines(record):
                print_line(f"  {line}")


def _attempt(records: list[dict[str, Any]], number: int) -> dict[str, Any] | None:
    """The record of an attempt, or of the last one. Raises TroupeError."""
    if not number:
        return records[-1] if records else None
    for record in records:
        if record["attempt"] == number:
            return record
    numbers = ", ".join(str(record["attempt"]) for record in records) or "none yet"
    raise TroupeError(f"no provenance of attempt {number}; attempts with one: {numbers}")


def _patch(records: list[dict[str, Any]]) -> str:
    """The uncommitted changes of the first record that has any. Raises TroupeError if none are stored, or not all of them."""
    for record in records:
        changed = [item for item in record["repositories"] if item.get("diff")]
        if not changed:
            continue
        cut = [item["name"] for item in changed if item.get("diff_cut")]
        if cut:
            raise TroupeError(f"the stored diff of {', '.join(cut)} is cut and cannot be applied; see --json")
        return "".join(item["diff"] for item in changed)
    raise TroupeError("no uncommitted changes are recorded")


def record_lines(record: Record) -> Iterator[str]:
    """Yield the parts of a record: command, machine, repositories, hashes of code and data, packages."""
    if record.get("command"):
        yield f"command: {record['command']}"
    machine = record.get("machine") or {}
    facts = [machine.get(name, "") for name in ("host", "system", "processor")]
    facts += [f"Python {machine['python']}"] if machine.get("python") else []
    facts += [gpu.get("name", "") for gpu in machine.get("gpus", [])]
    if any(facts):
        yield f"machine: {', '.join(filter(None, facts))}"
    for repository in record.get("repositories", []):
        yield f"repository {repository['name']}: {_repository(repository)}"
    for part in ("code", "data"):
        for item in record.get(part, []):
            hashed = item.get("sha256", "")[:SHORT]
            facts = [
                item["path"],
                item.get("version", ""),
                f"sha256 {hashed}" if hashed else item.get("note", ""),
            ]
            yield f"{part} {item['field']}: {' '.join(filter(None, facts))}"
    installed = record.get("installed") or {}
    if installed:
        yield f"packages: {', '.join(f'{name} {version}' for name, version in sorted(installed.items()))}"


def _repository(repository: Record) -> str:
    if not repository.get("commit"):
        return str(repository.get("note") or "no commit")
    changes = len(repository.get("changed", [])) + repository.get("more", 0)
    parts = [repository["commit"], repository.get("branch", "")]
    parts.append(
        f"{changes} changed files (--diff prints them)" if repository.get("diff") else "no stored changes"
    )
    return ", ".join(filter(None, parts))
