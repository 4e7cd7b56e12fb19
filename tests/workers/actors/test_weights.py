"""Weights survive the way through arrays bit by bit."""

import pickle
import warnings

import torch

from tests.gpu.models import TINY, make_model
from training_core.llm.models.lora import load_trained_weights, trained_weights
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
