"""The PettingZoo adapter: order, padding, masks, ends, agents that come or go; the toys through it; MPE; SuperSuit."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv

from tests.training_core.marl.environments.parallel import Countdown
from training_core.boards import Plane
from training_core.errors import ConfigError, EnvironmentFailure
from training_core.marl.environments.base import (
    Choices,
    Continuous,
    SeveralChoices,
    Success,
    VectorEnvironment,
)
from training_core.marl.environments.config import (
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
)
from training_core.marl.environments.episodes import episode_seeds
from training_core.marl.environments.games import Games
from training_core.marl.environments.pettingzoo import AdapterSettings, PettingZooEnvironment
from training_core.marl.environments.pettingzoo_games import simple_foraging, simple_hetero, toy_simple_spread
from training_core.marl.environments.registry import make_environments
from training_core.marl.environments.sequential import SequentialEnvironments
from training_core.marl.environments.spaces import shared_actions

TEAMS = {"reds": ("red_",), "blues": ("blue_",)}
LEAVERS = "tests.training_core.marl.environments.leavers:parallel_env"
HERE = "tests.training_core.marl.environments.parallel:Countdown"


def countdown(
    count: int = 2, manner: AdapterSettings | None = None, **kinds: Any
) -> tuple[SequentialEnvironments, list[Countdown]]:
    made: list[Countdown] = []

    def make() -> PettingZooEnvironment:
        made.append(Countdown(**kinds))
        return PettingZooEnvironment(made[-1], manner or AdapterSettings(TEAMS))

    return SequentialEnvironments(make, count, "countdown"), made


def stay(environments: VectorEnvironment) -> dict[str, Any]:
    return {
        role: np.zeros((environments.count, len(own.agents)), dtype=np.int64)
        if isinstance(own.actions, Choices)
        else np.zeros((environments.count, len(own.agents), len(own.actions.low)), dtype=np.float32)
        for role, own in environments.spec.roles.items()
    }


def test_agents_are_grouped_by_role_in_a_fixed_order() -> None:
    environments, made = countdown(2)
    reds, blues = environments.spec.roles["reds"], environments.spec.roles["blues"]
    assert (reds.agents, blues.agents) == (("red_0", "red_1"), ("blue_0",))
    assert (reds.observation_dim, blues.observation_dim, reds.actions) == (2, 4, Choices(3))
    view = environments.reset(3)
    assert view.observations["reds"].tolist() == [[[0, 0], [2, 0]]] * 2
    assert view.masks["reds"].all() and view.masks["blues"].all()
    assert view.alive["reds"].all() and view.alive["blues"].all()
    moved = environments.step({"reds": np.array([[0, 1], [2, 2]]), "blues": np.array([[1], [0]])})
    assert made[0].taken == {"red_0": 1, "red_1": 2, "blue_0": 2}  # Discrete(3, start=1)
    assert moved.rewards["reds"].tolist() == [[1, 4], [3, 5]] and moved.rewards["blues"].tolist() == [
        [3],
        [2],
    ]
    assert moved.view.observations["blues"].tolist() == [[[1, 1, 1, 1]]] * 2 and moved.final is None


def test_ended_episodes_restart_with_new_seeds_and_keep_final_states() -> None:
    environments, made = countdown(2)
    environments.reset(3, first=5)
    moved = [environments.step(stay(environments)) for _ in range(8)]
    assert [bool(step.truncated.all()) for step in moved] == [False, False, False, True] * 2
    assert not any(step.terminated.any() for step in moved)
    assert moved[3].final is not None and moved[3].final.observations["reds"][0].tolist() == [[0, 4], [2, 4]]
    assert moved[3].view.observations["reds"][0].tolist() == [[0, 0], [2, 0]]
    assert made[1].seeds == [
        int(episode_seeds(3, np.array([6]), np.array([number]))[0]) for number in range(3)
    ]


def test_boxes_of_several_widths_are_padded_scaled_and_given_their_shape_back() -> None:
    environments, made = countdown(1, box=True)
    assert environments.spec.roles["reds"].actions == Continuous((-3.0, -1.0), (1.0, 1.0))
    environments.reset(0)
    environments.step({"reds": np.array([[[0.5, -7.0], [0.9, 0.3]]]), "blues": np.array([[[0.1, 0.2, 3.0]]])})
    assert made[0].taken["red_0"].tolist() == [[0.75, -1.0]], (
        "0.5 of -3 to 1 is 0.75 of -1 to 1; beyond a bound"
    )
    assert made[0].taken["red_1"].tolist() == pytest.approx([0.4125]), "0.9 of -3 to 1 is 0.4125 of -3 to 0.5"
    assert made[0].taken["blue_0"].tolist() == pytest.approx([0.1, 0.2, 1.0])


def test_several_sets_of_choices_keep_their_shape_their_starts_and_their_masks() -> None:
    class Levers(Countdown):
        """A blue agent has three sets, red_0 two, red_1 one."""

        def __init__(self) -> None:
            super().__init__()
            self._acting = {
                "red_0": spaces.MultiDiscrete([2, 3], start=[5, 1]),
                "red_1": spaces.MultiDiscrete([4]),
                "blue_0": spaces.MultiDiscrete([[2, 2]]),
            }

        def _infos(self) -> dict:
            flatten_observation, apart = [1, 0, 0, 1, 1], ([0, 1, 1, 1],)
            return {
                "red_0": {"action_mask": flatten_observation},
                "red_1": {"action_mask": apart},
                "blue_0": {},
            }

    made = Levers()
    environments = SequentialEnvironments(
        lambda: PettingZooEnvironment(made, AdapterSettings(TEAMS)), 1, "levers"
    )
    assert environments.spec.roles["reds"].actions == SeveralChoices((4, 3))
    assert environments.spec.roles["blues"].actions == SeveralChoices((2, 2))
    masks = environments.reset(0).masks
    assert masks["reds"].astype(int).tolist() == [[[1, 0, 0, 0, 0, 1, 1], [0, 1, 1, 1, 1, 0, 0]]]
    assert masks["blues"].all()
    environments.step({"reds": np.array([[[0, 2], [3, 0]]]), "blues": np.array([[[1, 0]]])})
    taken = {agent: action.tolist() for agent, action in made.taken.items()}
    assert taken == {"red_0": [5, 3], "red_1": [3], "blue_0": [[1, 0]]}
    with pytest.raises(ConfigError, match="all MultiDiscrete or MultiBinary, or all Box within a role"):
        shared_actions([spaces.Discrete(2), spaces.MultiDiscrete([2, 2])], "environment.path")
    with pytest.raises(
        ConfigError, match="one of them is infinite.* a role of its own in environment.members"
    ):
        shared_actions([spaces.Box(-1, 1, (2,)), spaces.Box(-np.inf, np.inf, (1,))], "environment.path")
    assert shared_actions([spaces.Box(-1, np.inf, (1,)), spaces.Box(-1, np.inf, (1,))], "") == Continuous(
        (-1.0,), (np.inf,)
    )


def test_masks_come_from_infos_or_observations_and_can_be_left_alone() -> None:
    environments, _ = countdown(1, masks="info")
    view = environments.reset(0)
    assert view.masks["reds"].tolist() == [[[True, False, False]] * 2] and view.masks["blues"].shape == (
        1,
        1,
        3,
    )
    assert environments.step(stay(environments)).view.masks["reds"][0, 1].tolist() == [True, True, False]
    environments, _ = countdown(1, masks="observation")
    assert environments.reset(0).masks["blues"].tolist() == [[[False, True, True]]]
    assert environments.reset(0).observations["blues"].tolist() == [[[1, 1, 0, 0]]]
    environments, _ = countdown(1, AdapterSettings(TEAMS, action_masks=False), masks="info")
    assert environments.reset(0).masks["reds"].all()


def test_strict_agents_says_who_left_without_an_end_or_came() -> None:
    environments, _ = countdown(1, leaves="red_1")
    environments.reset(0)
    assert not [environments.step(stay(environments)).failures for _ in range(3)][-1], "red_1 has terminated"
    environments, _ = countdown(2, vanishes="red_1")
    environments.reset(0)
    environments.step(stay(environments))
    failures = environments.step(stay(environments)).failures
    assert "agents changed during an episode: red_1 left" in failures[0].error
    assert "set environment.strict_agents = false" in failures[1].error
    environments, _ = countdown(1, comes="blue_0")
    with pytest.raises(EnvironmentFailure, match="at the start of an episode: blue_0 left"):
        environments.reset(0)


def test_departed_agents_see_zeros_earn_nothing_and_have_one_action() -> None:
    environments, made = countdown(1, AdapterSettings(TEAMS, strict_agents=False), leaves="red_1")
    assert environments.reset(0).masks["reds"].all()
    moved = [environments.step(stay(environments)) for _ in range(4)]
    assert moved[2].view.observations["reds"].tolist() == [[[0, 3], [0, 0]]]
    assert moved[2].rewards["reds"].tolist() == [[1, 0]]
    assert moved[2].view.masks["reds"].tolist() == [[[True] * 3, [True, False, False]]]
    assert set(made[0].taken) == {"red_0", "blue_0"}
    assert [bool(step.truncated[0]) for step in moved] == [False, False, False, True]
    came, _ = countdown(1, AdapterSettings(TEAMS, strict_agents=False), comes="blue_0")
    came.reset(0)
    steps = [came.step(stay(came)) for _ in range(3)]
    assert [step.rewards["blues"].tolist() for step in steps] == [[[0]], [[0]], [[2]]]


def test_any_environment_by_import_path() -> None:
    section = PettingZoo(path=HERE, args={"masks": "info"}, members=TEAMS)
    environments = make_environments(section, 3)
    assert environments.count == 3 and environments.reset(0).masks["reds"].shape == (3, 2, 3)
    with pytest.raises(
        ConfigError, match="the agent 'blue_0' has no role; the agents are red_0, blue_0, red_1"
    ):
        make_environments(PettingZoo(path=HERE, members={"reds": ("red_",)}), 1)
    with pytest.raises(ConfigError, match="greens has no agent"):
        make_environments(PettingZoo(path=HERE, members={**TEAMS, "greens": ("green_",)}), 1)
    with pytest.raises(ConfigError, match="environment.path"):
        make_environments(PettingZoo(path="tests.nowhere:parallel_env"), 1)


TOYS = [simple_hetero, simple_foraging, toy_simple_spread]


@pytest.mark.parametrize("make", TOYS)
def test_the_toys_pass_pettingzoo_s_own_test(make: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # its package imports an API of its own that it has deprecated
        from pettingzoo.test import parallel_api_test
    parallel_api_test(make(), num_cycles=200)


def test_scouts_and_workers_have_spaces_of_their_own_in_pettingzoo() -> None:
    environment = simple_hetero(num_targets=3)
    shapes = {agent: environment.observation_space(agent).shape for agent in environment.possible_agents}
    assert shapes == {"scout_0": (4,), "scout_1": (4,), "worker_0": (6,), "worker_1": (6,)}
    assert [environment.action_space(agent).n for agent in environment.possible_agents] == [6, 6, 3, 3]


@pytest.mark.parametrize(
    ("native", "wrapped"),
    [
        (SimpleHetero(type="simple_hetero"), SimpleHetero(type="simple_hetero_pz")),
        (SimpleForaging(type="simple_foraging"), SimpleForaging(type="simple_foraging_pz")),
    ],
    ids=["simple_hetero", "simple_foraging"],
)
def test_a_toy_through_pettingzoo_is_the_vectorised_one_step_by_step(native: Any, wrapped: Any) -> None:
    native, wrapped = make_environments(native, 4), make_environments(wrapped, 4)
    assert isinstance(native, Games) and isinstance(wrapped, SequentialEnvironments)
    assert wrapped.spec.max_steps == native.spec.max_steps and set(wrapped.spec.roles) == {"agents"}
    random, ends = np.random.default_rng(0), 0
    views = [native.reset(11), wrapped.reset(11)]
    for _ in range(120):
        allowed = views[0].masks.get(
            "agents", np.ones((4, len(native.spec.roles["agents"].agents), 5), dtype=bool)
        )
        actions = {"agents": (random.random(allowed.shape) * allowed).argmax(axis=-1)}
        one, other = native.step(actions), wrapped.step(actions)
        views = [one.view, other.view]
        assert np.array_equal(one.rewards["agents"], other.rewards["agents"])
        assert np.array_equal(one.terminated, other.terminated) and np.array_equal(
            one.truncated, other.truncated
        )
        assert np.array_equal(one.view.observations["agents"], other.view.observations["agents"])
        assert all(np.array_equal(one.view.masks[role], other.view.masks[role]) for role in one.view.masks)
        if one.final is not None and other.final is not None:
            ended, ends = one.terminated | one.truncated, ends + 1
            assert np.array_equal(
                one.final.observations["agents"][ended], other.final.observations["agents"][ended]
            )
    assert ends >= 2 and native.board(2) == wrapped.board(2)


MPE = [
    ("mpe_simple_spread", SimpleSpread(backend="mpe2", num_agents=4), {"agents": (4, 24, 5)}),
    ("mpe_simple_reference", SimpleReference(backend="mpe2"), {"agents": (2, 21, 50)}),
    ("mpe_simple_crypto", SimpleCrypto(), {"adversaries": (1, 4, 4), "good": (2, 8, 4)}),
    ("mpe_simple_world_comm", SimpleWorldComm(), {"adversaries": (4, 34, 20), "good": (2, 28, 5)}),
    ("mpe_simple_push", SimplePush(backend="mpe2"), {"adversaries": (1, 8, 5), "good": (1, 19, 5)}),
    ("mpe_simple_adversary", SimpleAdversary(backend="mpe2"), {"adversaries": (1, 8, 5), "good": (2, 10, 5)}),
    (
        "mpe_simple_tag",
        SimpleTag(backend="mpe2", num_good=2),
        {"adversaries": (3, 20, 5), "good": (2, 18, 5)},
    ),
]


@pytest.mark.parametrize(("tag", "section", "shapes"), MPE)
@pytest.mark.parametrize("continuous", [False, True])
def test_every_mpe_environment_runs_through_the_package(
    tag: str, section: Any, shapes: dict[str, Any], continuous: bool
) -> None:
    assert section.type == tag
    section = section.model_copy(update={"max_cycles": 3, "continuous_actions": continuous})
    environments = make_environments(section, 2)
    found = {
        role: (len(own.agents), own.observation_dim, getattr(own.actions, "count", 0))
        for role, own in environments.spec.roles.items()
    }
    assert found == {
        role: (n, dim, 0 if continuous else choices) for role, (n, dim, choices) in shapes.items()
    }
    view = environments.reset(1)
    kept = [view.observations]
    Plane.model_validate(environments.board(1))
    moved = [environments.step(stay(environments)) for _ in range(3)]
    assert [step.truncated.all() for step in moved] == [False, False, True] and moved[2].final is not None
    again = make_environments(section, 2)
    assert all(np.array_equal(kept[0][role], again.reset(1).observations[role]) for role in kept[0])
    environments.close()


def test_world_comm_masks_what_only_the_leader_can_do() -> None:
    masks = make_environments(SimpleWorldComm(), 1).reset(0).masks
    assert masks["adversaries"].sum(axis=2).tolist() == [[20, 5, 5, 5]] and masks["good"].all()


def test_the_picture_of_a_world_has_its_agents_landmarks_and_obstacles() -> None:
    environments = make_environments(SimpleTag(backend="mpe2"), 1)
    environments.reset(0)
    environments.step({"adversaries": np.full((1, 3), 2), "good": np.zeros((1, 1), dtype=np.int64)})
    board = environments.board(0)
    assert board is not None
    kinds = [(entity["name"], entity["kind"]) for entity in board["entities"]]
    assert kinds[:4] == [
        ("adversary_0", "agent"),
        ("adversary_1", "agent"),
        ("adversary_2", "agent"),
        ("agent_0", "agent"),
    ]
    assert {kind for _, kind in kinds[4:]} == {"obstacle"}
    assert board["entities"][0]["velocity"][0] > 0 and board["entities"][0]["radius"] == pytest.approx(0.075)


def test_supersuit_s_wrappers_stack_frames_pad_and_normalise() -> None:
    suit = SuperSuit(pad_observations=True, pad_action_space=True, frame_stack=3)
    environments = make_environments(SimpleWorldComm(supersuit=suit), 1)
    assert environments.spec.roles["good"].observation_dim == 34 * 3
    assert environments.spec.roles["good"].actions == Choices(20)
    first = environments.reset(4).observations["good"]
    moved = environments.step(stay(environments)).view.observations["good"].reshape(1, 2, 3, 34)
    assert np.array_equal(moved[:, :, 1], first.reshape(1, 2, 3, 34)[:, :, 2])
    scaled = make_environments(PettingZoo(path=HERE, supersuit=SuperSuit(normalise_observations=True)), 1)
    assert scaled.reset(0).observations["agents"][0, 2, :2] == pytest.approx([(2 + 9) / 18, 0.5])
    unbounded = PettingZoo(
        path="mpe2.simple_spread_v3:parallel_env", supersuit=SuperSuit(normalise_observations=True)
    )
    with pytest.raises(ConfigError, match="supersuit.normalise_observations: does not fit"):
        make_environments(unbounded, 1)


class Late(Countdown):
    """Gives its first masks in a step."""

    def step(self, actions: dict[str, Any]) -> Any:
        *rest, infos = super().step(actions)
        return *rest, {agent: {**info, "action_mask": [1, 0, 0]} for agent, info in infos.items()}


def test_masks_that_come_with_steps_alone_are_taken() -> None:
    environments = SequentialEnvironments(
        lambda: PettingZooEnvironment(Late(), AdapterSettings(TEAMS)), 1, "late"
    )
    assert environments.reset(0).masks["reds"].all()
    moved = environments.step(stay(environments))
    assert moved.view.masks["reds"].tolist() == [[[True, False, False]] * 2]


def test_who_takes_part_and_whose_own_end_came_is_told() -> None:
    environments = make_environments(PettingZoo(path=LEAVERS, strict_agents=False, args={"cut": ["a_0"]}), 2)
    view = environments.reset(0)
    assert view.alive["agents"].tolist() == [[True] * 3] * 2
    moved = [environments.step({"agents": np.ones((2, 3), dtype=np.int64)}) for _ in range(6)]
    alive = [step.view.alive["agents"][0].tolist() for step in moved]
    assert alive == [[True] * 3, *[[False, True, True]] * 2, *[[False, False, True]] * 2, [True] * 3]
    over = [step.agent_terminated["agents"][1].tolist() for step in moved]
    nobody = [False] * 3
    assert over == [nobody, nobody, nobody, [False, True, False], nobody, [False, False, True]]
    assert [bool(step.terminated[0]) for step in moved] == [False] * 5 + [True]
    told = Success(agents=dict.fromkeys(["a_0", "a_1", "a_2"], True))
    assert moved[-1].successes == {0: told, 1: told}


class Odd(Countdown):
    """Returns something else in place of a part of its step."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        self._parts = parts

    def step(self, actions: dict[str, Any]) -> Any:
        names = ("observations", "rewards", "terminations", "truncations", "infos")
        return tuple((dict(zip(names, super().step(actions), strict=True)) | self._parts).values())


def without(agent: str, value: Any) -> dict[str, Any]:
    return {other: value for other in ("red_0", "red_1", "blue_0") if other != agent}


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("observations", {**without("", np.zeros((2, 1))), "blue_0": np.zeros((2, 1))}, "of blue_0 .* shape"),
        ("observations", {**without("", np.zeros((2, 2))), "blue_0": np.zeros((2, 2))}, "of red_0 .* shape"),
        ("observations", {"red_0": np.zeros((2, 1)), "blue_0": np.zeros((2, 2))}, "red_1 has no observation"),
        ("rewards", without("red_1", 1.0), "red_1 has the reward None"),
        ("rewards", without("", np.ones(2)), "red_0 has the reward"),
        ("terminations", [False] * 3, "terminations must be a dict"),
    ],
)
def test_a_part_of_a_step_that_does_not_fit_is_refused(part: str, value: Any, message: str) -> None:
    environments = SequentialEnvironments(
        lambda: PettingZooEnvironment(Odd(**{part: value}), AdapterSettings(TEAMS)), 1, "odd"
    )
    environments.reset(0)
    (failure,) = environments.step(stay(environments)).failures.values()
    assert re.search(message, failure.error)


def test_one_flag_and_no_infos_are_understood() -> None:
    made = Odd(terminations=False, truncations=np.array([False]), infos=None)
    environments = SequentialEnvironments(
        lambda: PettingZooEnvironment(made, AdapterSettings(TEAMS)), 1, "odd"
    )
    environments.reset(0)
    moved = environments.step(stay(environments))
    assert not moved.failures and moved.rewards["reds"].tolist() == [[1, 3]]


class Turns(AECEnv):
    """Two agents add to a number in turn; who brings it to 4 wins."""

    metadata = {"name": "turns"}
    render_mode = None

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["a", "b"]

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(3)

    def observe(self, agent: str) -> Any:
        return np.array([self.number], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.agent_selection, self.number = ["a", "b"], "a", 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.number += int(action)
        if self.number >= 4:
            self.terminations = dict.fromkeys(self.agents, True)
            self.rewards = {agent: 1.0 if agent == self.agent_selection else -1.0 for agent in self.agents}
        self.agent_selection = "b" if self.agent_selection == "a" else "a"


def test_a_turn_based_environment_is_played_by_pettingzoos_wrapper() -> None:
    sides = AdapterSettings({"first": ("a",), "second": ("b",)})
    environments = SequentialEnvironments(lambda: PettingZooEnvironment(Turns(), sides), 1, "turns")
    environments.reset(0)
    two = {"first": np.array([[2]]), "second": np.array([[2]])}
    view = environments.step(two).view
    assert view.observations["second"].tolist() == [[[2]]]
    assert view.masks["first"].tolist() == [[[True, False, False]]], "who waits has one choice"
    assert view.masks["second"].all()
    last = environments.step(two)
    assert last.terminated.tolist() == [True] and last.final is not None
    assert (last.rewards["first"].tolist(), last.rewards["second"].tolist()) == ([[-1]], [[1]])
