"""Episodes without training: the same ones in every evaluation, some of them recorded step by step."""

from typing import Any

import torch

from training_core.errors import EnvironmentFailure
from training_core.marl.environments.base import Choices, RoleSpec, SeveralChoices
from training_core.marl.records import Collection, Moment, Played, Story
from training_core.marl.stage import Stage, Step
from training_core.seeding import keyed_seed

LONGEST = 100_000
"""Steps of an evaluation after which an environment is assumed to never end."""
EVALUATION = 2
"""Stream of evaluation's seeds; see MarlTrainer."""


def evaluate(stage: Stage, seed: int, greedy: bool, episodes: int, kept: int) -> Collection:
    """Play `episodes` episodes, an equal share in every environment, so that short episodes are not overrepresented.

    Raises EnvironmentFailure if an episode does not end.
    """
    count = stage.environment.count
    quotas = [episodes // count + (place < episodes % count) for place in range(count)]
    generator = torch.Generator().manual_seed(keyed_seed(seed, EVALUATION, 1))
    stage.reset(keyed_seed(seed, EVALUATION, 0) % 2**31)
    found = Collection([], 0)
    telling: dict[int, list[Moment]] = {place: [] for place in range(min(kept, count, episodes))}
    by_place: list[list[Played]] = [[] for _ in range(count)]
    while any(len(done) < quota for done, quota in zip(by_place, quotas, strict=True)):
        if found.steps >= LONGEST * count:
            raise EnvironmentFailure(
                f"an episode of the evaluation did not end within {LONGEST} steps; limit its "
                "length, as with max_cycles"
            )
        boards = {place: _with_roles(stage, stage.environment.board(place)) for place in telling}
        noise = {
            name: None if greedy else player.head.noise((count, player.seats.count), generator)
            for name, player in stage.players.items()
        }
        step = stage.step(noise, tuple(telling))
        found.steps += count
        for place, moments in telling.items():
            moments.append(_moment(stage, step, place, boards[place]))
        for place, played in step.played:
            by_place[place].append(played)
            if place in telling:
                index = sum(quotas[:place])
                last = _with_roles(stage, step.transition.last_boards.get(place))
                found.stories.append(Story(index, telling.pop(place), _agents(stage), played, last))
    found.episodes = [
        episode for done, quota in zip(by_place, quotas, strict=True) for episode in done[:quota]
    ]
    found.stories.sort(key=lambda story: story.index)
    return found


def _agents(stage: Stage) -> dict[str, tuple[str, ...]]:
    return {role: spec.agents for role, spec in stage.environment.spec.roles.items()}


def _with_roles(stage: Stage, board: dict[str, Any] | None) -> dict[str, Any] | None:
    """The board with agents in their roles' colours, if it has agents."""
    if board is None or board.get("kind") not in ("grid", "plane"):
        return board
    return {"roles": _agents(stage), **board}


def _moment(stage: Stage, step: Step, place: int, board: dict[str, Any] | None) -> Moment:
    """One environment's step as text."""
    words: dict[str, str] = {}
    rewards: dict[str, float] = {}
    for role, spec in stage.environment.spec.roles.items():
        earned = step.transition.rewards[role][place]
        rewards |= {agent: float(amount) for agent, amount in zip(spec.agents, earned, strict=True)}
        did = step.actions[role][place]
        words |= {agent: in_words(spec, action) for agent, action in zip(spec.agents, did, strict=True)}
    return Moment(board, words, rewards)


def in_words(spec: RoleSpec, action: Any) -> str:
    """An action as text: its name if it has one, otherwise its number or numbers."""
    if isinstance(spec.actions, SeveralChoices):
        return " ".join(str(int(choice)) for choice in action)
    if isinstance(spec.actions, Choices):
        return spec.actions.names[int(action)] if spec.actions.names else str(int(action))
    return " ".join(f"{float(number):+.2f}" for number in action)
