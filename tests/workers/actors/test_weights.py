"""Weights survive the way through arrays bit by bit."""

import pickle

import torch

from workers.actors.weights import pack, unpack


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


def test_unpacked_weights_are_writable() -> None:
    packed = pack({"w": torch.zeros(2)}, 0)
    packed.arrays["w"].setflags(write=False)
    unpack(packed)["w"].add_(1.0)
    assert packed.arrays["w"].tolist() == [0.0, 0.0]
