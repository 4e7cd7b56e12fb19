"""The presets with their expected results: as documented, and as measured on this server."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import median
from typing import Any

from django.db.models import Window
from django.db.models.functions import RowNumber

from training_core.config.experiment import AgentKind
from training_core.config.files import expected_of, has_words, load_config, preset_names, searched_text
from training_core.config.kinds import CONFIG_KINDS
from troupe_client.documents.experiments import PresetEntry, PresetExpected, PresetSeen
from webapp.accounts.permissions import Person
from webapp.metrics.headline import HEADLINE
from webapp.runs.configs import family_of
from webapp.runs.models import RunState
from webapp.runs.selectors import runs_visible

LATEST = 20
"""Maximum number of runs of a preset to evaluate."""


def gallery(user: Person) -> list[PresetEntry]:
    """Return the presets in their order."""
    configs = {name: load_config(name) for name in preset_names()}
    families = {name: family_of(config.model_dump(mode="json")) for name, config in configs.items()}
    ended = _ended(user, set(families.values()))
    return [
        PresetEntry(
            name=name,
            agents=config.agents,
            description=config.run.description,
            expected=PresetExpected(**asdict(expected)) if (expected := expected_of(name)) else None,
            seen=_seen(ended.get(families[name], [])),
        )
        for name, config in configs.items()
    ]


@dataclass(frozen=True)
class Task:
    """Presets of one task."""

    name: str
    presets: list[dict[str, Any]]
    """Entries of `gallery`, with "text" (searchable) and "found"."""
    chosen: bool
    """Whether it contains the selected preset."""

    @property
    def found(self) -> int:
        """Number of entries that match the search."""
        return sum(preset["found"] for preset in self.presets)


@dataclass(frozen=True)
class PresetGroup:
    """Presets with agents of one kind, grouped by task."""

    agents: str
    label: str
    tasks: list[Task]

    @property
    def found(self) -> int:
        """Number of entries that match the search."""
        return sum(task.found for task in self.tasks)


def groups(presets: Sequence[PresetEntry], wanted: str, chosen: str) -> list[PresetGroup]:
    """Return the gallery of the page: presets that do not match `wanted` are included, but hidden."""
    entries = [_entry(preset, wanted) for preset in presets]
    result = []
    for agents, kind in CONFIG_KINDS.items():
        own = [entry for entry in entries if entry["agents"] == agents]
        result.append(PresetGroup(agents, kind.label, _tasks(own, chosen)))
    return result


def _tasks(entries: Sequence[dict[str, Any]], chosen: str) -> list[Task]:
    tasks = [(name, list(some)) for name, some in groupby(entries, key=_task)]
    return [Task(name, some, any(entry["name"] == chosen for entry in some)) for name, some in tasks]


def _entry(preset: PresetEntry, wanted: str) -> dict[str, Any]:
    text = searched_text(preset.name, preset.description, CONFIG_KINDS[AgentKind(preset.agents)].label)
    return dict(preset) | {"text": text, "found": has_words(text, wanted)}


def _task(entry: dict[str, Any]) -> str:
    return str(entry["expected"].task) if entry["expected"] else "Others"


def _ended(user: Person, families: Collection[str]) -> dict[str, list[tuple[Any, Any, Any]]]:
    """Return start, end and headline of the user's latest finished runs of each family."""
    ended = runs_visible(user).filter(
        family__in=families, state=RunState.FINISHED, started_at__isnull=False, ended_at__isnull=False
    )
    rank = Window(RowNumber(), partition_by="family", order_by="-ended_at")
    rows: dict[str, list[tuple[Any, Any, Any]]] = {}
    latest = ended.order_by().annotate(rank=rank).filter(rank__lte=LATEST)
    for family, *row in latest.values_list("family", "started_at", "ended_at", "headline"):
        rows.setdefault(family, []).append((row[0], row[1], row[2]))
    return rows


def _seen(rows: Sequence[tuple[Any, Any, Any]]) -> PresetSeen | None:
    """Return medians over finished runs of exactly one config except the seed: seconds, and greedy success."""
    if not rows:
        return None
    values = [headline.get(HEADLINE[0]) for _, _, headline in rows]
    numbers = [value for value in values if isinstance(value, int | float)]
    return PresetSeen(
        runs=len(rows),
        seconds=median((end - start).total_seconds() for start, end, _ in rows if start and end),
        value=median(numbers) if numbers else None,
    )
