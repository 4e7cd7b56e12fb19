"""Games: seeds, and a share of the environments."""

from itertools import pairwise

import numpy as np
import pytest

from training_core.boards import Grid
from training_core.marl.environments.registry import MARL_ENVIRONMENTS, make_environments


@pytest.mark.parametrize("tag", ["toy_simple_spread", "simple_hetero", "simple_foraging"])
def test_a_share_of_environments_plays_the_same_as_the_whole(tag: str) -> None:
    section = MARL_ENVIRONMENTS[tag].config()
    whole, share = make_environments(section, 6), make_environments(section, 2)
    random = np.random.default_rng(4)
    views, parts = [whole.reset(9)], [share.reset(9, first=3)]
    kept = [views[0].observations["agents"].copy()]
    role = whole.spec.roles["agents"]
    for _ in range(60):
        actions = random.integers(0, 4, (6, len(role.agents)))
        moved, part = whole.step({"agents": actions}), share.step({"agents": actions[3:5]})
        assert np.array_equal(moved.rewards["agents"][3:5], part.rewards["agents"])
        (
            views.append(moved.view),
            parts.append(part.view),
            kept.append(moved.view.observations["agents"].copy()),
        )
        Grid.model_validate(whole.board(5))
    for view, part, copy in zip(views, parts, kept, strict=True):
        assert np.array_equal(view.observations["agents"], copy)
        assert np.array_equal(view.observations["agents"][3:5], part.observations["agents"])
    again = whole.reset(9).observations["agents"]
    assert np.array_equal(again, kept[0])
    assert any(not np.array_equal(one, other) for one, other in pairwise(kept))
