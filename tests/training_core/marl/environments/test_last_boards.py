"""The picture that an episode ends in: what the same episode shows where it may go on for a step longer, so that nothing begins anew."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from training_core.marl.environments.base import Actions, Choices, VectorEnvironment
from training_core.marl.environments.config import (
    CustomMarl,
    GymnasiumVector,
    PettingZoo,
    SimpleAdversary,
    SimpleCrypto,
    SimpleForaging,
    SimpleHetero,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
    SimpleWorldComm,
    SuperSuit,
    ToySimpleSpread,
    Vmas,
)
from training_core.marl.environments.registry import make_environments

STEPS, COUNT, WATCHED = 6, 3, (0, 2)


class Cart(CartPoleEnv):
    """CartPole that can be drawn."""

    def board(self) -> dict[str, Any]:
        return {"kind": "lines", "lines": [{"label": "state", "text": str(self.state)}]}


@pytest.fixture(autouse=True)
def _cart() -> Any:
    gymnasium.register("Cart-v0", entry_point=f"{__name__}:Cart")
    yield
    del gymnasium.registry["Cart-v0"]


def _mpe2(steps: int) -> PettingZoo:
    return PettingZoo(path="mpe2.simple_spread_v3:parallel_env", args={"max_cycles": steps})


FAMILIES: dict[str, Any] = {
    "spread": lambda steps: SimpleSpread(max_cycles=steps),
    "tag": lambda steps: SimpleTag(max_cycles=steps),
    "adversary": lambda steps: SimpleAdversary(max_cycles=steps),
    "push": lambda steps: SimplePush(max_cycles=steps, continuous_actions=True),
    "reference": lambda steps: SimpleReference(max_cycles=steps),
    "crypto": lambda steps: SimpleCrypto(max_cycles=steps),
    "world_comm": lambda steps: SimpleWorldComm(max_cycles=steps),
    "mpe2": lambda steps: SimpleSpread(max_cycles=steps, backend="mpe2"),
    "supersuit": lambda steps: SimpleTag(
        max_cycles=steps, backend="mpe2", supersuit=SuperSuit(pad_observations=True, frame_stack=2)
    ),
    "toy": lambda steps: ToySimpleSpread(max_cycles=steps),
    "foraging": lambda steps: SimpleForaging(max_cycles=steps),
    "foraging_pz": lambda steps: SimpleForaging(type="simple_foraging_pz", max_cycles=steps),
    "hetero": lambda steps: SimpleHetero(max_cycles=steps),
    "hetero_pz": lambda steps: SimpleHetero(type="simple_hetero_pz", max_cycles=steps),
    "pettingzoo": _mpe2,
    "custom": lambda steps: CustomMarl(
        path="examples.custom.relay:Relay", args={"num_agents": 7, "most_steps": steps}
    ),
    "gymnasium": lambda steps: GymnasiumVector(id="Cart-v0", args={"max_episode_steps": steps}),
    "vmas": lambda steps: Vmas(max_cycles=steps),
}


def drawn(environments: VectorEnvironment) -> list[dict[str, Actions]]:
    """The same random actions every time; none that a mask could forbid."""
    random = np.random.default_rng(5)
    return [
        {
            role: random.integers(0, 2, (COUNT, len(own.agents)))
            if isinstance(own.actions, Choices)
            else random.random((COUNT, len(own.agents), len(own.actions.low)), dtype=np.float32)
            for role, own in environments.spec.roles.items()
        }
        for _ in range(STEPS)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_board_is_the_state_after_the_last_step(family: str) -> None:
    environments = make_environments(FAMILIES[family](STEPS), COUNT)
    longer = make_environments(FAMILIES[family](STEPS + 1), COUNT)
    environments.reset(11)
    longer.reset(11)
    for step, actions in enumerate(drawn(environments), 1):
        moved, alone = environments.step(actions, WATCHED), longer.step(actions)
        assert not (alone.terminated | alone.truncated).any()
        assert (moved.terminated | moved.truncated).tolist() == [step == STEPS] * COUNT
        if step < STEPS:
            assert moved.last_boards == {} and environments.board(1) == longer.board(1) is not None
    assert moved.last_boards == {row: longer.board(row) for row in WATCHED}
    assert all(moved.last_boards[row] not in (None, environments.board(row)) for row in WATCHED)
    environments.close()
    longer.close()


def test_an_episode_that_ends_early_shows_its_goal() -> None:
    """Foraging on four squares, two of them with food: the last picture has none left, the one after it has two again."""
    environments = make_environments(SimpleForaging(grid_size=2, num_agents=2, num_food=2), 4)
    environments.reset(0)
    random, boards = np.random.default_rng(0), []
    for _ in range(40):
        moved = environments.step({"agents": random.integers(0, 5, (4, 2))}, range(4))
        assert set(moved.last_boards) == set(np.flatnonzero(moved.terminated | moved.truncated).tolist())
        boards += [(board, environments.board(row)) for row, board in moved.last_boards.items()]
    assert len(boards) > 4
    for last, next_one in boards:
        kinds = [[kind for _, _, kind in board["cells"]] for board in (last, next_one)]
        assert (kinds[0].count("goal"), kinds[1].count("goal")) == (0, 2)
