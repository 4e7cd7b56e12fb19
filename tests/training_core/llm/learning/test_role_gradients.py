"""Gradients by role: against updates in which the other role has no advantage, and against the update without measurement."""

from dataclasses import replace

import pytest
import torch

from tests.training_core.llm.learning.test_learner import groups, learner
from training_core.algorithms.config import AtGrpo
from training_core.types import Group

NO_KL = AtGrpo(kl_coefficient=0.0)
ROLES = ("planner", "executor", "planner")


def of_roles(*silent: str, factor: float = 1.0) -> list[Group]:
    """Three groups of two roles. Roles in `silent` have no advantage; the executor's advantage is multiplied."""
    factors = {"executor": factor} | dict.fromkeys(silent, 0.0)
    return [
        replace(group, role=role, advantages=[item * factors.get(role, 1.0) for item in group.advantages])
        for group, role in zip(groups(), ROLES, strict=True)
    ]


def test_each_roles_gradient_is_that_of_its_own_advantages() -> None:
    measured = learner(NO_KL, role_gradients=1).update(of_roles(), 1, 0).metrics
    norms = {
        role: learner(NO_KL).update(of_roles(other), 1, 0).metrics["grad_norm"]
        for role, other in (("planner", "executor"), ("executor", "planner"))
    }
    assert {role: measured[f"{role}/role_grad_norm"] for role in norms} == pytest.approx(norms, rel=1e-4)
    product = measured["executor/planner/grad_cosine"] * norms["planner"] * norms["executor"]
    square = measured["grad_norm"] ** 2
    shares = {role: (norm**2 + product) / square for role, norm in norms.items()}
    assert {role: measured[f"{role}/grad_share"] for role in norms} == pytest.approx(shares, rel=1e-3)
    assert sum(shares.values()) == pytest.approx(1.0, rel=1e-3)
    assert measured["executor/token_share"] == pytest.approx(5 / 19)


def test_the_measurement_changes_no_weight() -> None:
    plain, measured = learner(NO_KL, minibatches=2), learner(NO_KL, minibatches=2, role_gradients=1)
    for one in (plain, measured):
        one.update(of_roles(), 1, 0)
    for name, weight in plain.weights().items():
        torch.testing.assert_close(measured.weights()[name], weight, atol=1e-5, rtol=0)


def test_a_role_that_is_paid_ten_times_has_nearly_all_of_the_gradient() -> None:
    assert (
        learner(NO_KL, role_gradients=1).update(of_roles(factor=100.0), 1, 0).metrics["executor/grad_share"]
        > 0.95
    )
    assert "executor/grad_share" not in learner(NO_KL, role_gradients=2).update(of_roles(), 1, 0).metrics
