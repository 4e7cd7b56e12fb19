"""SuperSuit's settings on native environments, against SuperSuit around the package's own."""

from typing import Any

import numpy as np
import pytest

from training_core.marl.environments.base import VectorEnvironment
from training_core.marl.environments.config import SimplePush, SimpleSpread, SimpleTag, SuperSuit
from training_core.marl.environments.registry import make_environments


def stepped(environments: VectorEnvironment, steps: int) -> list[Any]:
    """Views and transitions of the same moves, whatever is seen."""
    random = np.random.default_rng(1)
    found: list[Any] = [environments.reset(3)]
    for _ in range(steps):
        actions = {
            role: random.integers(0, own.actions.count, (environments.count, len(own.agents)))  # type: ignore[union-attr]
            for role, own in environments.spec.roles.items()
        }
        found.append(environments.step(actions))
    return found


@pytest.mark.parametrize(
    "kind", [SimpleSpread, SimplePush, SimpleTag], ids=["one role", "two widths", "two roles"]
)
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("pads", [False, True])
def test_native_frames_are_those_that_a_queue_of_observations_gives(
    kind: Any, depth: int, pads: bool
) -> None:
    """Two episodes of three steps, then one more step: frames begin anew with an episode, and its last state has the frames before."""
    suit = SuperSuit(pad_observations=pads, frame_stack=depth)
    plain = make_environments(kind(max_cycles=3), 2)
    made = make_environments(kind(max_cycles=3, supersuit=suit), 2)
    widths = {role: own.observation_dim for role, own in plain.spec.roles.items()}
    width = {role: max(widths.values()) if pads else own for role, own in widths.items()}
    assert {role: own.observation_dim for role, own in made.spec.roles.items()} == {
        role: own * depth for role, own in width.items()
    }
    simple, stacked = stepped(plain, 7), stepped(made, 7)
    for role, own in widths.items():

        def padded(seen: Any, role: str = role, own: int = own) -> Any:
            return np.pad(seen, ((0, 0), (0, 0), (0, width[role] - own)))

        nothing = np.zeros_like(padded(simple[0].observations[role]))
        queue = [nothing] * (depth - 1) + [padded(simple[0].observations[role])]
        assert np.array_equal(stacked[0].observations[role], np.concatenate(queue, -1))
        for one, other in zip(simple[1:], stacked[1:], strict=True):
            if one.final is not None:
                last = [*queue[1:], padded(one.final.observations[role])]
                assert np.array_equal(other.final.observations[role], np.concatenate(last, -1))
                queue = [nothing] * depth
            queue = [*queue[1:], padded(one.view.observations[role])]
            assert np.array_equal(other.view.observations[role], np.concatenate(queue, -1))
            assert np.array_equal(one.rewards[role], other.rewards[role])


@pytest.mark.parametrize("suit", [SuperSuit(frame_stack=3), SuperSuit(pad_observations=True, frame_stack=2)])
@pytest.mark.parametrize("kind", [SimpleSpread, SimplePush])
def test_native_and_wrapped_environments_show_agents_as_much(kind: Any, suit: SuperSuit) -> None:
    native = make_environments(kind(supersuit=suit), 1).spec
    package = make_environments(kind(supersuit=suit, backend="mpe2"), 1).spec
    for role, own in native.roles.items():
        assert own.observation_dim == package.roles[role].observation_dim
        assert own.agents == package.roles[role].agents
    frames = make_environments(kind(supersuit=suit, backend="mpe2"), 1).reset(0)
    for role, own in native.roles.items():
        older = frames.observations[role].reshape(1, len(own.agents), suit.frame_stack, -1)[:, :, :-1]
        assert not older.any()  # SuperSuit, too, puts zeros before an episode
    assert (
        make_environments(kind(supersuit=SuperSuit(pad_action_space=True)), 1).spec
        == make_environments(kind(), 1).spec
    )
