"""Dynamic sampling: other tasks replace uninformative ones, whose groups get no advantages.

DAPO (arXiv 2503.14476, section 3.2). Replaced tasks still cost their play; the size of the batch stays constant.
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
    """The episodes of one iteration, and the number of replaced tasks."""

    played: Played
    left_out: int
    """Number of uninformative tasks that were replaced."""


def collect_informative(
    player: Player, config: RunConfig, iteration: int, version: Callable[[str], int]
) -> Resampled:
    """Play rollout.tasks tasks and replace uninformative ones, up to rollout.most_tasks tasks in total.

    If too few are informative even then, the first uninformative ones complete the batch.
    """
    rollout = config.rollout
    if rollout.most_tasks == rollout.tasks:
        return Resampled(player.train(iteration, _numbers(iteration, rollout.tasks), version), 0)
    numbers = _numbers(iteration, rollout.most_tasks)
    first, last = numbers.start, numbers.stop
    informative: list[Episode] = []
    uninformative: list[list[Episode]] = []
    spans: list[Span] = []
    missing, begun = rollout.tasks, first
    while missing and begun < last:
        tasks = range(begun, min(begun + missing, last))
        played = player.train(iteration, tasks, version, episode=(begun - first) * rollout.group_size)
        spans.extend(played.spans)
        for episodes in by_task(played.episodes):
            if is_informative(episodes, config):
                informative.extend(episodes)
                missing -= 1
            else:
                uninformative.append(episodes)
        begun = tasks.stop
    fill = uninformative[:missing]
    filled = [episode for episodes in fill for episode in episodes]
    return Resampled(Played([*informative, *filled], spans), len(uninformative) - len(fill))


def _numbers(iteration: int, tasks: int) -> range:
    return range((iteration - 1) * tasks, iteration * tasks)


def by_task(episodes: Sequence[Episode]) -> list[list[Episode]]:
    """Group episodes by task, in order."""
    tasks: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        tasks[episode.task].append(episode)
    return list(tasks.values())
