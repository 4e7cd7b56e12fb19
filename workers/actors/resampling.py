"""Dynamic sampling: tasks that teach nothing (`is_informative`), because their groups get no advantages, make room for others.

DAPO (arXiv 2503.14476, section 3.2). Such a task costs its play either way; what is kept is the size of the batch.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training_core.config.run import RunConfig
from training_core.llm.learning.training_groups import is_informative
from training_core.types import Episode
from workers.actors.player import Played, Player
from workers.protocol.records import Span


@dataclass(frozen=True)
class Resampled:
    """What an iteration learns from, and how much was played for it."""

    played: Played
    left_out: int
    """Tasks that were played and taught nothing, and whose place another took."""


def play_until_telling(
    player: Player, config: RunConfig, iteration: int, version: Callable[[str], int]
) -> Resampled:
    """Play rollout.tasks tasks, and others in place of those that teach nothing, up to rollout.most_tasks of them.

    Where too few teach something even then, the first of the others fill the batch.
    """
    rollout = config.rollout
    if rollout.most_tasks == rollout.tasks:
        return Resampled(player.train(iteration, _numbers(iteration, rollout.tasks), version), 0)
    numbers = _numbers(iteration, rollout.most_tasks)
    first, last = numbers.start, numbers.stop
    telling: list[Episode] = []
    silent: list[list[Episode]] = []
    spans: list[Span] = []
    missing, begun = rollout.tasks, first
    while missing and begun < last:
        tasks = range(begun, min(begun + missing, last))
        played = player.train(iteration, tasks, version, episode=(begun - first) * rollout.group_size)
        spans.extend(played.spans)
        for episodes in by_task(played.episodes):
            if is_informative(episodes, config):
                telling.extend(episodes)
                missing -= 1
            else:
                silent.append(episodes)
        begun = tasks.stop
    filled = [episode for episodes in silent[:missing] for episode in episodes]
    return Resampled(Played([*telling, *filled], spans), len(silent) - len(silent[:missing]))


def _numbers(iteration: int, tasks: int) -> range:
    return range((iteration - 1) * tasks, iteration * tasks)


def by_task(episodes: Sequence[Episode]) -> list[list[Episode]]:
    """Episodes of one task together, in order."""
    tasks: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        tasks[episode.task].append(episode)
    return list(tasks.values())
