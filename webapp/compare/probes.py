"""Episodes of several runs on the same task."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Count, IntegerField, Max
from django.db.models.functions import Cast

from training_core.errors import ConfigError
from webapp.compare.choice import Choice
from webapp.metrics.arrays import spell
from webapp.runs.models import Run
from webapp.transcripts.bodies import documents_read
from webapp.transcripts.models import Episode
from webapp.transcripts.probes import parts_differ, said_lines

TASKS = 4
"""Tasks per page."""
MOST_RUNS = 8
TURNS = 60


def plays_read(runs: Sequence[Run], choice: Choice, page: int = 0) -> dict[str, Any]:
    """Return {"more", "iteration", "tasks": [{"task", "title", "plays": [...]}]}: for each task an episode per run, in order.

    `choice.at` selects it: the last one, the last at or before an iteration, or before the last iteration evaluated in all
    runs ("common"). An episode is null for a run that has none; otherwise it has facts, "same_prompt" (whether its first
    prompt equals the first run's) and "turns": [{"role", "text", "parts": differences from the first run's}].
    Raises ConfigError for more than MOST_RUNS runs.
    """
    if len(runs) > MOST_RUNS:
        raise ConfigError(
            {"runs": f"{len(runs)} runs; at most {MOST_RUNS} are shown side by side: name fewer"}
        )
    played = Episode.objects.filter(run__in=[run.pk for run in runs], kind=choice.kind).defer(
        "words", "groups"
    )
    limit = _limit(played, runs, choice.at)
    if limit is not None:
        played = played.filter(iteration__lte=limit)
    if choice.task:
        played = played.filter(task=choice.task)
    tasks = list(
        played.values("task")
        .annotate(
            runs=Count("run", distinct=True), probe=Max(Cast("probe", IntegerField())), title=Max("title")
        )
        .order_by("-probe", "-runs", "task")[page * TASKS : (page + 1) * TASKS + 1]
    )
    names = [task["task"] for task in tasks[:TASKS]]
    latest = (
        played.filter(task__in=names).order_by("run", "task", "-iteration", "-pk").distinct("run", "task")
    )
    episodes = {(episode.task, episode.run_id): episode for episode in latest}
    documents = _documents(runs, list(episodes.values()))
    return {
        "more": len(tasks) > TASKS,
        "iteration": limit,
        "tasks": [
            {
                "task": task["task"],
                "title": task["title"],
                "plays": _plays(task["task"], runs, episodes, documents),
            }
            for task in tasks[:TASKS]
        ],
    }


def _limit(played: Any, runs: Sequence[Run], at: str) -> int | None:
    if at == "last":
        return None
    if at != "common":
        return int(at)
    lasts = dict(played.order_by().values_list("run").annotate(last=Max("iteration")))
    return min((lasts[run.pk] for run in runs if run.pk in lasts), default=None)


def _documents(runs: Sequence[Run], episodes: Sequence[Episode]) -> dict[int, dict[str, Any]]:
    """Read documents run by run: episode names are unique only within a run."""
    documents: dict[int, dict[str, Any]] = {}
    for run in runs:
        documents |= documents_read([episode for episode in episodes if episode.run_id == run.pk])
    return documents


def _plays(
    task: str,
    runs: Sequence[Run],
    episodes: Mapping[tuple[str, str], Episode],
    documents: Mapping[int, dict[str, Any]],
) -> list[dict[str, Any] | None]:
    played = [episodes.get((task, run.pk)) for run in runs]
    first = next((documents[episode.pk] for episode in played if episode and documents[episode.pk]), {})
    return [_play(episode, documents[episode.pk], first) if episode else None for episode in played]


def _play(episode: Episode, document: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    texts, before = said_lines(document), said_lines(first)
    return {
        "run": episode.run_id,
        "id": episode.pk,
        "iteration": episode.iteration,
        "outcome": episode.outcome,
        "success": episode.success,
        "failed": episode.failed,
        "return": spell(episode.episode_return),
        "kept": bool(document),
        "same_prompt": not document or document is first or _prompt(document) == _prompt(first),
        "left_out": max(0, len(texts) - TURNS),
        "turns": [
            {
                "role": role,
                "text": text,
                "parts": parts_differ(before[index][1] if index < len(before) else "", text)
                if document is not first
                else [{"op": "equal", "text": text}],
            }
            for index, (role, text) in enumerate(texts[:TURNS])
        ],
    }


def _prompt(document: Mapping[str, Any]) -> Any:
    """Return the prompt of the first turn."""
    turns = document.get("turns", [])
    return turns[0]["messages"] if turns else None
