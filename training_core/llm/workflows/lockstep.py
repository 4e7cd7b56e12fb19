"""Play many tasks in step: one role at a time speaks in every live task, so that each call to a policy is one batch.

Within a turn the team's steps follow one another (`team.steps`). In a step all roles see the state as it was before it;
then their answers are applied, in turn order. Roles whose turn it is not are left out.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.conversation import Conversations
from training_core.llm.workflows.overlong import answer_cost
from training_core.llm.workflows.table import (
    Asked,
    Question,
    Table,
    ask,
    close_episode,
    fail_episode,
    question,
    record_environment,
    record_turn,
    record_voice,
)
from training_core.types import Candidate, Episode, NoiseKey

MOST_TURNS = 1024
"""Turns of an episode whose environment sets no limit."""
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
    talks: Conversations | None = None
    """Where a role's turns are one conversation: what was said so far."""


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
    limit, turn = int(getattr(table.config.environment, "max_turns", MOST_TURNS)), 0
    while live and turn < limit:
        for step in table.config.team.steps:
            live = _step(step, turn, live, episodes, table, manner)
        live = _without_silent(live, turn, episodes)
        turn += 1
    _cut_off(live, episodes, table)
    return episodes


def _step(
    step: Sequence[tuple[int, str]],
    turn: int,
    live: list[int],
    episodes: list[Episode],
    table: Table,
    manner: Manner,
) -> list[int]:
    """Those who act at once, (place in the turn order, role) each, in every live slot; returns the slots that go on."""
    questions: list[Question] = []
    for seat, role in step:
        if not table.config.team.roles[role].speaks.in_turn(turn + 1):
            continue
        keys = {slot: manner.key(slot, turn, seat) for slot in live}
        asking, errors = question(table, role, keys, manner.count, manner.settings(role), manner.talks)
        live = _without_failed(live, errors, episodes)
        questions.append(asking)
    heard = ask(table, questions)
    for asking, asked in zip(questions, heard, strict=True):
        for item in asked:
            record_voice(episodes[item.slot], table, asking.role, asking.began, item)
    for asking, asked in zip(questions, heard, strict=True):
        still = [item for item in asked if item.slot in set(live)]
        live = _act(asking.role, still, turn, live, episodes, table, manner)
    return live


def _act(
    role: str,
    asked: list[Asked],
    turn: int,
    live: list[int],
    episodes: list[Episode],
    table: Table,
    manner: Manner,
) -> list[int]:
    """Try a role's answers on copies, carry one on; returns the slots that go on."""
    passes = table.config.team.roles[role].may_pass
    texts = {item.slot: [_said(answer.text, passes) for answer in item.answers] for item in asked}
    tried = table.pool.try_answers(texts, role)
    chosen: dict[int, int] = {}
    errors: dict[int, str] = {}
    for item in asked:
        results = tried[item.slot]
        if isinstance(results, str):
            errors[item.slot] = results
            continue
        candidates = _candidates(item, results, table, role)
        _count_timeouts(episodes[item.slot], results)
        chosen[item.slot] = manner.choose(candidates, item.prompt.key)
        record_turn(episodes[item.slot], table, turn, role, item, candidates, chosen[item.slot])
        if manner.talks:
            carried = candidates[chosen[item.slot]].answer
            manner.talks.said(item.slot, role, item.messages, item.prompt.token_ids, carried)
    after = table.pool.commit(chosen)
    now = time.time()
    for item in asked:
        record_environment(episodes[item.slot], item.answered, now)
    for slot, view in after.items():
        if view.done:
            close_episode(episodes[slot], view, now)
    ended = {slot for slot, view in after.items() if view.done}
    return [slot for slot in _without_failed(live, errors, episodes) if slot not in ended]


def _said(text: str, passes: bool) -> str | None:
    """What the environment is told; None for nothing, which only a role that may pass can say."""
    return None if passes and not text.strip() else text


def _without_failed(live: list[int], errors: Mapping[int, str], episodes: list[Episode]) -> list[int]:
    for slot, error in errors.items():
        fail_episode(episodes[slot], error, time.time())
    return [slot for slot in live if slot not in errors]


def _without_silent(live: list[int], turn: int, episodes: list[Episode]) -> list[int]:
    """Fail the episodes in which the environment let nobody speak for a whole turn: they would never end."""
    silent = {
        slot: f"nobody's turn: observe() was None for every role in turn {turn + 1}"
        for slot in live
        if not episodes[slot].turns or episodes[slot].turns[-1].index != turn
    }
    return _without_failed(live, silent, episodes)


def _cut_off(live: list[int], episodes: list[Episode], table: Table) -> None:
    """End the episodes that have had all turns without their environment's having counted them (roles were left out)."""
    for slot, view in table.pool.observe(live, "").items() if live else ():
        close_episode(episodes[slot], replace(view, outcome="turns used up"), time.time())


def _count_timeouts(episode: Episode, results: list[StepResult]) -> None:
    judged = [result.timed_out for result in results if result.timed_out is not None]
    if judged:
        episode.reward_timeouts = (episode.reward_timeouts or 0) + sum(judged)


def _candidates(asked: Asked, results: list[StepResult], table: Table, role: str) -> list[Candidate]:
    """Answers with what they earned: alpha * team + beta * local, less what an answer near its limit of tokens costs."""
    algorithm = table.config.algorithm
    return [
        Candidate(
            answer,
            result.local_reward,
            result.team_reward,
            algorithm.team_weight * result.team_reward
            + algorithm.local_weight * result.local_reward
            - answer_cost(answer, role, table.config),
        )
        for answer, result in zip(asked.answers, results, strict=True)
    ]
