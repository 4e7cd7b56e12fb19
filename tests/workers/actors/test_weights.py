"""Weights on their way: packed as arrays, and broadcast in a process group."""

import pickle
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from tests.gpu.models import TINY, make_model
from training_core.llm.models.lora import load_trained_weights, trained_weights
from workers.actors.weights import Layout, WeightGroup, layout_of, open_store, pack, unpack
from workers.protocol import TransferFailure

CPU = torch.device("cpu")


def connected(size: int) -> list[WeightGroup]:
    """The members of a new group in this process; the first one sends."""
    store = open_store("127.0.0.1")
    with ThreadPoolExecutor(size) as threads:
        sender = threads.submit(WeightGroup, store, 0, size, CPU)
        others = [
            threads.submit(WeightGroup.join, ("127.0.0.1", store.port), rank, size, CPU)
            for rank in range(1, size)
        ]
        return [member.result() for member in (sender, *others)]


def broadcast(
    members: list[WeightGroup], weights: Mapping[str, Tensor], version: int, layout: Layout
) -> list[tuple[int, dict[str, Tensor]]]:
    """What each receiver gets."""
    with ThreadPoolExecutor(len(members)) as threads:
        received = [threads.submit(member.receive, layout) for member in members[1:]]
        members[0].send(weights, version)
        return [future.result() for future in received]


@pytest.mark.parametrize("bucket", [1, 100, 2**20])
def test_weights_are_received_bit_for_bit(bucket: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.actors.weights.BUCKET_BYTES", bucket)
    embedding = torch.randn(5, 3)
    weights = {
        "embedding": embedding,
        "half": torch.randn(7).to(torch.bfloat16),
        "strided": torch.randn(4, 6).t(),
        "number": torch.tensor(3, dtype=torch.int64),
        "head": embedding,
        "special": torch.tensor([float("nan"), -0.0, float("inf")]),
    }
    members = connected(3)
    for version in (4, 5):
        for number, received in broadcast(members, weights, version, layout_of(weights)):
            assert number == version and received.keys() == weights.keys()
            assert received["head"] is received["embedding"]
            for name, tensor in weights.items():
                assert received[name].dtype == tensor.dtype and received[name].shape == tensor.shape
                one, other = (
                    item.reshape(-1).view(torch.uint8) for item in (received[name], tensor.contiguous())
                )
                assert torch.equal(one, other), name
    for member in members:
        member.close()


def test_weights_of_another_layout_are_refused() -> None:
    members = connected(2)
    other = layout_of({"w": torch.zeros(2, dtype=torch.bfloat16)})
    with ThreadPoolExecutor(1) as threads:
        received = threads.submit(members[1].receive, other)
        with pytest.raises(TransferFailure, match="could not be broadcast"):
            for version in range(100):  # the first parts may be on their way before the receiver leaves
                members[0].send({"w": torch.zeros(2)}, version)
        with pytest.raises(TransferFailure, match="other names, types or shapes"):
            received.result()


def test_a_member_that_leaves_ends_the_broadcast() -> None:
    members = connected(3)
    weights = {"w": torch.zeros(2)}
    broadcast(members, weights, 1, layout_of(weights))
    members[0].close()
    for member in members[1:]:
        with pytest.raises(TransferFailure, match="could not be broadcast"):
            member.receive(layout_of(weights))
    with pytest.raises(TransferFailure, match="is closed"):
        members[0].send(weights, 2)


def test_weights_are_unpacked_bit_for_bit() -> None:
    weights = {
        "full": torch.randn(3, 5),
        "half": torch.randn(4, 2).to(torch.bfloat16),
        "strided": torch.randn(4, 6).t(),
    }
    packed = pickle.loads(pickle.dumps(pack(weights, 7)))
    assert packed.version == 7
    assert packed.arrays["half"].itemsize == 2
    back = unpack(packed)
    assert {name: item.dtype for name, item in back.items()} == {
        name: item.dtype for name, item in weights.items()
    }
    assert all(torch.equal(back[name], weights[name]) for name in weights)


def test_unpacked_weights_share_the_memory_of_the_arrays() -> None:
    packed = pack({"full": torch.ones(2), "half": torch.ones(3, dtype=torch.bfloat16)}, 0)
    for array in packed.arrays.values():
        array.setflags(write=False)  # as the object store's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = unpack(packed)
    assert {name: item.data_ptr() for name, item in back.items()} == {
        name: array.ctypes.data for name, array in packed.arrays.items()
    }


def test_tied_weights_are_transferred_once() -> None:
    embedding, part = torch.randn(4, 2), torch.randn(3)
    weights = {"embedding": embedding, "part": part, "head": embedding, "empty": torch.zeros(0)}
    packed = pickle.loads(pickle.dumps(pack({**weights, "slice": embedding[:2]}, 1)))
    assert packed.arrays.keys() == {"embedding", "part", "slice", "empty"}
    back = unpack(packed)
    assert back["head"] is back["embedding"]
    assert all(torch.equal(back[name], item) for name, item in weights.items())


def test_a_model_gets_a_copy_of_the_weights() -> None:
    trained, served = (make_model("qwen2", TINY, torch.device("cpu"), seed=seed) for seed in (0, 1))
    load_trained_weights(served, unpack(pack(trained_weights(trained), 1)))
    before = {name: tensor.clone() for name, tensor in trained_weights(trained).items()}
    with torch.no_grad():
        for weight in trained.parameters():
            weight.add_(1.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in trained_weights(served).items())
