"""Values of Weights & Biases as numbers and media of Troupe, for the mirror of a program and for the import of its files.

Both have the form of W&B's files: numbers, texts, and mappings with a `_type`, some with a path below the folder of the run's files.
"""

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any, Literal

from training_core.errors import TroupeError
from troupe_client.reporting.importing import stable_id
from troupe_client.reporting.media import Histogram, Image, Media, Table, Text
from workers.telemetry.limits import MAX_ITEMS

LEVELS: dict[str, Literal["info", "warning", "error"]] = {"INFO": "info", "WARN": "warning", "ERROR": "error"}
"""Level of an alert of W&B -> level of a line of the log."""
MARK = "troupe-run"
"""File with the id of the mirrored run, in the folder of the run of W&B: such a run is not imported."""
Values = dict[str, Any]


def identity_of(project: str, run: str) -> str:
    """The identity of a run of W&B, for its mirror and its import."""
    return f"wandb {project}/{run}"


def run_id_of(project: str, run: str) -> str:
    """The id of a run of W&B in Troupe."""
    return stable_id(identity_of(project, run))


def tags_of(project: str, job: str, tags: Any) -> list[str]:
    """The tags of a run: those of W&B, its project and its type of job."""
    named = {"wandb project": project, "job": job}
    return [*(tags or ()), *(f"{name}:{value}" for name, value in named.items() if value)]


def config_of(config: Mapping[str, Any]) -> Values:
    """The config without W&B's own part."""
    return {key: value for key, value in config.items() if key != "_wandb"}


def crossing(values: Mapping[str, Any], folder: Path, left_out: dict[str, str], above: str = "") -> Values:
    """Return numbers and media by name; nested names are joined by a slash. `left_out` receives the other names with their kinds."""
    out: Values = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if name in _OWN:
            continue
        if isinstance(value, Media):
            out[name] = value
        elif isinstance(value, Mapping) and "_type" not in value:
            out |= crossing(value, folder, left_out, f"{name}/")
        elif isinstance(value, int | float):
            out[name] = value
        elif isinstance(value, str):
            out[name] = Text(value)
        else:
            kind = str(value["_type"]) if isinstance(value, Mapping) else type(value).__name__
            try:
                out[name] = MEDIA[kind](value, folder)
            except KeyError:
                left_out[name] = kind
            except (TroupeError, OSError, ValueError, TypeError) as error:
                left_out[name] = f"{kind}: {error}"
    return out


def summary_rest(summary: Mapping[str, Any], logged: Mapping[str, Any]) -> Values:
    """Return the numbers and texts of a summary that are not the last logged values.

    A summary of another kind, such as the largest value, has its own name: `acc` becomes `acc/max`.
    """
    flat = crossing(summary, Path(), {})
    rest = {name: value for name, value in flat.items() if not _equal(value, logged.get(name))}
    return {name: value for name, value in rest.items() if isinstance(value, int | float | Text)}


WIDTH = 1e-9
"""Of a bin of a histogram without width, as a share of its largest edge."""
_OWN = ("_wandb", "_step", "_runtime", "_timestamp")
"""Names that W&B itself logs."""


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, Text) and isinstance(two, Text):
        return one.text == two.text
    return bool(one == two) or (
        isinstance(one, float) and isinstance(two, float) and isnan(one) and isnan(two)
    )


def _file(folder: Path, path: str) -> Path:
    """A file below the folder, which is not itself a link. Raises TroupeError for any other."""
    file = (folder / path).resolve()
    if not file.is_relative_to(folder.parent.resolve() / folder.name):
        raise TroupeError(f"{path} is not below the run's files")
    return file


def _histogram(value: Mapping[str, Any], folder: Path) -> Media:
    edges = value.get("bins")
    if packed := value.get("packedBins"):
        edges = [packed["min"] + packed["size"] * number for number in range(packed["count"] + 1)]
    return Histogram(counts=value["values"], edges=_increasing(edges))


def _increasing(edges: Any) -> Any:
    """The edges, with those that coincide apart by the smallest share that they can differ by: constant values have no width."""
    if not isinstance(edges, list) or not all(low <= high for low, high in pairwise(edges)):
        return edges
    widened = list(edges)
    least = max(abs(edge) for edge in edges) * WIDTH or WIDTH
    for index in range(1, len(widened)):
        widened[index] = max(widened[index], widened[index - 1] + least)
    return widened if any(low == high for low, high in pairwise(edges)) else edges


def _image(value: Mapping[str, Any], folder: Path) -> Media:
    return Image(_file(folder, value["path"]), value.get("caption") or "")


def _images(value: Mapping[str, Any], folder: Path) -> list[Media]:
    names = value["filenames"]
    if len(names) > MAX_ITEMS:
        raise TroupeError(f"{len(names)} images; one name takes at most {MAX_ITEMS} at a step")
    captions = value.get("captions") or [""] * len(names)
    return [Image(_file(folder, name), text or "") for name, text in zip(names, captions, strict=True)]


def _table(value: Mapping[str, Any], folder: Path) -> Media:
    stored = json.loads(_file(folder, value["path"]).read_text())
    return Table([[_cell(cell) for cell in row] for row in stored["data"]], stored["columns"])


def _cell(cell: Any) -> Any:
    return f"({cell['_type']})" if isinstance(cell, Mapping) and "_type" in cell else cell


MEDIA: dict[str, Callable[[Mapping[str, Any], Path], Media | list[Media]]] = {
    "histogram": _histogram,
    "image-file": _image,
    "images/separated": _images,
    "table-file": _table,
    "incremental-table-file": _table,
}
"""Kind of W&B -> its media. Others, such as html-file and audio-file, have none."""
