"""The presets with what to expect of them: as documented, and as seen on this server."""

from dataclasses import asdict
from statistics import median
from typing import Any

from training_core.config.files import load_config, preset_names
from training_core.config.gallery import GALLERY
from training_core.config.kinds import AnyConfig
from webapp.accounts.permissions import Person
from webapp.metrics.headline import HEADLINE
from webapp.runs.families import family_of
from webapp.runs.models import RunState
from webapp.runs.selectors import runs_visible

LATEST = 20
"""Runs of a preset that are looked at."""


def gallery(user: Person) -> list[dict[str, Any]]:
    """[{"name", "description", "expected": {"purpose", "time", "result"} | None, "seen": {"runs", "seconds", "value"} | None}]."""
    found = []
    for name in preset_names():
        config = load_config(name)
        expected = GALLERY.get(name)
        found.append(
            {
                "name": name,
                "description": config.run.description,
                "expected": asdict(expected) if expected else None,
                "seen": _seen(user, config),
            }
        )
    return found


def _seen(user: Person, config: AnyConfig) -> dict[str, Any] | None:
    """Medians over the user's latest finished runs of this very config, the seed apart: seconds, and greedy success."""
    ended = runs_visible(user).filter(
        family=family_of(config.model_dump(mode="json")),
        state=RunState.FINISHED,
        started_at__isnull=False,
        ended_at__isnull=False,
    )
    rows = list(ended.order_by("-ended_at").values_list("started_at", "ended_at", "headline")[:LATEST])
    if not rows:
        return None
    values = [headline.get(HEADLINE[0]) for _, _, headline in rows]
    numbers = [value for value in values if isinstance(value, int | float)]
    return {
        "runs": len(rows),
        "seconds": median((end - start).total_seconds() for start, end, _ in rows if start and end),
        "value": median(numbers) if numbers else None,
    }
