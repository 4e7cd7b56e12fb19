"""The table of a run's episodes: columns are words of the query language."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from django.db.models import F, FloatField, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, NullIf

from training_core.errors import ConfigError
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import return_label
from webapp.metrics.arrays import spell
from webapp.runs.models import Run
from webapp.transcripts.episodes import has_success
from webapp.transcripts.models import Episode
from webapp.transcripts.query import ROLE_FIELDS, roles_of

MOST = 30
LONGEST = 2000
FACTS: dict[str, tuple[str, str]] = {
    "iteration": ("iteration", "number"),
    "kind": ("kind", "text"),
    "success": ("success", "flag"),
    "outcome": ("outcome", "text"),
    "return": ("episode_return", "real"),
    "turns": ("turn_count", "number"),
    "tokens": ("tokens", "number"),
    "staleness": ("staleness", "number"),
    "truncated": ("truncated", "flag"),
    "error": ("failed", "flag"),
    "duration": ("duration", "real"),
    "probe": ("probe", "flag"),
    "task": ("task", "text"),
    "title": ("title", "text"),
    "environment": ("environment", "text"),
}
"""Column and kind of the values of each fact."""
UNITS = {"duration": "s"}
EXPLAINED = (
    "outcome", "return", "success", "turns", "tokens", "staleness", "truncated", "probe", "duration", "reward", "advantage", "version",
)  # fmt: skip
"""Facts and figures with a row in docs/reference/columns.md."""


@dataclass(frozen=True)
class TableColumn:
    """One column. kind: number, real, flag or text."""

    word: str
    kind: str
    heading: str
    value: Callable[[Episode], Any]
    order: Any
    """Database expression that the column sorts by."""

    @property
    def sort(self) -> str:
        """The first order of a click on the heading: numbers begin with the largest."""
        return self.word if self.kind == "text" else f"-{self.word}"

    @property
    def explained(self) -> str:
        """Return the anchor of its row in docs/reference/columns.md; empty if its heading is clear."""
        word = self.word.rpartition(".")[2]
        return f"episodes--{word}" if word in EXPLAINED else ""

    @property
    def style(self) -> str:
        """The CSS class: numbers are right-aligned."""
        return "num" if self.kind in ("number", "real") else ""


def standard_columns(run: Run) -> list[str]:
    """Return the default columns: success before returns."""
    roles = [f"{role}.reward" for role in roles_of(run)]
    outcome = ["success", "outcome"] if has_success(run) else ["outcome"]
    tokens = ["tokens"] if agent_pages(run.config).tokens else []
    return ["iteration", "kind", *outcome, "return", *roles[:4], "turns", *tokens]


def table_columns(run: Run, text: str) -> list[TableColumn]:
    """Parse comma-separated columns; the default columns if empty. Raises ConfigError."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip())) or standard_columns(
        run
    )
    if len(words) > MOST or len(text) > LONGEST or "\0" in text:
        raise ConfigError({"columns": f"choose at most {MOST} columns, of {LONGEST} characters in total"})
    return [column_read(run, word, "columns") for word in words]


def column_read(run: Run, word: str, parameter: str) -> TableColumn:
    """Return one column. Raises ConfigError with `parameter`."""
    if word in FACTS:
        name, kind = FACTS[word]
        headings = {"return": return_label(run.config), "turns": f"{agent_pages(run.config).step}s"}
        heading = headings.get(word, word)
        heading += f" [{UNITS[word]}]" if word in UNITS else ""
        order = F("ended") - F("started") if word == "duration" else F(name)
        return TableColumn(
            word, kind, heading, _fact(word, name), _finite(order) if kind == "real" else order
        )
    role, _, figure = word.rpartition(".")
    if not role or figure not in ROLE_FIELDS:
        raise ConfigError(
            {
                parameter: f"{word[:40]!r} is not a column: use {', '.join(FACTS)}, or a role's {', '.join(ROLE_FIELDS)} (planner.reward)"
            }
        )
    kind = "flag" if figure == "truncated" else "real" if figure in ("reward", "advantage") else "number"
    return TableColumn(word, kind, word, *_of_role(run, role, figure))


def _fact(word: str, name: str) -> Callable[[Episode], Any]:
    if word == "duration":
        return lambda episode: episode.ended - episode.started
    return lambda episode: getattr(episode, name)


def _of_role(run: Run, role: str, figure: str) -> tuple[Callable[[Episode], Any], Any]:
    """Return value and order of a role's figure."""
    if figure in ("reward", "version"):
        name = "rewards" if figure == "reward" else "versions"
        roles = run.config.get("team", {}).get("roles", {})
        key = role if figure == "reward" else str(roles.get(role, {}).get("policy", role))
        return (lambda episode: getattr(episode, name).get(key)), _number(KeyTextTransform(key, name))
    order: Any = KeyTextTransform(figure, KeyTransform(role, "roles"))
    value = lambda episode: episode.roles.get(role, {}).get(figure)  # noqa: E731
    return value, order if figure == "truncated" else _number(order)


def _number(expression: Any) -> Any:
    return _finite(Cast(expression, FloatField()))


def _finite(expression: Any) -> Any:
    """Replace NaN with null: it sorts last."""
    return NullIf(expression, Value(float("nan"), output_field=FloatField()))


def table_sort(run: Run, episodes: QuerySet[Episode], wanted: str) -> QuerySet[Episode]:
    """Sort episodes, the newest first among equals; episodes without a value are last. Raises ConfigError (sort).

    A return ranks solved episodes above the others, because a shaped return can be high without success.
    """
    if not wanted:
        return episodes.order_by("-pk")
    word = wanted.removeprefix("-")
    orders = [column_read(run, word, "sort").order]
    if word == "return":
        orders.insert(0, F("success"))
    down = wanted.startswith("-")
    return episodes.order_by(
        *(order.desc(nulls_last=True) if down else order.asc(nulls_last=True) for order in orders), "-pk"
    )


def table_row(episode: Episode, columns: Iterable[TableColumn]) -> dict[str, Any]:
    """Return {"id", "name", word: value}; numbers that are not finite are words."""
    return {
        "id": episode.pk,
        "name": episode.name,
        **{column.word: _json(column.value(episode)) for column in columns},
    }


def column_options(run: Run) -> Mapping[str, list[str]]:
    """Return the columns to choose from: facts, and figures by role."""
    absent: set[str] = set() if agent_pages(run.config).tokens else {"tokens", "truncated"}
    facts = absent if has_success(run) else absent | {"success"}
    return {"": [word for word in FACTS if word not in facts]} | {
        role: [f"{role}.{figure}" for figure in ROLE_FIELDS if figure not in absent] for role in roles_of(run)
    }


def _json(value: Any) -> Any:
    return spell(value) if isinstance(value, float) and not isfinite(value) else value
