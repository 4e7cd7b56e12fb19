"""Shares of a whole: the same episodes however it is shared; views, boards and last states in their places."""

from typing import Any

import numpy as np
import pytest

from training_core.marl.environments.base import Transition, VectorEnvironment, View
from training_core.marl.environments.config import (
    CustomMarl,
    PettingZoo,
    SimpleForaging,
    SimpleHetero,
    SimpleTag,
    ToySimpleSpread,
)
from training_core.marl.environments.registry import make_environments
from training_core.marl.environments.split import LocalShare, SplitEnvironments, shares_of

SECTIONS = [
    SimpleForaging(max_cycles=7, grid_size=3, num_food=2),
    SimpleHetero(type="simple_hetero_pz", max_cycles=4),
    ToySimpleSpread(max_cycles=3),
    SimpleTag(max_cycles=5),
    PettingZoo(path="tests.training_core.marl.environments.parallel:Countdown", args={"masks": "info"}),
    CustomMarl(path="examples.custom.relay:Relay"),
]


def split(section: Any, counts: list[int]) -> SplitEnvironments:
    return SplitEnvironments([LocalShare(make_environments(section, count)) for count in counts])


def same(one: View, other: View, rows: Any = slice(None)) -> None:
    assert set(one.masks) == set(other.masks)
    for role in one.observations:
        assert np.array_equal(one.observations[role][rows], other.observations[role][rows])
    for role in one.masks:
        assert np.array_equal(one.masks[role][rows], other.masks[role][rows])
    assert (one.state is None) == (other.state is None)
    if one.state is not None and other.state is not None:
        assert np.array_equal(one.state[rows], other.state[rows])


def step_all(environments: list[VectorEnvironment], random: np.random.Generator) -> list[Transition]:
    spec = environments[0].spec
    actions = {
        role: random.integers(0, own.actions.count, (7, len(own.agents)))  # type: ignore[union-attr]
        for role, own in spec.roles.items()
    }
    return [one.step(actions, (0, 3, 6)) for one in environments]


@pytest.mark.parametrize("section", SECTIONS, ids=[section.type for section in SECTIONS])
def test_the_same_episodes_are_played_however_the_whole_is_shared(section: Any) -> None:
    whole = make_environments(section, 7)
    ways: list[VectorEnvironment] = [
        whole,
        split(section, [7]),
        split(section, [3, 4]),
        split(section, [1, 5, 1]),
    ]
    assert all(way.count == 7 and way.spec == whole.spec for way in ways)
    first, *others = [way.reset(21, 2) for way in ways]
    for other in others:
        same(first, other)
    random, ends = np.random.default_rng(0), 0
    for _ in range(20):
        one, *rest = step_all(ways, random)
        ended = one.terminated | one.truncated
        ends += int(ended.sum())
        assert set(one.last_boards) == {0, 3, 6} & set(np.flatnonzero(ended).tolist())
        for other in rest:
            assert np.array_equal(one.terminated, other.terminated) and np.array_equal(
                one.truncated, other.truncated
            )
            assert all(np.array_equal(one.rewards[role], other.rewards[role]) for role in one.rewards)
            same(one.view, other.view)
            assert one.last_boards == other.last_boards
            assert (one.final is None) == (other.final is None)
            if one.final is not None and other.final is not None:
                same(one.final, other.final, ended)
        assert all(way.board(number) == whole.board(number) for way in ways for number in range(7))
    assert ends > 7
    for way in ways:
        way.close()


def test_shares_are_even_and_never_empty() -> None:
    assert shares_of(10, 3) == [4, 3, 3] and shares_of(2, 5) == [1, 1] and shares_of(6, 1) == [6]
