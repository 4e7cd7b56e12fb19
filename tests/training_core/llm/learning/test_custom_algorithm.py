"""Algorithms of language models by import path: algorithm.type = "custom"."""

import math

import numpy as np
import pytest
import torch

from tests.training_core.llm.learning.restated import HERE, custom
from tests.training_core.llm.learning.test_algorithms import learner, off_policy_groups
from tests.training_core.llm.learning.test_kl_penalty import BETA, fresh_groups, moved, seen
from tests.training_core.llm.learning.test_training_groups import advantages, config, episode, turn
from tests.training_core.llm.toys import make_model, naive_logprobs
from training_core.algorithms.config import CustomAlgorithm
from training_core.algorithms.hooks import checked_loss, checked_numbers
from training_core.algorithms.registry import ALGORITHM_CONFIGS, make_hooks
from training_core.errors import ConfigError
from training_core.llm.learning.training_groups import is_informative, make_groups
from training_core.types import Episode

RESTATED = f"{HERE}:Restated"
DEFAULT = "training_core.algorithms.hooks:AlgorithmHooks"
SOFT_CLIP = "examples.custom.soft_clip:SoftClip"


def episodes() -> list[Episode]:
    """Groups of several sizes; one of them of equal rewards."""
    return [
        episode("a", turn("planner", 0.1, 0.7, -0.3), turn("executor", 1.0, 1.0), turn("planner", 2.0, 0.4)),
        episode("b", turn("planner", 0.3, 0.3), turn("executor", 0.25, 0.5, 0.125, 0.9)),
    ]


@pytest.mark.parametrize("path", [RESTATED, DEFAULT])
@pytest.mark.parametrize("kind", ["at_grpo", "grpo"])
def test_a_restated_algorithm_gives_the_same_advantages_and_weights(path: str, kind: str) -> None:
    ours, theirs = episodes(), episodes()
    make_groups(ours, config(algorithm={"type": kind}))
    make_groups(theirs, config(algorithm=custom(path, kind)))
    for one, other in zip(ours, theirs, strict=True):
        for here, there in zip(one.turns, other.turns, strict=True):
            assert advantages(here) == advantages(there), "bit for bit"
    groups = off_policy_groups()
    built_in = learner(ALGORITHM_CONFIGS[kind](), epochs=2, minibatches=2)
    restated = learner(CustomAlgorithm(**custom(path, kind)), epochs=2, minibatches=2)
    assert built_in.update(groups, 1, 0).metrics == restated.update(groups, 1, 0).metrics
    found = restated.weights()
    assert all(torch.equal(tensor, found[name]) for name, tensor in built_in.weights().items())


def test_a_kl_penalty_in_the_reward_reaches_the_custom_advantages() -> None:
    settings = custom(RESTATED, "grpo") | {"kl_coefficient": BETA, "kl_in": "reward"}
    built_in, restated = moved("grpo"), moved("custom", **settings)
    expected, found = (
        seen(built_in, fresh_groups(built_in.model)),
        seen(restated, fresh_groups(restated.model)),
    )
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_custom_code_gets_no_turn_without_rewards() -> None:
    unscored = turn("planner", 5.0, 6.0)
    for candidate in unscored.candidates:
        candidate.scored = False
    played = episode("a", unscored, turn("planner", 1.0, 2.0))
    (group,) = make_groups([played], config(algorithm=custom(f"{HERE}:Scaled"))).groups["planner"]
    assert group.turn == 1


def test_reshaped_rewards_decide_which_groups_are_informative() -> None:
    tree = custom(f"{HERE}:Restated", bonus=1e12)  # larger rewards: differences are rounding
    played = [episode("a", turn("planner", 0.0, 1.0))]
    assert is_informative(played, config(algorithm=custom(RESTATED)))
    assert not is_informative(played, config(algorithm=tree))


def test_baselines_continue_from_batch_to_batch() -> None:
    told = config(algorithm=custom(RESTATED))
    first = make_groups(episodes(), told)
    assert make_groups(episodes(), told, first.baselines).baselines == {"batches": 4.0}, "two policies"


@pytest.mark.parametrize("method", ["turn_rewards", "group_rewards", "advantages", "policy_loss"])
def test_a_wrong_shape_is_reported_with_the_method_and_the_shape(method: str) -> None:
    tree = custom(f"{HERE}:WrongShapes", method=method)
    with pytest.raises(ConfigError, match=rf"algorithm.path: WrongShapes.{method} returned .*; return one"):
        make_groups(episodes(), config(algorithm=tree))
        learner(CustomAlgorithm(**tree)).update(off_policy_groups(), 1, 0)


@pytest.mark.parametrize(
    ("result", "returned"),
    [
        ([1.0], "an array of shape (1,)"),
        ([[1.0, 2.0]], "an array of shape (1, 2)"),
        ({"a": 1.0}, "dict: float() argument must be"),
    ],
)
def test_a_result_that_is_no_array_of_that_length_is_described(result: object, returned: str) -> None:
    hooks = make_hooks(CustomAlgorithm(**custom(DEFAULT)))
    assert checked_numbers([1, 2], 2, hooks, "advantages").dtype == np.float64
    with pytest.raises(ConfigError) as caught:
        checked_numbers(result, 2, hooks, "advantages")
    text = str(caught.value)
    assert f"AlgorithmHooks.advantages returned {returned}" in text
    assert text.endswith("return one number for each entry, shape (2,)")


@pytest.mark.parametrize(
    "result", [torch.zeros(2), (torch.zeros(2),), (torch.zeros(2), None), (torch.zeros(2), [False, False])]
)
def test_a_policy_loss_is_a_pair_of_tensors(result: object) -> None:
    hooks = make_hooks(CustomAlgorithm(**custom(DEFAULT)))
    with pytest.raises(ConfigError, match="AlgorithmHooks.policy_loss returned values of shape"):
        checked_loss(result, 2, hooks)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("examples.custom.relay:Relay", "is not a subclass of AlgorithmHooks"),
        (f"{HERE}:Nobody", "has no 'Nobody'"),
        (f"{HERE}:Unmakeable", "cannot be constructed with the algorithm's config .*KeyError: 'rate'"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_reported_at_its_field(path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_hooks(CustomAlgorithm(path=path))
    assert set(caught.value.fields) == {"algorithm.path"}


def test_the_example_is_the_loss_of_its_paper() -> None:
    groups = off_policy_groups()
    algorithm = CustomAlgorithm(path=SOFT_CLIP, args={"tau_negative": 2.0})
    total, tokens, model = 0.0, 0, make_model()
    for group in groups:
        for answer, advantage in zip(group.answers, group.advantages, strict=True):
            tau = 1.0 if advantage > 0 else 2.0
            for new, old in zip(
                naive_logprobs(model, group.prompt_ids, answer.token_ids), answer.logprobs, strict=True
            ):
                gate = 1 / (1 + math.exp(-tau * (math.exp(new - old) - 1)))
                total -= 4 / tau * gate * advantage
                tokens += 1
    assert learner(algorithm).update(groups, 1, 0).metrics["loss"] == pytest.approx(total / tokens, abs=2e-5)
