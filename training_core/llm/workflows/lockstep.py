"""Play many tasks in lockstep: one role at a time speaks in every live task, so each call to a policy is one batch.

Within a turn the team's steps follow each other (`team.steps`). In a step all roles see the state before it; then
their answers are applied in turn order. Roles that do not speak in a turn are skipped.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from training_core.errors import EnvironmentFailure
from training_core.llm.environments.base import SampledText, Split, StepResult
from training_core.llm.environments.host import SlotView, check_roles, describe
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.context import (
    Conversations,
    RoleTurn,
    RolloutContext,
    SlotTurn,
    begin_turn,
    generate_answers,
    record_environment,
    record_generation,
    record_turn,
)
from training_core.llm.workflows.overlong import answer_cost
from training_core.types import Answer, Candidate, Episode, NoiseKey

Episodes = Mapping[int, Episode]
"""Episodes by slot."""


class Point(NamedTuple):
    """A position in an episode: before this step of this turn of the team."""

    turn: int
    step: int = 0
    """Index in `team.steps`."""


OPENING = Point(0)


def close_episode(episode: Episode, view: SlotView, now: float) -> None:
    """Record how an episode ended."""
    episode.outcome, episode.success, episode.final_board = view.outcome, view.success, view.board
    episode.role_success = dict(view.role_success)
    episode.ended = now
    if view.error:
        episode.fail(view.error)


def without_failed(
    live: list[int], errors: Mapping[int, str], episodes: Episodes, role: str = ""
) -> list[int]:
    """Fail the episodes with errors in a role's turn; return the slots that continue."""
    for slot, error in errors.items():
        episodes[slot].fail(error, role)
        episodes[slot].ended = time.time()
    return [slot for slot in live if slot not in errors]


def fail_silent(live: list[int], turn: int, episodes: Episodes) -> list[int]:
    """Fail the episodes in which no role could speak for a whole turn, because they would never end."""
    silent = {
        slot: f"no role can speak: observe() returned None for every role in turn {turn + 1}"
        for slot in live
        if not episodes[slot].turns or episodes[slot].turns[-1].index != turn
    }
    return without_failed(live, silent, episodes)


def end_overlong(
    live: list[int],
    turns: Sequence[RoleTurn],
    episodes: Episodes,
    context: RolloutContext,
) -> list[int]:
    """End the episodes in which a prompt left no room for an answer; return the slots that continue."""
    reasons = {
        item.slot: f"a prompt of {len(item.prompt.token_ids)} tokens to {turn.role} leaves no room for an answer in the "
        "model's context"
        for turn in turns
        for item in turn.items
        if item.slot in live and any(answer.had_no_room for answer in item.answers)
    }
    for slot, reason in reasons.items():
        episodes[slot].overlong = reason
    end_early(reasons, episodes, context)
    return [slot for slot in live if slot not in reasons]


def end_early(outcomes: Mapping[int, str], episodes: Episodes, context: RolloutContext) -> None:
    """End the episodes of these slots although their environments have not ended."""
    for slot, view in context.pool.observe(list(outcomes), "").items() if outcomes else ():
        close_episode(episodes[slot], replace(view, outcome=outcomes[slot]), time.time())


MAX_TURNS = 1024
"""Maximum turns of an episode whose environment sets no limit."""
EpisodeKind = Literal["train", "eval", "eval_sampled"]


@dataclass(frozen=True)
class Tried:
    """A role's answers in a step, executed on copies of the slots' states; none is selected yet."""

    turn: RoleTurn
    point: Point
    candidates: Mapping[int, list[Candidate]]
    """By slot."""
    waiting: Sequence[RoleTurn]
    """Turns of the same step whose answers are executed after these."""


@dataclass(frozen=True)
class SamplingPlan:
    """How a workflow plays: what is sampled in a turn, and which answer is executed."""

    kind: EpisodeKind
    split: Split
    settings: Callable[[str], SamplingSettings]
    """Sampling settings by role."""
    key: Callable[[int, int, int], NoiseKey]
    """(slot, turn, index in the turn order) -> the key of the sampling noise."""
    count: int = 1
    """Answers per turn."""
    choose: Callable[[list[Candidate], NoiseKey], int] = lambda candidates, key: 0
    """Selects the candidate that is executed."""
    evaluate: Callable[[Tried, Episodes], Collection[int]] = lambda tried, episodes: ()
    """Fills `Candidate.value`; returns the slots in which the candidates cannot be compared."""
    first: Callable[[int], int] = lambda slot: 0
    """slot -> index of its first answer in the group that shares the slot's key."""
    conversations: Conversations | None = None
    """The conversations so far, if a role's turns form one conversation."""


def play(tasks: Sequence[int], context: RolloutContext, plan: SamplingPlan) -> list[Episode]:
    """Play the tasks, one slot each, to their ends. Propagates exceptions of the policies' engines.

    In a role's turn the answers of a slot are executed on copies of its state, one copy is selected, and the next
    role acts on that. A slot whose environment raises becomes a failed episode; one with a prompt that leaves no room for
    an answer in the model's context ends with what it earned until then. The others continue. An episode also ends after
    the last turn if its environment does not count turns (because roles were skipped).
    """
    episodes, live = begin_episodes(dict(enumerate(tasks)), context, plan)
    play_on(live, episodes, context, plan)
    return list(episodes.values())


def begin_episodes(
    tasks: Mapping[int, int], context: RolloutContext, plan: SamplingPlan
) -> tuple[dict[int, Episode], list[int]]:
    """Start tasks, slot -> number. Returns the episodes by slot, and the slots in which there is something to play."""
    views = context.pool.reset({slot: (task, plan.split) for slot, task in tasks.items()})
    episodes = {}
    for slot, task in tasks.items():
        number = task if plan.split == "eval" else context.first + slot
        name = f"{context.attempt}-{context.iteration}-{plan.kind}-{number}"
        view = views[slot]
        episode = Episode(name, context.iteration, plan.kind, view.task_id, view.title, started=time.time())
        episode.task_number = task
        episode.probe = plan.split == "eval" and task < context.config.evaluation.probes
        if view.done:
            close_episode(episode, view, time.time())
        episodes[slot] = episode
    return episodes, [slot for slot in tasks if not views[slot].done]


def turn_limit(context: RolloutContext) -> int:
    """Maximum number of the team's turns in an episode."""
    return int(getattr(context.config.environment, "max_turns", MAX_TURNS))


def play_on(
    live: list[int],
    episodes: Episodes,
    context: RolloutContext,
    plan: SamplingPlan,
    begin: Point = OPENING,
    end: int = MAX_TURNS,
) -> None:
    """Play the live slots from a point until they end, or until turn number `end` of the team begins."""
    limit = turn_limit(context)
    turn, first = begin
    while live and turn < min(limit, end):
        for step in range(first, len(context.config.team.steps)):
            live = play_step(Point(turn, step), live, episodes, context, plan)
        if not first:
            live = fail_silent(live, turn, episodes)
        turn, first = turn + 1, 0
    if turn >= limit:
        end_early(dict.fromkeys(live, "turns used up"), episodes, context)


def play_step(
    point: Point, live: list[int], episodes: Episodes, context: RolloutContext, plan: SamplingPlan
) -> list[int]:
    """Let the roles of a step act simultaneously in every live slot; return the slots that continue."""
    turns: list[RoleTurn] = []
    for role_index, role in context.config.team.steps[point.step]:
        if not context.config.team.roles[role].speaks.in_turn(point.turn + 1):
            continue
        keys = {slot: plan.key(slot, point.turn, role_index) for slot in live}
        turn, errors = begin_turn(
            context, role, keys, plan.count, plan.settings(role), plan.conversations, plan.first
        )
        live = without_failed(live, errors, episodes, role)
        turns.append(turn)
    generate_answers(context, turns)
    for turn in turns:
        for item in turn.items:
            record_generation(episodes[item.slot], context, turn.role, turn.began, item)
    live = end_overlong(live, turns, episodes, context)
    for index, turn in enumerate(turns):
        slots = set(live)
        remaining = replace(turn, items=[item for item in turn.items if item.slot in slots])
        live = act(remaining, point, live, episodes, context, plan, turns[index + 1 :])
    return live


def act(
    turn: RoleTurn,
    point: Point,
    live: list[int],
    episodes: Episodes,
    context: RolloutContext,
    plan: SamplingPlan,
    waiting: Sequence[RoleTurn] = (),
) -> list[int]:
    """Execute a role's answers on copies and select one; return the slots that continue. `waiting`: see Tried."""
    role = turn.role
    passes = context.config.team.roles[role].may_pass
    reads = context.config.environment.reads_tokens
    texts = {
        item.slot: [_action_of(answer, item, passes, reads) for answer in item.answers] for item in turn.items
    }
    checked = {
        slot: _checked_roles(results, context)
        for slot, results in context.pool.try_answers(texts, role).items()
    }
    errors = {slot: result for slot, result in checked.items() if isinstance(result, str)}
    results = {slot: result for slot, result in checked.items() if not isinstance(result, str)}
    items = [item for item in turn.items if item.slot in results]
    candidates = {item.slot: _candidates(item, results[item.slot], context, role) for item in items}
    apart = plan.evaluate(Tried(replace(turn, items=items), point, candidates, waiting), episodes)
    chosen: dict[int, int] = {}
    for item in items:
        slot = item.slot
        chosen[slot] = plan.choose(candidates[slot], item.prompt.key)
        record_turn(episodes[slot], context, point.turn, role, item, candidates[slot], chosen[slot])
        episodes[slot].turns[-1].compared = slot not in apart
        _record_results(episodes[slot], context, role, results[slot], chosen[slot])
        if plan.conversations:
            executed = candidates[slot][chosen[slot]].answer
            plan.conversations.record_answer(slot, role, item.messages, item.prompt.token_ids, executed)
    after = context.pool.commit(chosen)
    now = time.time()
    for item in turn.items:
        record_environment(episodes[item.slot], item.answered, now)
    for slot, view in after.items():
        if view.done:
            close_episode(episodes[slot], view, now)
    ended = {slot for slot, view in after.items() if view.done}
    return [slot for slot in without_failed(live, errors, episodes, role) if slot not in ended]


def _record_results(
    episode: Episode, context: RolloutContext, role: str, results: list[StepResult], executed: int
) -> None:
    """Record what the environment returned for a turn's answers, except the rewards of its own role."""
    _count_reward_calls(episode, results)
    result = results[executed]
    episode.team_return += result.team_reward
    episode.add_reward_parts(role, result.parts)
    _reward_others(episode, context, role, result)


def _action_of(answer: Answer, item: SlotTurn, passes: bool, reads_tokens: bool) -> str | None:
    """The text passed to the environment; None for a pass, which only a role with may_pass can make."""
    if passes and not answer.text.strip():
        return None
    ids = item.prompt.token_ids, answer.token_ids
    return SampledText.of(answer.text, *ids) if reads_tokens else answer.text


def _count_reward_calls(episode: Episode, results: list[StepResult]) -> None:
    timeouts = [result.timed_out for result in results if result.timed_out is not None]
    if timeouts:
        episode.reward_timeouts = (episode.reward_timeouts or 0) + sum(timeouts)
    episode.unscored += sum(not result.scored for result in results)


def _candidates(
    item: SlotTurn, results: list[StepResult], context: RolloutContext, role: str
) -> list[Candidate]:
    """Answers with rewards: alpha * team + beta * local, less the penalty for answers near their token limit."""
    algorithm = context.config.algorithm
    local_rewards = [result.local_reward + result.rewards.get(role, 0.0) for result in results]
    return [
        Candidate(
            answer,
            local,
            result.team_reward,
            algorithm.team_weight * result.team_reward
            + algorithm.local_weight * local
            - answer_cost(answer, role, context.config),
            scored=result.scored,
        )
        for answer, result, local in zip(item.answers, results, local_rewards, strict=True)
    ]


def _reward_others(episode: Episode, context: RolloutContext, role: str, result: StepResult) -> None:
    """Reward the roles other than `role`: on their last turns, as in PettingZoo's turn-based games. All candidates of such a
    turn have the reward, so it does not change how they compare with each other.
    """
    algorithm = context.config.algorithm
    team = result.team_reward if algorithm.team_reward_to == "team" else 0.0
    roles = dict.fromkeys((*result.rewards, *(context.config.team.roles if team else ())))
    for other in roles:
        if other == role:
            continue
        local = result.rewards.get(other, 0.0)
        reward = algorithm.local_weight * local + algorithm.team_weight * team
        own = [turn for turn in episode.turns if turn.role == other]
        if not own:
            episode.silent_rewards[other] = episode.silent_rewards.get(other, 0.0) + reward
        for candidate in own[-1].candidates if own else ():
            candidate.local_reward += local
            candidate.team_reward += team
            candidate.reward += reward


def _checked_roles(results: list[StepResult] | str, context: RolloutContext) -> list[StepResult] | str:
    """The results, or the error text if they reward a role that the team does not have."""
    try:
        check_roles([] if isinstance(results, str) else results, context.config.team.roles)
    except EnvironmentFailure as error:
        return describe(error)
    return results
