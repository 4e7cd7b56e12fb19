"""Episodes without training: the same ones in every evaluation, some of them recorded step by step."""

from typing import Any

import torch

from training_core.errors import EnvironmentFailure
from training_core.marl.environments.base import Choices, RoleSpec, SeveralChoices
from training_core.marl.records import Collection, EpisodeResult, RecordedEpisode, RecordedStep
from training_core.marl.vector_runner import VectorRunner, VectorStep
from training_core.seeding import keyed_seed

MAX_STEPS = 100_000
"""Steps of an evaluation after which an environment is assumed to never end."""
EVALUATION = 2
"""Stream of evaluation's seeds; see MarlTrainer."""


def evaluate(runner: VectorRunner, seed: int, greedy: bool, episodes: int, recorded: int) -> Collection:
    """Play `episodes` episodes, an equal share in every environment, so that short episodes are not overrepresented.

    Raises EnvironmentFailure if an episode does not end.
    """
    count = runner.environment.count
    quotas = [episodes // count + (row < episodes % count) for row in range(count)]
    generator = torch.Generator().manual_seed(keyed_seed(seed, EVALUATION, 1))
    runner.reset(keyed_seed(seed, EVALUATION, 0) % 2**31)
    collection = Collection([], 0)
    recording: dict[int, list[RecordedStep]] = {row: [] for row in range(min(recorded, count, episodes))}
    by_environment: list[list[EpisodeResult]] = [[] for _ in range(count)]
    while any(len(done) < quota for done, quota in zip(by_environment, quotas, strict=True)):
        if collection.steps >= MAX_STEPS * count:
            raise EnvironmentFailure(
                f"an episode of the evaluation did not end within {MAX_STEPS} steps",
                remedy="limit its length, as with max_cycles",
            )
        boards = {row: _board_with_roles(runner, runner.environment.board(row)) for row in recording}
        noise = {
            name: None if greedy else actor.head.noise((count, actor.slots.count), generator)
            for name, actor in runner.actors.items()
        }
        step = runner.step(noise, tuple(recording))
        collection.steps += count
        for row, recorded_steps in recording.items():
            recorded_steps.append(_recorded_step(runner, step, row, boards[row]))
        for row, result in step.finished:
            by_environment[row].append(result)
            if row in recording:
                index = sum(quotas[:row])
                last = _board_with_roles(runner, step.transition.last_boards.get(row))
                collection.recordings.append(
                    RecordedEpisode(index, recording.pop(row), _agents(runner), result, last)
                )
    collection.episodes = [
        episode for done, quota in zip(by_environment, quotas, strict=True) for episode in done[:quota]
    ]
    collection.recordings.sort(key=lambda recording: recording.index)
    return collection


def _agents(runner: VectorRunner) -> dict[str, tuple[str, ...]]:
    return {role: spec.agents for role, spec in runner.environment.spec.roles.items()}


def _board_with_roles(runner: VectorRunner, board: dict[str, Any] | None) -> dict[str, Any] | None:
    """The board with agents in their roles' colours, if it has agents."""
    if board is None or board.get("kind") not in ("grid", "plane"):
        return board
    return {"roles": _agents(runner), **board}


def _recorded_step(
    runner: VectorRunner, step: VectorStep, row: int, board: dict[str, Any] | None
) -> RecordedStep:
    """One environment's step as text."""
    texts: dict[str, str] = {}
    rewards: dict[str, float] = {}
    for role, spec in runner.environment.spec.roles.items():
        role_rewards = step.transition.rewards[role][row]
        rewards |= {agent: float(amount) for agent, amount in zip(spec.agents, role_rewards, strict=True)}
        chosen = step.actions[role][row]
        texts |= {agent: action_text(spec, action) for agent, action in zip(spec.agents, chosen, strict=True)}
    return RecordedStep(board, texts, rewards)


def action_text(spec: RoleSpec, action: Any) -> str:
    """An action as text: its name if it has one, otherwise its number or numbers."""
    if isinstance(spec.actions, SeveralChoices):
        return " ".join(str(int(choice)) for choice in action)
    if isinstance(spec.actions, Choices):
        return spec.actions.names[int(action)] if spec.actions.names else str(int(action))
    return " ".join(f"{float(number):+.2f}" for number in action)
