"""The pictures of docs/start/tour.md, in its order: the pages of the tour, and the steps of a first day. docs/make_tour.py takes them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shot:
    """One page: the pictures are docs/images/<name>-light.png and -dark.png."""

    name: str
    line: str
    """Caption, as in docs/start/tour.md."""
    address: str
    """With placeholders that make_tour fills in: run, runs (both, comma-separated), episode, columns."""
    ready: str
    """Selector of an element that exists when the page is ready."""
    scroll: str = ""


SHOTS = (
    Shot(
        "overview",
        "A run: figures, progress, curves with events marked on them, and the latest transcripts, live.",
        "/runs/{run}/",
        ".js-plotly-plot",
    ),
    Shot(
        "runs",
        "Runs: live state, time left, change since the start, custom columns and views, a filter language.",
        "/runs/?filter=tag+%3D+tour&columns={columns}",
        "tr[data-run]",
    ),
    Shot(
        "create",
        "New experiment: a form generated from the config schema, a diagram of the team, a cost estimate before the launch.",
        "/experiments/new/?preset=plan_path_duo",
        "#preview",
    ),
    Shot("curves", "Curves: every metric by section, with search, smoothing, zoom and export.", "/runs/{run}/curves/", ".js-plotly-plot"),
    Shot(
        "transcript",
        "A transcript: each agent's observation, answer and reward, coloured tokens, and the board.",
        "/runs/{run}/episodes/{episode}/",
        "[data-tokens]",
    ),
    Shot(
        "group",
        "A group: the candidates that share a state, with rewards and advantages, and the tree of the episode.",
        "/runs/{run}/episodes/{episode}/tree/",
        "main svg",
    ),
    Shot(
        "timeline",
        "Timeline: when each worker was busy, what it waited for, what the update consumed.",
        "/runs/{run}/timeline/",
        "main canvas, main svg",
    ),
    Shot("health", "Health: rules over the run's metrics, findings with evidence, cause and remedy.", "/runs/{run}/health/", "main h2"),
    Shot("checkpoints", "Checkpoints: metrics, size, retention; fork, evaluate, chat, download.", "/runs/{run}/checkpoints/", "main table"),
    Shot(
        "compare",
        "Compare: groups of runs with mean and band at every point, confidence intervals, configs side by side.",
        "/compare/?runs={runs}",
        ".js-plotly-plot",
    ),
)  # fmt: skip

DAY = {
    "install": "`make run` prints each step and a link.",
    "first-page": "The first page says what Troupe does and what to do next; the demonstration is there.",
    "demonstration": "The demonstration learns: curves move, transcripts arrive.",
    "own-change": "*Run again* with another group size: what it costs is stated before the launch.",
    "wrong-value": "A wrong value, with what to write instead.",
    "wrong-value-terminal": "The same in the terminal.",
    "own-environment": "An environment from [custom code](docs/train/custom.md), trained in one process.",
    "failed-run": "A failed run states cause and remedy.",
    "fork": "A fork from a checkpoint.",
    "compare": "The fork, compared with its parent.",
    "query": "The question *right plan, wrong walk*, as a query over episodes.",
    "query-curve": "The share of such episodes over training.",
    "wrong-walk": "One of them: plan, walk, board and tokens.",
    "report": "A report of the comparison.",
    "share": "The report as a guest sees it, by a link.",
}
"""Captions by picture, docs/images/day-<name>-light.png and -dark.png; tests/end_to_end/first_day.py has the steps."""
