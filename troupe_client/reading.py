"""Read stored runs as data frames and small charts, for notebooks and scripts. pandas is imported on use."""

import csv
import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from training_core.errors import TroupeError
from troupe_client.reporting.notebook import MOST_CHARTS, Curve, charts_html
from troupe_client.server_api import Server, find_server, run_path
from workers.http import cell_text

if TYPE_CHECKING:
    from pandas import DataFrame

PAGE = 500
Row = tuple[str, int, int, float, float]
"""Metric, attempt, step, seconds since the epoch, value."""


class StoredRun:
    """A run of the server as it was when it was read. `document` has all fields of the REST API; `str` shows the first ones."""

    def __init__(self, server: Server, document: dict[str, Any]) -> None:
        self.document = document
        self.id, self.name, self.state = (str(document[field]) for field in ("id", "name", "state"))
        self.url = server.page(document["links"]["page"])
        self._server = server

    def __repr__(self) -> str:
        return f"<{self.id} {self.name}: {self.state}>"

    def _repr_html_(self) -> str:
        """Show a notebook the link to the run's page."""
        address = escape(self.url, quote=True)
        return f'<a href="{address}" target="_blank" rel="noopener">{escape(self.name)}</a> {self.id}, {self.state}'

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config; each access is a request."""
        config: dict[str, Any] = self._server.call(run_path(self.id))["config"]
        return config

    def metrics(self) -> list[str]:
        """Return the names of the metrics."""
        return [item["key"] for item in self._server.call(run_path(self.id, "series/"))["keys"]]

    def series(self, *names: str) -> "DataFrame":
        """Return a frame with a row per step and a column per metric; all metrics without names. All points are read.

        Of a step that was repeated, it has the value of the latest attempt; a step that an attempt replaces without reaching it has none.
        Raises TroupeError for a metric that the run does not have.
        """
        pandas = _pandas()
        columns = {name: values_by_step(points) for name, points in self._points(names).items()}
        frame = pandas.DataFrame({name: pandas.Series(column) for name, column in columns.items()})
        return frame.sort_index().rename_axis("step")

    def episodes(self, query: str = "", *, turns: bool = False, **filters: Any) -> "DataFrame":
        """Return a frame with a row per stored episode, newest first: its facts, with `turns` also prompts, candidates, tokens.

        `query` is the query language, `filters` are those of `troupe episode list`: kind="eval", outcome="success" ...
        """
        asked = {"query": query, **filters}
        if turns:
            lines = self._server.lines(run_path(self.id, "episodes/export/"), **asked)
            return _pandas().DataFrame(map(json.loads, lines))
        return _pandas().DataFrame(rows_of(self._server, run_path(self.id, "episodes/"), asked))

    def chart(self, *names: str) -> "Charts":
        """Return charts of these metrics, shown in the output of a cell; without names, of the first headline metrics."""
        chosen = names or self._server.call(run_path(self.id))["headline_names"][:MOST_CHARTS]
        curves: dict[str, Curve] = {}
        for name, points in (self._points(chosen) if chosen else {}).items():
            curves[name] = Curve()
            curves[name].extend(values_by_step(points).items())
        return Charts(charts_html(self._repr_html_(), curves))

    def _points(self, names: Sequence[str]) -> dict[str, list[Row]]:
        """All points by metric, in the order of `names`."""
        points: dict[str, list[Row]] = {name: [] for name in names}
        for row in points_of(self._server, self.id, names):
            points.setdefault(row[0], []).append(row)
        if missing := [name for name in names if not points[name]]:
            raise TroupeError(f"run {self.id} has no metric {', '.join(missing)}; `run.metrics()` lists them")
        return points


class Charts:
    """Charts as inline SVG."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


def runs(filter: str = "", *, search: str = "", limit: int = 50) -> list[StoredRun]:
    """Return the newest runs: all, those that match a filter ("eval/success > 0.8 and tag = baseline"), those with words.

    `search` has words in the name, id or tags. The server is the one that the commands use. Raises TroupeError.
    """
    server = find_server()
    asked = {"filter": filter, "q": search}
    return [StoredRun(server, row) for row in rows_of(server, "/api/v1/runs/", asked, limit)]


def rows_of(server: Server, path: str, query: dict[str, Any], limit: int = 10**9) -> Iterator[dict[str, Any]]:
    """Yield at most `limit` rows of a list of the API, page by page."""
    query = query | {"limit": min(limit, PAGE)}
    while limit > 0:
        page = server.call(path, **query)
        yield from page["results"][:limit]
        limit -= len(page["results"])
        if not page.get("next"):
            return
        query = dict(parse_qsl(urlsplit(page["next"]).query))


def points_of(server: Server, run_id: str, names: Sequence[str] = ()) -> Iterator[Row]:
    """Yield every stored point by metric, step and attempt; of all metrics without names."""
    rows = csv.reader(server.lines(run_path(run_id, "series/export/"), keys=",".join(names)))
    next(rows)
    for cell, attempt, step, time, value in rows:
        quoted = cell.startswith("'") and cell_text(cell[1:]) == cell
        yield cell[1:] if quoted else cell, int(attempt), int(step), float(time), float(value)


def media_names(server: Server, run_id: str) -> list[str]:
    """Return the names of the media; a name may have values of several kinds."""
    names = server.call(run_path(run_id, "media/"))["results"]
    return list(dict.fromkeys(row["name"] for row in names))


def media_values(server: Server, run_id: str, name: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the facts of each value of a name in the order of their arrival, with its content: the file of an image, or JSON."""
    for row in media_facts(server, run_id, name):
        with server.stream(run_path(run_id, f"media/{row['id']}/")) as response:
            yield row, response.read()


def media_facts(server: Server, run_id: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the facts of each value of a name in the order of their arrival."""
    after: int | None = 0
    while after is not None:
        page = server.call(run_path(run_id, "media/"), name=name, after=after)
        yield from page["results"]
        after = page["next"]


def values_by_step(points: Sequence[Row]) -> dict[int, float]:
    """Return the values of one metric that no later attempt replaces. An attempt replaces all steps from its first one on."""
    starts: dict[int, int] = {}
    for _, attempt, step, _, _ in points:
        starts[attempt] = min(step, starts.get(attempt, step))
    return {
        step: value
        for _, attempt, step, _, value in points
        if not any(later > attempt and start <= step for later, start in starts.items())
    }


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise TroupeError("data frames need pandas: pip install pandas") from error
    return pandas
