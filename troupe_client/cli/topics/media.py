"""Media of a run: histograms, images, tables and texts that a program has logged."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, RunId
from troupe_client.cli.output import print_result
from troupe_client.reading import media_names, media_values
from troupe_client.server_api import find_server

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
    names = [name] if name else media_names(server, run_id)
    files = [
        _write(folder, value, content)
        for wanted in names
        for value, content in media_values(server, run_id, wanted)
    ]
    if not files:
        raise TroupeError(
            f"the run has no media{f' named {name!r}' if name else ''}; see `troupe media list`"
        )
    print_result({"folder": str(folder), "files": len(files)}, as_json, f"{len(files)} files in {folder}")


def _write(folder: Path, value: dict[str, Any], content: bytes) -> Path:
    """Write one value, and return its file."""
    stem = folder / (_UNSAFE.sub("_", value["name"]).strip(".") or "_")
    suffix = SUFFIXES.get(value["media_type"], ".txt" if value["kind"] == "text" else ".json")
    file = stem / f"{value['step']:09d}-{value['id']}{suffix}"
    file.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".txt":
        content = json.loads(content)["text"].encode()
    file.write_bytes(content)
    return file
