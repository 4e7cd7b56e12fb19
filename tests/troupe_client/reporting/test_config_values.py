"""Configs of programs: any value becomes JSON; numbers stay numbers; nothing is refused, and no two keys merge."""

import argparse
import collections
import datetime
import json
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from pydantic import BaseModel

from training_core.errors import TroupeError
from troupe_client.reporting.config_values import config_json


class Colour(Enum):
    RED = "red"
    BOTH = (1, 2)


class Level(IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    first: int
    second: Any


class Settings(BaseModel):
    rate: float = 0.5


@dataclass
class Inner:
    path: Path = Path("/data")
    shape: tuple[int, ...] = (2, 3)


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)
    level: Level = Level.HIGH


class Broken:
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.int64(3), 3),
        (np.float32(1e-4), 1e-4),
        (np.bool_(True), True),
        (np.float64("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (-float("inf"), "-Infinity"),
        (Decimal("0.25"), 0.25),
        (2**70, str(2**70)),
        (1 + 2j, "(1+2j)"),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.zeros((2000, 2)), "ndarray of shape (2000, 2)"),
        (torch.tensor(1.5), 1.5),
        (torch.float16, "torch.float16"),
        (torch.device("cpu"), "cpu"),
        (torch.empty(2, device="meta").shape, [2]),
        ({1, 2}, [1, 2]),
        ((1, (2, "x")), [1, [2, "x"]]),
        (collections.deque([1]), [1]),
        (range(3), "range(0, 3)"),
        (b"ab", "b'ab'"),
        (Colour.RED, "red"),
        (Colour.BOTH, "BOTH"),
        (Level.HIGH, 3),
        (Path("/a/b"), "/a/b"),
        (datetime.date(2026, 1, 31), "2026-01-31"),
        (Outer(), {"inner": {"path": "/data", "shape": [2, 3]}, "level": 3}),
        (Pair(1, None), {"first": 1, "second": None}),
        (Settings(), {"rate": 0.5}),
        (argparse.Namespace(lr=np.float32(0.25)), {"lr": 0.25}),
        (torch.nn.ReLU, "torch.nn.modules.activation.ReLU"),
        (json.dumps, "json.dumps"),
        (object(), "<object object>"),
        (Broken(), "Broken"),
        ("a\0\ud800", "a\ufffd?"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_value_has_a_json_form(value: Any, stored: Any) -> None:
    config = config_json({"value": value})
    assert config == {"value": stored} and json.loads(json.dumps(config, allow_nan=False)) == config


def test_keys_become_text_and_no_two_merge() -> None:
    given = {(0, 1): 1, 1: 2, "1": 3, None: 4, Colour.RED: 5, "red": 6}
    stored = config_json(given)
    assert stored == {"(0, 1)": 1, "1": 2, "'1'": 3, "None": 4, "red": 5, "'red'": 6}
    assert list(stored.values()) == list(given.values())


def test_a_config_that_contains_itself_ends() -> None:
    config: dict[str, Any] = {"a": [1]}
    config["self"] = config
    config["a"].append(config["a"])
    assert config_json(config) == {"a": [1, "..."], "self": "..."}


def test_a_config_may_be_a_dataclass_or_a_namespace() -> None:
    assert config_json(Inner()) == {"path": "/data", "shape": [2, 3]}
    assert config_json(argparse.Namespace(a=1)) == {"a": 1} and config_json(None) == {}
    with pytest.raises(TroupeError, match="not list: pass a dict"):
        config_json([1])
