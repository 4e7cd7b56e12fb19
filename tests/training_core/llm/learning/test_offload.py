"""Optimiser states that are in host memory between updates: the same numbers, and no memory on the device."""

import pytest
import torch
from torch import Tensor

from tests.training_core.llm.learning.test_learner import flat, groups
from tests.training_core.llm.learning.test_precision import learner
from training_core.config.files import load_config
from training_core.errors import ConfigError
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.optimiser import HostCopies
from training_core.llm.models.adapter_config import Lora


def states(one: Learner) -> list[Tensor]:
    """Moments and fp32 copies; the weights themselves do not count."""
    moments = [item for part in one.optimizer.state.values() for key, item in part.items() if key != "step"]
    own = {id(weight) for weight in one.optimiser.weights}
    return moments + [master for master in one.optimiser.masters if id(master) not in own]


def held(one: Learner) -> int:
    """Bytes of their memory on the device of the model."""
    return sum(tensor.untyped_storage().nbytes() for tensor in states(one))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("adapter", [None, Lora(rank=2)])
def test_the_same_numbers_with_the_states_on_the_host(precision: str, adapter: Lora | None) -> None:
    plain, resting = (learner(precision, adapter, minibatches=2) for _ in range(2))
    resting.offloads = True
    for iteration in (1, 2, 3):
        expected, result = (one.update(groups(), iteration, 0) for one in (plain, resting))
        assert result.metrics == expected.metrics
        assert held(resting) == 0 < held(plain)
        saved, wanted = resting.state_dict().optimiser, plain.state_dict().optimiser
        assert saved.keys() == wanted.keys()
        assert all(torch.equal(saved[name], wanted[name]) for name in wanted)
    assert torch.equal(flat(resting), flat(plain))


def test_a_checkpoint_is_loaded_while_the_states_are_on_the_host() -> None:
    plain, resting = (learner("bf16") for _ in range(2))
    resting.offloads = True
    for one in (plain, resting):
        one.update(groups(), 1, 0)
    resting.update(groups(), 2, 0)
    resting.load_state_dict(plain.state_dict())
    assert held(resting) == 0
    assert resting.update(groups(), 2, 0).metrics == plain.update(groups(), 2, 0).metrics
    assert held(resting) == 0 and torch.equal(flat(resting), flat(plain))


def test_host_memory_is_allocated_once() -> None:
    tensor, copies = torch.arange(6.0).view(2, 3), HostCopies()
    addresses = set()
    for _ in range(3):
        copies.take([tensor])
        assert tensor.untyped_storage().nbytes() == 0 and copies.contents(tensor).sum() == 15.0
        addresses.add(copies.contents(tensor).data_ptr())
        copies.take([tensor])  # it has been taken
        copies.give_back()
        assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and copies.contents(tensor) is tensor
    assert len(addresses) == 1


def test_only_where_the_config_says_so() -> None:
    assert not learner().offloads and not learner(offload="on").offloads  # a CPU has no other memory
    with pytest.raises(ConfigError, match="offload") as caught:
        load_config("plan_path_duo", {"policies.planner.learner": {"type": "deepspeed", "offload": "on"}})
    assert "torch" in str(caught.value)
