"""Play many tasks in lockstep: one role at a time speaks in every live task, so each call to a policy is one batch.

Within a turn the team's steps follow each other (`team.steps`). In a step all roles see the state before it; then
their answers are applied in turn order. Roles that do not speak in a turn are skipped.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.context import (
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
from training_core.llm.workflows.conversation import Conversations
from training_core.llm.workflows.overlong import answer_cost
from training_core.types import Candidate, Episode, NoiseKey

MOST_TURNS = 1024
"""Maximum turns of an episode whose environment sets no limit."""
EpisodeKind = Literal["train", "eval", "eval_sampled"]


@dataclass(frozen=True)
class Manner:
    """How a workflow plays: what is sampled in a turn, and which answer is executed."""

    kind: EpisodeKind
    split: Split
    count: int
    """Answers per turn."""
    settings: Callable[[str], SamplingSettings]
    """Sampling settings by role."""
    key: Callable[[int, int, int], NoiseKey]
    """(slot, turn, index in the turn order) -> the key of the sampling noise."""
    choose: Callable[[list[Candidate], NoiseKey], int]
    """Selects the candidate that is executed."""
    talks: Conversations | None = None
    """The conversations so far, if a role's turns form one conversation."""


def play(tasks: Sequence[int], table: Table, manner: Manner) -> list[Episode]:
    """Play the tasks, one slot each, to their ends. Propagates exceptions of the policies' engines.

    In a role's turn the answers of a slot are executed on copies of its state, one copy is selected, and the next
    role acts on that. A slot whose environment raises becomes a failed episode; the others continue.
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
    """Let roles act simultaneously, each as (index in the turn order, role), in every live slot; return the slots that continue."""
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
    """Execute a role's answers on copies and select one; return the slots that continue."""
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
    """The text passed to the environment; None for a pass, which only a role with may_pass can make."""
    return None if passes and not text.strip() else text


def _without_failed(live: list[int], errors: Mapping[int, str], episodes: list[Episode]) -> list[int]:
    for slot, error in errors.items():
        fail_episode(episodes[slot], error, time.time())
    return [slot for slot in live if slot not in errors]


def _without_silent(live: list[int], turn: int, episodes: list[Episode]) -> list[int]:
    """Fail the episodes in which no role could speak for a whole turn, because they would never end."""
    silent = {
        slot: f"no role can speak: observe() returned None for every role in turn {turn + 1}"
        for slot in live
        if not episodes[slot].turns or episodes[slot].turns[-1].index != turn
    }
    return _without_failed(live, silent, episodes)


def _cut_off(live: list[int], episodes: list[Episode], table: Table) -> None:
    """End the episodes that have used all turns although their environment did not count them (because roles were skipped)."""
    for slot, view in table.pool.observe(live, "").items() if live else ():
        close_episode(episodes[slot], replace(view, outcome="turns used up"), time.time())


def _count_timeouts(episode: Episode, results: list[StepResult]) -> None:
    judged = [result.timed_out for result in results if result.timed_out is not None]
    if judged:
        episode.reward_timeouts = (episode.reward_timeouts or 0) + sum(judged)


def _candidates(asked: Asked, results: list[StepResult], table: Table, role: str) -> list[Candidate]:
    """Answers with rewards: alpha * team + beta * local, less the penalty for answers near their token limit."""
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
