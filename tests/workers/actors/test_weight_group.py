"""Weights that are broadcast between members of a gloo group arrive bit by bit."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from workers.actors.weights import Layout, WeightGroup, layout_of, open_store
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
