"""The config of small-network agents: what it refuses, and in which words."""

from typing import Any

import pytest
from pydantic import ValidationError

from training_core.config.marl.run import MarlConfig

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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"team": {"roles": {"wolves": {"policy": "agents"}}}}, "is played by agents, not by wolves"),
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
    ],
)
def test_what_does_not_fit_together_is_said(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        MarlConfig.model_validate(SPREAD | change)
