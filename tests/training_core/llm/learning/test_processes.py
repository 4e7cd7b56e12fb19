"""Several processes that update one policy: what each takes, and that together they do what one does."""

import pytest
import torch

from tests.training_core.llm.learning.test_learner import groups
from tests.training_core.llm.learning.together import ALGORITHM, Errand, updated
from training_core.algorithms.config import Ppo, ReinforcePlusPlus, Rloo
from training_core.algorithms.registry import Algorithm
from training_core.llm.learning.learner_config import Learner
from training_core.llm.learning.packing import group_tokens, own_share


def test_shares_are_dealt_by_tokens() -> None:
    """12, 7 and 11 tokens by hand: the largest to the first, the others to the second."""
    data = groups()
    assert [group_tokens(group) for group in data] == [12, 7, 11]
    assert [own_share([0, 1, 2], data, rank, 2) for rank in (0, 1)] == [[0], [1, 2]]
    assert [own_share([2, 0], data, rank, 4) for rank in range(4)] == [[0], [2], [], []]
    assert own_share([2, 0], data, 0, 1) == [2, 0]


def test_every_group_is_one_process_s() -> None:
    data = groups() * 7
    order = list(range(len(data)))
    shares = [own_share(order, data, rank, 3) for rank in range(3)]
    assert sorted(index for share in shares for index in share) == order
    loads = [sum(group_tokens(data[index]) for index in share) for share in shares]
    assert max(loads) - min(loads) <= max(map(group_tokens, data))


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(ALGORITHM, marks=pytest.mark.extended),
        pytest.param(Ppo(kl_coefficient=0.1), marks=pytest.mark.extended),
        pytest.param(Rloo(kl_coefficient=0.3), marks=pytest.mark.extended),
        ReinforcePlusPlus(kl_coefficient=0.3, discount=0.9),
    ],
    ids=lambda algorithm: algorithm.type,
)
def test_processes_together_do_what_one_does(algorithm: Algorithm) -> None:
    """Three groups in two minibatches: of one of these, one process has no share. PPO whitens, and REINFORCE++ normalises, over
    the tokens of all; RLOO compares answers of a group with their KL, whichever process has computed it.
    """
    settings = Learner(minibatches=2, epochs=2, schedule="constant")
    (alone,), several = (updated(Errand(settings, size=size, algorithm=algorithm)) for size in (1, 2))
    for one in several:
        assert torch.equal(one.weights, several[0].weights), "the same in all processes, to the last bit"
        torch.testing.assert_close(one.weights, alone.weights, atol=2e-5, rtol=1e-4)
        for mine, expected in zip(one.metrics, alone.metrics, strict=True):
            assert mine.keys() == expected.keys()
            same = mine | {"computed_tokens": expected["computed_tokens"]}  # other rows, other padding
            assert same == pytest.approx(expected, abs=1e-4, rel=1e-3, nan_ok=True)
    keys = [set(one.annotations) for one in several]
    assert set.union(*keys) == set(alone.annotations)
