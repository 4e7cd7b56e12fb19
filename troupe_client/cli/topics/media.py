"""Media of a run: histograms, images, tables and texts that a program has logged."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, RunId
from troupe_client.cli.output import print_result
from troupe_client.server_api import Server, find_server, run_path

app = typer.Typer()
SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_UNSAFE = re.compile(r"[^\w.-]+")


@app.command("download")
def media_download(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="Only this name; default: all.")] = "",
    to: Annotated[Path | None, typer.Option(help="Folder to write; default: media-RUN.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write images as they are, texts as .txt, tables and histograms as .json, each as NAME/STEP-ID."""
    server, folder = find_server(), to or Path(f"media-{run_id}")
    names = [name] if name else [row["name"] for row in server.call(run_path(run_id, "media/"))["results"]]
    files = [
        _write(server, run_id, value, folder) for wanted in names for value in _values(server, run_id, wanted)
    ]
    if not files:
        raise TroupeError(
            f"the run has no media{f' named {name!r}' if name else ''}; see `troupe media list`"
        )
    print_result({"folder": str(folder), "files": len(files)}, as_json, f"{len(files)} files in {folder}")


def _values(server: Server, run_id: str, name: str) -> Iterator[dict[str, Any]]:
    after: int | None = 0
    while after is not None:
        page = server.call(run_path(run_id, "media/"), name=name, after=after)
        yield from page["results"]
        after = page["next"]


def _write(server: Server, run_id: str, value: dict[str, Any], folder: Path) -> Path:
    """Write one value, and return its file."""
    stem = folder / (_UNSAFE.sub("_", value["name"]).strip(".") or "_")
    suffix = SUFFIXES.get(value["media_type"], ".txt" if value["kind"] == "text" else ".json")
    file = stem / f"{value['step']:09d}-{value['id']}{suffix}"
    file.parent.mkdir(parents=True, exist_ok=True)
    with server.stream(run_path(run_id, f"media/{value['id']}/")) as response:
        content = response.read()
    if suffix == ".txt":
        content = json.loads(content)["text"].encode()
    file.write_bytes(content)
    return file
