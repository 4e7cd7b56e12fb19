"""What there is to earn in MPE simple_reference: `python -m tests.benchmarks.marl_reference`. A few seconds.

Written policies, so that a learnt one can be placed: who moves and talks by lot, who stays, who goes to the middle of the landmarks
(about the best that there is for agents who do not understand each other), and who says the colour and goes where the other's word says.
Prints mean returns of 2,000 episodes (25 steps, sums over both agents) with their standard errors.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.base import View
from training_core.marl.environments.config import SimpleReference
from training_core.marl.environments.registry import make_environments

Numbers = NDArray[Any]
Policy = Callable[[Numbers], Numbers]
"""Observations (B, 2, 21) -> actions (B, 2)."""
EPISODES, STEPS = 2000, 25
COAST = 0.4
"""How far a velocity of 1 carries on before damping has used it up: 0.1 / 0.25."""
HALF_PUSH = 0.1
"""Half of how far one push carries in the end: nearer than that, staying is best."""
MOVES, LETTERS, COLOURS = 5, 10, 3
RANDOM = np.random.default_rng(0)


def by_lot(seen: Numbers) -> Numbers:
    """Any move and any letter."""
    return RANDOM.integers(0, MOVES * LETTERS, seen.shape[:2])


def stay(seen: Numbers) -> Numbers:
    """No move."""
    return np.zeros(seen.shape[:2], np.int64)


def middle(seen: Numbers) -> Numbers:
    """To the middle of the landmarks, in silence."""
    return towards(seen, landmarks(seen).mean(axis=2))


def talk(seen: Numbers) -> Numbers:
    """Say the colour that is seen by its letter (A, B, C); go where the other says, and to the middle until it has spoken."""
    places, heard = landmarks(seen), seen[..., 11 : 11 + COLOURS, None]
    told = np.where(heard.any(axis=2), (places * heard).sum(axis=2), places.mean(axis=2))
    return towards(seen, told) + MOVES * seen[..., 8:11].argmax(axis=-1)


def landmarks(seen: Numbers) -> Numbers:
    """(B, 2, 3, 2): as each agent sees them."""
    places: Numbers = seen[..., 2:8].reshape(*seen.shape[:2], COLOURS, 2)
    return places


def towards(seen: Numbers, goal: Numbers) -> Numbers:
    """The move (stay, left, right, down, up) along the axis on which it would come to rest farther from `goal` (B, 2, 2)."""
    short = goal - COAST * seen[..., :2]
    axis = np.abs(short).argmax(axis=-1)
    most = np.take_along_axis(short, axis[..., None], axis=-1)[..., 0]
    return np.where(np.abs(most) < HALF_PUSH, 0, 1 + 2 * axis + (most > 0))


def returns(policy: Policy) -> Numbers:
    """(EPISODES,): both agents' rewards of an episode, added up."""
    environment = make_environments(SimpleReference(), EPISODES)
    view: View = environment.reset(0)
    earned = np.zeros(EPISODES)
    for _ in range(STEPS):
        transition = environment.step({"agents": policy(view.observations["agents"])})
        earned += transition.rewards["agents"].sum(axis=1)
        view = transition.view
    return earned


def main() -> None:
    """Print each."""
    for policy in (by_lot, stay, middle, talk):
        earned = returns(policy)
        print(f"{policy.__name__:8} {earned.mean():7.2f} ± {earned.std() / EPISODES**0.5:.2f}")


if __name__ == "__main__":
    main()
