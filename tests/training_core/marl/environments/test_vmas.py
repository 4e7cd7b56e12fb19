"""VMAS scenarios: the same numbers as VMAS's own environment, ends, roles, pictures."""

import numpy as np
import pytest
import torch

from training_core.boards import Plane
from training_core.errors import ConfigError
from training_core.marl.environments.base import Choices, Continuous
from training_core.marl.environments.config import Vmas
from training_core.marl.environments.registry import make_environments

TEAMS = {"adversaries": ("adversary_",), "good": ("agent_",)}


def test_steps_are_vmas_s_own_and_all_are_cut_off_together() -> None:
    import vmas

    environments = make_environments(Vmas(type="vmas", max_cycles=6, args={"n_agents": 4}), 5)
    role = environments.spec.roles["agents"]
    assert len(role.agents) == 4 and role.actions == Choices(9) and environments.spec.max_steps == 6
    first = environments.reset(3).observations["agents"]
    own = vmas.make_env("simple_spread", 5, continuous_actions=False, n_agents=4, seed=0)
    own.reset(seed=environments._seed())  # type: ignore[attr-defined]
    random = np.random.default_rng(0)
    for step in range(6):
        actions = random.integers(0, 9, (5, 4))
        seen, rewards, _, _ = own.step([torch.tensor(actions[:, [agent]]) for agent in range(4)])
        moved = environments.step({"agents": actions})
        shown = moved.view if moved.final is None else moved.final
        assert np.array_equal(shown.observations["agents"], np.stack([one.numpy() for one in seen], axis=1))
        assert np.array_equal(moved.rewards["agents"], np.stack([one.numpy() for one in rewards], axis=1))
        assert moved.truncated.tolist() == [step == 5] * 5 and not moved.terminated.any()
    assert not np.array_equal(moved.view.observations["agents"], first)
    assert np.array_equal(environments.reset(3).observations["agents"], first)


@pytest.mark.parametrize("scenario", ["balance", "simple_reference", "football"])
def test_choices_push_as_vmas_s_own_do(scenario: str) -> None:
    import vmas

    environments = make_environments(Vmas(scenario=scenario, max_cycles=9), 4)
    role = environments.spec.roles["agents"]
    assert isinstance(role.actions, Choices)
    actions = np.random.default_rng(0).integers(0, role.actions.count, (6, 4, len(role.agents)))
    environments.reset(1)
    seed = environments._seed()  # type: ignore[attr-defined]
    own = vmas.make_env(scenario, 4, continuous_actions=False, seed=0)
    own.reset(seed=seed)  # it draws from the state that ours draws from: one plays after the other
    played = [
        own.step([torch.tensor(made[:, [agent]]) for agent in range(len(role.agents))]) for made in actions
    ]
    environments.reset(1)
    for made, (seen, rewards, _, _) in zip(actions, played, strict=True):
        moved = environments.step({"agents": made})
        shown = moved.view if moved.final is None else moved.final
        assert np.array_equal(shown.observations["agents"], np.stack([one.numpy() for one in seen], axis=1))
        assert np.array_equal(moved.rewards["agents"], np.stack([one.numpy() for one in rewards], axis=1))


def test_teams_have_roles_of_their_own_sizes_and_continuous_forces() -> None:
    section = Vmas(scenario="simple_tag", members=TEAMS, continuous_actions=True, max_cycles=3)
    environments = make_environments(section, 2)
    sizes = {role: (len(own.agents), own.observation_dim) for role, own in environments.spec.roles.items()}
    assert sizes == {"adversaries": (3, 16), "good": (1, 14)}
    assert environments.spec.roles["good"].actions == Continuous((-1.0, -1.0), (1.0, 1.0))
    environments.reset(0)
    push = {role: np.full((2, own[0], 2), 9.0, dtype=np.float32) for role, own in sizes.items()}
    moved = environments.step(push)
    assert moved.rewards["adversaries"].shape == (2, 3) and moved.view.observations["good"].shape == (
        2,
        1,
        14,
    )
    board = environments.board(1)
    Plane.model_validate(board)
    assert board is not None and [entity["name"] for entity in board["entities"][:4]] == [
        "adversary_0", "adversary_1", "adversary_2", "agent_0",
    ]  # fmt: skip


@pytest.mark.extended
def test_environments_that_end_apart_begin_again_apart_and_by_the_seed() -> None:
    played = []
    for _ in range(2):
        environments = make_environments(Vmas(scenario="balance", max_cycles=90), 8)
        random = np.random.default_rng(2)
        agents = len(environments.spec.roles["agents"].agents)
        views, ends = [environments.reset(5).observations["agents"]], []
        for _ in range(100):
            moved = environments.step({"agents": random.integers(0, 9, (8, agents))})
            ended = moved.terminated | moved.truncated
            views.append(moved.view.observations["agents"]), ends.append(ended)
            if moved.final is not None:  # those that go on are shown as they are
                assert np.array_equal(moved.final.observations["agents"][~ended], views[-1][~ended])
            torch.rand(1)  # what others draw changes nothing
        played.append((np.stack(views), np.stack(ends)))
    assert np.array_equal(played[0][0], played[1][0]) and np.array_equal(played[0][1], played[1][1])
    assert any(0 < ended.sum() < 8 for ended in played[0][1])


def test_what_there_is_not_is_told() -> None:
    with pytest.raises(ConfigError, match=r"environment\.scenario"):
        make_environments(Vmas(scenario="no_such_scenario"), 1)


def test_the_role_s_bounds_are_scaled_to_each_agent_s_own() -> None:
    """A bicycle's steering angle has at most 30 degrees, a component of the other agent 1."""
    environments = make_environments(Vmas(scenario="kinematic_bicycle", continuous_actions=True), 2)
    actions = np.full((2, 2, 3), 0.5)
    bicycle, other = environments._given({"agents": actions})  # type: ignore[attr-defined]
    assert bicycle.tolist() == [[0.5, pytest.approx(np.pi / 12)]] * 2
    assert other.tolist() == [[0.5, 0.5, 0.5]] * 2
