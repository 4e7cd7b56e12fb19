"""Write runs to one HTML file: a page that a browser opens without a server, and the data that another server imports.

The data are gzip in base64 in a script element that is not executed. The page's own scripts are the only ones that its content
security policy permits, by their hashes; they set all text as text.
"""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from troupe_client.reading import media_names, media_values, points_of
from troupe_client.server_api import ROOT, Server, run_path
from workers.reporting.encoding import encode

FORMAT = 1
STATIC = ROOT / "webapp" / "static"
STYLES = ("tokens", "base", "components", "charts", "media", "transcript", "bundle")
DATA = '<script type="application/gzip" id="bundle">'
"""Begins the data, which end with the element."""
COLUMNS = ("attempts", "steps", "times", "values")
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)


def run_document(
    server: Server, run_id: str, episodes: int | None = None, *, media: bool = True
) -> dict[str, Any]:
    """Return everything that a bundle has of a run; of its stored episodes the newest `episodes`. Raises TroupeError."""
    metrics: dict[str, dict[str, list[float]]] = {}
    for name, *row in points_of(server, run_id):
        columns = metrics.setdefault(name, {column: [] for column in COLUMNS})
        for column, value in zip(COLUMNS, row, strict=True):
            columns[column].append(value)
    lines = server.lines(run_path(run_id, "episodes/export/"))
    return {
        "run": server.call(run_path(run_id)),
        "metrics": metrics,
        "episodes": [json.loads(line) for line in islice(lines, episodes)],
        "findings": server.call(run_path(run_id, "findings/"))["results"],
        "media": _media(server, run_id) if media else [],
    }


def _media(server: Server, run_id: str) -> list[dict[str, Any]]:
    """Return the media as they were reported, in the order of their arrival: an item for each call and name."""
    calls: dict[tuple[Any, ...], dict[str, Any]] = {}
    arrived: dict[tuple[Any, ...], int] = {}
    for name in media_names(server, run_id):
        for row, content in media_values(server, run_id, name):
            call = {field: row[field] for field in ("attempt", "step", "time", "name")}
            key = tuple(call.values())
            value = {field: row[field] for field in ("kind", "caption")}
            if row["kind"] == "image":
                value |= {"width": row["width"], "height": row["height"]}
                value["data"] = base64.b64encode(content).decode()
            else:
                value |= json.loads(content)
            calls.setdefault(key, call | {"values": []})["values"].append(value)
            arrived.setdefault(key, row["id"])
    return [calls[key] for key in sorted(arrived, key=arrived.__getitem__)]


def bundle_write(runs: Sequence[dict[str, Any]], path: Path) -> int:
    """Write the file, and return its size in bytes. A partial file is never left at `path`."""
    title = ", ".join(str(document["run"]["name"]) for document in runs)[:200]
    data = base64.b64encode(gzip.compress(encode({"format": FORMAT, "runs": runs}), mtime=0)).decode()
    scripts = [
        (STATIC / "vendor" / "plotly-basic.min.js").read_text(),
        page_script(STATIC / "js" / "bundle.js"),
    ]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {hashes}"
    style = "\n".join((STATIC / "css" / f"{name}.css").read_text() for name in STYLES)
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        '<main id="page"><p>This page needs JavaScript. `troupe bundle import` reads it without.</p></main>\n'
        f"{DATA}{data}</script>\n"
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )
    draft = path.with_name(path.name + ".part")
    draft.write_text(page, encoding="utf-8", newline="")
    draft.replace(path)
    return path.stat().st_size


def page_script(entry: Path) -> str:
    """Return a module and the modules that it imports as one script: a browser loads no module next to a file."""
    modules: dict[Path, str] = {}
    _add(entry.resolve(), modules)
    return "(async () => {\nconst modules = {};\n" + "".join(modules.values()) + "})();\n"


def _add(path: Path, modules: dict[Path, str]) -> None:
    """Add a module after those that it imports, as a function that returns what it exports."""

    def imported(match: re.Match[str]) -> str:
        there = (path.parent / match[2]).resolve()
        if there not in modules:
            _add(there, modules)
        return f"const {{{match[1].replace(' as ', ': ')}}} = modules[{_name(there)}];"

    body = _IMPORT.sub(imported, path.read_text())
    exports = ", ".join(_EXPORT.findall(body))
    modules[path] = (
        f"modules[{_name(path)}] = await (async () => {{\n{_EXPORT.sub('', body)}return {{ {exports} }};\n}})();\n"
    )


def _name(path: Path) -> str:
    return json.dumps(str(path.relative_to(STATIC.resolve() / "js")))


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
