"""Single environments that fail: their episodes break off by themselves, and what cannot be played at all is named."""

from typing import Any

import numpy as np
import pytest

from tests.training_core.marl.environments.fragile import Fragile
from training_core.errors import EnvironmentFailure
from training_core.marl.environments.config import CustomMarl
from training_core.marl.environments.episodes import episode_seeds
from training_core.marl.environments.registry import make_environments
from training_core.marl.environments.split import LocalShare, SplitEnvironments

FRAGILE = "tests.training_core.marl.environments.fragile:Fragile"


class Unlicensed:
    def __init__(self) -> None:
        raise RuntimeError("no licence")


STAY = np.zeros((3, 2), dtype=np.int64)


def fragile(count: int = 3, **args: Any) -> Any:
    return make_environments(CustomMarl(path=FRAGILE, args=args), count)


def seed_of(number: int, episode: int, seed: int = 0) -> int:
    return int(episode_seeds(seed, np.array([number]), np.array([episode]))[0])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", "step: RuntimeError: the physics blew up"),
        ("reward", "step: rewards of agents are not finite (nan or infinite)"),
        ("observation", "step: observations of agents are not finite (nan or infinite)"),
        ("critic", "step: critic_obs are not finite (nan or infinite)"),
    ],
)
def test_one_of_three_fails_in_a_known_step_of_a_known_episode(how: str, said: str) -> None:
    environments = fragile(every=seed_of(1, 0), how=how)
    environments.reset(0)
    moved = [environments.step({"agents": STAY}) for _ in range(7)]
    assert [list(step.failures) for step in moved] == [[], [], [1], [], [], [], []]
    assert moved[2].failures[1].error == f"environment 1, {FRAGILE}, {said}"
    assert moved[2].rewards["agents"].tolist() == [[1.5, 1.5], [0, 0], [1.5, 1.5]]
    assert [step.truncated.tolist() for step in moved[2:4]] == [[False, True, False], [True, False, True]]
    assert not any(step.terminated.any() for step in moved)
    # it is at the first step of its second episode, the others at the fourth of their first
    assert moved[2].view.observations["agents"][:, 0].tolist() == [
        [3, seed_of(0, 0) % 10],
        [0, seed_of(1, 1) % 10],
        [3, seed_of(2, 0) % 10],
    ]
    assert moved[6].truncated.tolist() == [False, True, False]
    assert all(np.isfinite(step.view.observations["agents"]).all() for step in moved)
    assert all(np.isfinite(step.view.state).all() for step in moved)


def test_shares_tell_failures_by_their_number_in_the_whole() -> None:
    whole = SplitEnvironments(
        [LocalShare(fragile(1, every=seed_of(2, 0))), LocalShare(fragile(2, every=seed_of(2, 0)))]
    )
    whole.reset(0)
    moved = [whole.step({"agents": STAY}) for _ in range(3)]
    assert {row: failure.error.split(",")[0] for row, failure in moved[2].failures.items()} == {
        2: "environment 2"
    }


def test_an_environment_that_cannot_begin_is_made_anew_once() -> None:
    Fragile.raised.clear()
    environments = fragile(every=seed_of(1, 1), reset="once")
    environments.reset(0)
    moved = [environments.step({"agents": STAY}) for _ in range(4)]
    assert {seed_of(1, 1)} == Fragile.raised and moved[3].failures == {}
    assert moved[3].view.observations["agents"][1, 0].tolist() == [0, seed_of(1, 1) % 10]


class Undrawn(Fragile):
    def board(self) -> Any:
        raise KeyError("colour")


def test_pictures_that_cannot_be_made_are_told_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    environments = make_environments(CustomMarl(path=f"{__name__}:Undrawn"), 2)
    environments.reset(0)
    assert environments.board(0) is None and environments.board(1) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"{__name__}:Undrawn, board: KeyError: 'colour'; its replays have no pictures"
    ]


def test_what_cannot_begin_at_all_is_named_with_what_to_do() -> None:
    environments = fragile(every=seed_of(1, 1), reset="always")
    environments.reset(0)
    for _ in range(3):
        environments.step({"agents": STAY})
    with pytest.raises(EnvironmentFailure) as told:
        environments.step({"agents": STAY})
    assert str(told.value) == (
        f"environment 1, {FRAGILE}, cannot begin an episode: RuntimeError: no start. "
        f"Fix its reset, and test it separately with seed={seed_of(1, 1)} before you launch again"
    )
    with pytest.raises(
        EnvironmentFailure, match="Unlicensed cannot be constructed: RuntimeError: no licence. Fix it"
    ):
        make_environments(CustomMarl(path=f"{__name__}:Unlicensed"), 1)
