"""The pages of the README's tour, in its order; docs/make_tour.py takes their pictures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shot:
    """One page: the pictures are docs/images/<name>-light.png and -dark.png."""

    name: str
    line: str
    """What it shows, as the README says it."""
    address: str
    """With the words that make_tour fills in: run, runs (both, with a comma), episode, columns."""
    ready: str
    """What is on the page once it can be looked at."""
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
        "Runs: live state, time left, change since the start, columns and views of one's own, a filter language.",
        "/runs/?filter=tag+%3D+tour&columns={columns}",
        "tr[data-run]",
    ),
    Shot(
        "create",
        "New experiment: a form from the config's own schema, the team as a picture, an estimate before anything is spent.",
        "/experiments/new/?preset=plan_path_duo",
        "#preview",
    ),
    Shot("curves", "Curves: every metric by section, searched, smoothed, zoomed, exported.", "/runs/{run}/curves/", ".js-plotly-plot"),
    Shot(
        "transcript",
        "A transcript: what each agent saw, said and got, its tokens coloured, the board beside it.",
        "/runs/{run}/episodes/{episode}/",
        "[data-tokens]",
    ),
    Shot(
        "group",
        "A group: the candidates that shared a state, with rewards and advantages, and the tree that the episode made.",
        "/runs/{run}/episodes/{episode}/tree/",
        "main svg",
    ),
    Shot(
        "timeline",
        "Timeline: who worked when, who waited for whom, what the update consumed.",
        "/runs/{run}/timeline/",
        "main canvas, main svg",
    ),
    Shot("health", "Health: rules over the run's numbers, findings with evidence, cause and remedy.", "/runs/{run}/health/", "main h2"),
    Shot("checkpoints", "Checkpoints: metrics, size, retention; fork, evaluate, talk, download.", "/runs/{run}/checkpoints/", "main table"),
    Shot(
        "compare",
        "Compare: groups of runs with mean and band at every point, intervals, configs side by side.",
        "/compare/?runs={runs}",
        ".js-plotly-plot",
    ),
)  # fmt: skip
