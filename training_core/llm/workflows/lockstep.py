"""Play many tasks in step: one role at a time speaks in every live task, so that each call to a policy is one batch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from training_core.algorithms.rewards import overlong_cost
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.table import (
    Asked,
    Table,
    ask,
    close_episode,
    fail_episode,
    record_stages,
    record_turn,
)
from training_core.types import Candidate, Episode, NoiseKey

EpisodeKind = Literal["train", "eval", "eval_sampled"]


@dataclass(frozen=True)
class Manner:
    """How a workflow plays: what is sampled at a turn, and which answer goes on."""

    kind: EpisodeKind
    split: Split
    count: int
    """Answers per turn."""
    settings: Callable[[str], SamplingSettings]
    """By role."""
    key: Callable[[int, int, int], NoiseKey]
    """(slot, turn, place in the turn order) -> what the sampling noise depends on."""
    choose: Callable[[list[Candidate], NoiseKey], int]
    """The candidate that is carried on."""


def play(tasks: Sequence[int], table: Table, manner: Manner) -> list[Episode]:
    """Play the tasks, one slot each, to their ends. Raises what the policies' engines raise.

    At a role's turn the answers of a slot are tried on copies of its state, one copy is carried on, and the next role
    acts on that. A slot whose environment raises becomes a failed episode; the others go on.
    """
    views = table.pool.reset({slot: (task, manner.split) for slot, task in enumerate(tasks)})
    episodes = []
    for slot, task in enumerate(tasks):
        number = task if manner.split == "eval" else table.first + slot
        name = f"{table.attempt}-{table.iteration}-{manner.kind}-{number}"
        view = views[slot]
        episode = Episode(name, table.iteration, manner.kind, view.task_id, view.title, started=time.time())
        episode.probe = manner.split == "eval" and task < table.config.evaluation.probes
        if view.done:
            close_episode(episode, view, time.time())
        episodes.append(episode)
    live = [slot for slot in range(len(tasks)) if not views[slot].done]
    turn = 0
    while live:
        for seat, role in enumerate(table.config.team.order):
            live = _speak(role, (turn, seat), live, episodes, table, manner)
        turn += 1
    return episodes


def _speak(
    role: str,
    moment: tuple[int, int],
    live: list[int],
    episodes: list[Episode],
    table: Table,
    manner: Manner,
) -> list[int]:
    """One role's turn in every live slot, at (turn, place in the turn order); returns the slots that go on."""
    turn, seat = moment
    keys = {slot: manner.key(slot, turn, seat) for slot in live}
    began = time.time()
    settings = manner.settings(role)
    asked, errors = ask(table, role, keys, manner.count, settings)
    tried = table.pool.try_answers(
        {item.slot: [answer.text for answer in item.answers] for item in asked}, role
    )
    chosen: dict[int, int] = {}
    for item in asked:
        results = tried[item.slot]
        if isinstance(results, str):
            errors[item.slot] = results
            continue
        candidates = _candidates(item, results, table, settings.max_tokens)
        chosen[item.slot] = manner.choose(candidates, item.prompt.key)
        record_turn(episodes[item.slot], table, turn, role, item, candidates, chosen[item.slot])
    after = table.pool.commit(chosen)
    now = time.time()
    for item in asked:
        record_stages(episodes[item.slot], table, role, began, item, now)
    for slot, error in errors.items():
        fail_episode(episodes[slot], error, now)
    for slot, view in after.items():
        if view.done:
            close_episode(episodes[slot], view, now)
    return [slot for slot in chosen if not after[slot].done]


def _candidates(asked: Asked, results: list[StepResult], table: Table, limit: int) -> list[Candidate]:
    """Answers with what they earned: alpha * team + beta * local, less what an answer near `limit` tokens costs."""
    algorithm = table.config.algorithm
    soft, penalty = algorithm.overlong_tokens, algorithm.overlong_penalty
    return [
        Candidate(
            answer,
            result.local_reward,
            result.team_reward,
            algorithm.team_weight * result.team_reward
            + algorithm.local_weight * result.local_reward
            - overlong_cost(len(answer.token_ids), limit, soft, penalty),
        )
        for answer, result in zip(asked.answers, results, strict=True)
    ]
