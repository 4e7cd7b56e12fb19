"""The config of small-network agents: what it refuses, and in which words."""

from typing import Any

import pytest
from pydantic import ValidationError

from training_core.config.marl import MarlConfig

SPREAD: dict[str, Any] = {
    "team": {"roles": {"agents": {"policy": "agents"}}},
    "policies": {"agents": {}},
    "environment": {"type": "mpe_simple_spread"},
    "algorithm": {"type": "mappo"},
}


def test_a_team_and_its_policies_are_enough() -> None:
    config = MarlConfig.model_validate(SPREAD)
    assert config.trained_policies == ("agents",)
    assert config.rollout.samples == config.rollout.environments * config.rollout.steps


def test_sampled_evaluations_may_have_a_number_of_episodes_of_their_own() -> None:
    counts = [
        MarlConfig.model_validate(SPREAD | {"evaluation": settings}).evaluation_episodes(kind)
        for settings in ({"episodes": 5}, {"episodes": 5, "sampled_episodes": 20})
        for kind in ("eval", "eval_sampled")
    ]
    assert counts == [5, 5, 5, 20]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"team": {"roles": {"wolves": {"policy": "agents"}}}},
            r"needs the roles agents, not wolves. Start from the preset spread_mappo, .* or give the team exactly \[team.roles.agents\]",
        ),
        ({"team": {"roles": {"agents": {"policy": "agents", "trained": False}}}}, "no role is trained"),
        ({"policies": {"others": {}}}, r"there is no policy 'agents'; add \[policies.agents\]"),
        (
            {"policies": {"agents": {"network": {"type": "gru", "chunk_length": 300}}}},
            "longer than rollout.steps = 100",
        ),
        (
            {"policies": {"agents": {"network": {"type": "transformer", "heads": 3}}}},
            "must divide recurrent_hidden_dim = 64",
        ),
        (
            {"environment": {"type": "mpe_simple_tag"}},
            r"needs the roles adversaries, good, not agents. Start from the preset tag_mappo, .* "
            r"\[team.roles.adversaries\] and \[team.roles.good\]",
        ),
        (
            {"environment": {"type": "mpe_simple_spread", "supersuit": {"normalise_observations": True}}},
            "normalise_observations: observations of mpe_simple_spread have no finite bounds .* Remove it",
        ),
        (
            {"environment": {"type": "mpe_simple_spread", "strict_agents": False}},
            r'strict_agents: has no effect on the native .* set environment.backend = "mpe2"',
        ),
        (
            {"environment": {"type": "mpe_simple_spread", "action_masks": False}},
            "action_masks: has no effect on the native mpe_simple_spread, where all actions are always allowed",
        ),
        (
            {"environment": {"type": "toy_simple_spread", "max_cycles": 101}, "rollout": {"fresh": True}},
            "rollout.fresh: .* nothing after step 100 of an episode's 101 .* rollout.steps to at least 101",
        ),
        (
            {"environment": {"type": "vmas", "max_cycles": 101}},
            "rollout.steps: episodes of vmas cannot be stored .* at least environment.max_cycles = 101",
        ),
        ({"environment": {"type": "vmas"}, "rollout": {"fresh": False}}, "episodes of vmas cannot be stored"),
    ],
)
def test_what_does_not_fit_together_is_said(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        MarlConfig.model_validate(SPREAD | change)
