"""Checkpoints: fork, serve, push to a hub, download, pin, delete, lineage."""

import signal
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, Overrides, RunId, RunName, Tags
from troupe_client.cli.installed import require_server
from troupe_client.cli.output import (
    plain_table,
    print_forked,
    print_json,
    print_line,
    print_result,
    print_table,
    print_wide,
    visible,
)
from troupe_client.cli.sections import RUNS
from troupe_client.cli.show import OUTCOMES, number, reported_keys
from troupe_client.server_api import ServerFailure, find_server, home, run_path
from workers.provenance.collecting import launch_provenance

app = typer.Typer()
top = typer.Typer()
MARKS = ("best", "pinned", "damaged", "removed")
Checkpoint = Annotated[str, typer.Argument(help="last, best, or an iteration.")]


@top.command("fork", rich_help_panel=RUNS)
def fork(
    run_id: RunId,
    checkpoint: Checkpoint,
    overrides: Overrides = None,
    name: RunName = "",
    tag: Tags = None,
    as_json: AsJson = False,
) -> None:
    """Launch a run from a checkpoint, or again if it has none yet, optionally with config overrides."""
    from training_core.config.files import parse_overrides

    body: dict[str, Any] = {"overrides": parse_overrides(overrides or []), "name": name, "tags": tag or []}
    body["provenance"] = launch_provenance("command line")
    server = find_server()
    print_forked(server, run_id, server.call(checkpoint_path(run_id, checkpoint, "fork/"), body), as_json)


@top.command("serve", rich_help_panel=RUNS)
def serve(
    checkpoint: Annotated[
        str, typer.Argument(help="RUN:last, RUN:best, RUN:40, or the folder of a downloaded checkpoint.")
    ],
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0: a free one.", min=0, max=65535)] = 8900,
    key: Annotated[str, typer.Option(help="API key that requests need; default: a random one.")] = "",
    greedy: Annotated[bool, typer.Option("--greedy", help="Answer with the most likely tokens.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve the roles of a checkpoint as models of OpenAI's and Anthropic's APIs, until Ctrl-C."""
    require_server()
    from troupe_client.cli.fetching import fetch_tar
    from workers.jobs.serving import served_team  # imports torch, which takes seconds

    stopped = threading.Event()
    with TemporaryDirectory() as scratch:
        folder = Path(checkpoint)
        if not folder.is_dir():
            run_id, _, name = checkpoint.partition(":")
            path = checkpoint_path(run_id, name or "last", "download/")
            folder = fetch_tar(find_server(), path, Path(scratch) / "checkpoint")
        with served_team(folder, home(), Path(scratch), port=port, key=key, greedy=greedy) as team:
            print_result(
                vars(team), as_json, f"{team.url}  API key {team.key}  models {', '.join(team.roles)}"
            )
            sys.stdout.flush()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stopped.set())
            stopped.wait()


@app.command("push")
def push(
    run_id: RunId,
    checkpoint: Checkpoint,
    repository: Annotated[str, typer.Argument(help="OWNER/NAME; of several policies OWNER/NAME-POLICY.")],
    policy: Annotated[str, typer.Option(help="Only this policy.")] = "",
    public: Annotated[
        bool, typer.Option("--public", help="Create public repositories; default: private.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a checkpoint to the Hugging Face hub with the token of HF_TOKEN: a model repository per policy."""
    from troupe_client.cli.fetching import fetch_tar

    with TemporaryDirectory() as scratch:
        path = checkpoint_path(run_id, checkpoint, "download/")
        target = fetch_tar(find_server(), path, Path(scratch) / "checkpoint", policy=policy)
        folders = sorted(file.parent for file in target.glob("*/config.json"))
        if not folders:
            raise TroupeError(
                "the hub is for language models; share small networks by `troupe checkpoint download`"
            )
        names = [f"{repository}-{folder.name}" if len(folders) > 1 else repository for folder in folders]
        message = f"Checkpoint {checkpoint} of run {run_id}"
        pushed = [
            _push_folder(folder, name, message, private=not public)
            for folder, name in zip(folders, names, strict=True)
        ]
    print_result(pushed, as_json, "\n".join(pushed))


def _push_folder(folder: Path, repository: str, message: str, *, private: bool) -> str:
    """Upload a model's folder as one commit, create the repository if there is none, and return its address.

    The hub's own client reads HF_TOKEN and HF_ENDPOINT. Raises TroupeError if the hub refuses, and without `huggingface_hub`.
    """
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise TroupeError("pushing needs the hub's client: pip install huggingface_hub") from error
    hub = HfApi()
    failures: Any = (
        *HfHubHTTPError.__bases__,
        ValueError,
    )  # of its HTTP library, OSError, and an invalid name
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        hub.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    except failures as error:
        raise TroupeError(
            f"the upload of {repository} to {hub.endpoint} has failed: {error}",
            remedy="check HF_ENDPOINT, HF_TOKEN, which needs write access, and the name of the repository",
        ) from error
    return f"{hub.endpoint}/{repository}"


@app.command("download")
def download(
    run_id: RunId,
    checkpoint: Checkpoint = "last",
    policy: Annotated[str, typer.Option(help="Only this policy.")] = "",
    to: Annotated[
        Path | None, typer.Option(help="Folder to create; default: named after run and iteration.")
    ] = None,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="Merge adapters into their base models, which must be readable here."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Download a checkpoint: one folder per policy, in Hugging Face's format for language models."""
    from troupe_client.cli.fetching import fetch_tar

    target = fetch_tar(find_server(), checkpoint_path(run_id, checkpoint, "download/"), to, policy=policy)
    if merge:
        from training_core.llm.models.loading import merge_folder  # imports torch, which takes seconds

        for folder in filter(Path.is_dir, target.iterdir()):
            merge_folder(folder)
    folders = sorted(str(item) for item in target.iterdir() if item.is_dir())
    if as_json:
        return print_json({"folder": str(target), "policies": folders})
    for path in folders:
        print_line(path)


@app.command("list")
def checkpoints(run_id: RunId, as_json: AsJson = False) -> None:
    """List a run's checkpoints, newest first."""
    rows = find_server().call(run_path(run_id, "checkpoints/"))["results"]
    if as_json:
        return print_json(rows)
    metrics = reported_keys([row["metrics"] for row in rows], OUTCOMES)
    numeric = ("iteration", "size", *metrics)
    table = plain_table(*numeric, "marks", right=numeric)
    for row in rows:
        values = [number(row["metrics"].get(key)) for key in metrics]
        table.add_row(str(row["iteration"]), f"{row['size'] / 1e6:.1f} MB", *values, _marks(row))
    print_table(table)


@app.command("prune")
def prune(
    run_id: RunId,
    last: Annotated[int, typer.Option(help="Number of newest checkpoints to keep.", min=0)] = 1,
    best: Annotated[int, typer.Option(help="Number of best checkpoints to keep.", min=0)] = 1,
    dry: Annotated[bool, typer.Option("--dry", help="Only list what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete all checkpoints except the last, best, pinned and forked ones."""
    pruned = find_server().call(run_path(run_id, "prune/"), {"last": last, "best": best, "dry": dry})
    iterations = ", ".join(map(str, pruned["deleted"])) or "nothing"
    verb = "would delete" if dry else "deleted"
    print_result(pruned, as_json, f"{verb} {iterations} ({pruned['bytes'] / 1e6:.1f} MB)")


def _marks(row: dict[str, Any]) -> str:
    return " ".join(mark for mark in MARKS if row[mark])


@app.command("lineage")
def lineage(run_id: RunId, as_json: AsJson = False) -> None:
    """Show which run this run was forked from, and which runs were forked from it."""
    root = find_server().call(run_path(run_id, "lineage/"))
    if as_json:
        return print_json(root)
    tree = Tree(_relative(root))
    _add_forks(tree, root["forks"])
    print_wide(tree)


def checkpoint_path(run_id: str, name: str, below: str) -> str:
    """Path of a resource below a checkpoint. Raises ServerFailure if `name` cannot be a checkpoint."""
    if not name.isascii() or not name.replace("-", "").isalnum():
        raise ServerFailure(f"{name!r} is not a checkpoint; use last, best or an iteration")
    return run_path(run_id, f"checkpoints/{name}/{below}")


def _add_forks(tree: Tree, forks: list[dict[str, Any]]) -> None:
    for relative in forks:
        _add_forks(tree.add(_relative(relative)), relative["forks"])


def _outcome(relative: dict[str, Any]) -> str:
    if relative["return"] is None or relative["success"] is not None:
        return number(relative["success"])
    return f"return {number(relative['return'])}"


def _relative(relative: dict[str, Any]) -> Text:
    at = f"  at {relative['forked_at']}" if relative["forked_at"] is not None else ""
    text = f"{relative['id']}  {visible(relative['name'])}{at}  {relative['state']}  {_outcome(relative)}"
    return Text(text, style="bold" if relative["here"] else "")
