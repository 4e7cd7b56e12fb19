"""Continuations: copies of a state are played on with the current policies, to estimate what an answer is worth.

The state is that of a slot after an answer was tried in it, or that of a slot itself. Its continuations differ only by their noise. All
advance in lockstep. The first prompts of one state's continuations are equal, so they are one prompt with as many answers.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from training_core.config.run import RunConfig
from training_core.llm.environments.host import Source
from training_core.llm.workflows.context import RoleTurn, RolloutContext
from training_core.llm.workflows.episodes import sampling_settings
from training_core.llm.workflows.lockstep import (
    MAX_TURNS,
    EpisodeKind,
    Point,
    SamplingPlan,
    act,
    close_episode,
    play_on,
)
from training_core.seeding import NoiseStream, keyed_seed
from training_core.types import Episode, NoiseKey


@dataclass(frozen=True)
class Start:
    """A state to continue."""

    source: Source
    key: tuple[int, ...]
    """What the noise depends on, in addition to the seed, the iteration, the number of the continuation and the turns that it plays: task,
    turn and role of the answer, and its index among the candidates.
    """


def continue_states(
    starts: Sequence[Start],
    after: Point,
    context: RolloutContext,
    *,
    count: int,
    first_slot: int,
    turns: int | None = None,
    waiting: Sequence[RoleTurn] = (),
    kind: EpisodeKind = "train",
) -> list[list[Episode]]:
    """Play on `count` times from each state. Returns the continuations of each state, as episodes that begin there.

    `after` is the step of the answers that the states contain; the next step is played first. With `turns` the play ends after so many
    turns of the team, that of `after` included; otherwise episodes are played to their ends. `waiting` are turns of the same step whose
    answers are executed before: the first answer of each slot that is a source. `kind` selects the sampling settings.

    The states are copied to the slots of the pool from `first_slot` on, len(starts) * count of them. What an episode has earned is counted
    from the state on: `team_return`, and `role_return(role)`, to which the team's reward always belongs. Its turns keep their numbers
    in the game. A continuation whose environment raises is a failed episode. Propagates exceptions of the policies' engines.
    """
    owners = {first_slot + index: starts[index // count] for index in range(len(starts) * count)}
    config = _paying_the_team(context.config)
    context = replace(context, config=config)
    tasks = [keyed_seed(*start.key) for start in starts]

    def key(slot: int, turn: int, role_index: int) -> NoiseKey:
        task = tasks[(slot - first_slot) // count]
        return NoiseKey(config.run.seed, NoiseStream.CONTINUATIONS, context.iteration, task, turn, role_index)

    settings = partial(sampling_settings, config, kind=kind)
    plan = SamplingPlan(kind, "train", settings, key, first=lambda slot: (slot - first_slot) % count)
    episodes = _copies({slot: start.source for slot, start in owners.items()}, context, kind)
    live = [slot for slot, episode in episodes.items() if not episode.ended]
    for turn in waiting:
        answers = {item.slot: item for item in turn.items}
        items = [
            replace(answers[source], slot=slot, answers=answers[source].answers[:1])
            for slot in live
            if (source := owners[slot].source.slot) in answers
        ]
        live = act(replace(turn, items=items), after, live, episodes, context, plan)
    end = MAX_TURNS if turns is None else after.turn + turns
    play_on(live, episodes, context, plan, next_point(after, config), end)
    played = list(episodes.values())
    return [played[index : index + count] for index in range(0, len(played), count)]


def next_point(after: Point, config: RunConfig) -> Point:
    """The step that follows."""
    following = Point(after.turn, after.step + 1)
    return following if following.step < len(config.team.steps) else Point(after.turn + 1)


def _copies(sources: dict[int, Source], context: RolloutContext, kind: EpisodeKind) -> dict[int, Episode]:
    """Copy the states; returns the episodes by slot, of which some have ended already."""
    episodes = {}
    for slot, view in context.pool.spread(sources).items():
        name = f"{context.attempt}-{context.iteration}-continued-{slot}"
        episode = Episode(name, context.iteration, kind, view.task_id, view.title, started=time.time())
        if view.done:
            close_episode(episode, view, time.time())
        episodes[slot] = episode
    return {slot: episodes[slot] for slot in sources}


def _paying_the_team(config: RunConfig) -> RunConfig:
    algorithm = config.algorithm.model_copy(update={"team_reward_to": "team"})
    return config.model_copy(update={"algorithm": algorithm})
