"""Axes of sweeps: text to values, values to combinations."""

import pytest

from training_core.config.sweeps import combinations, count, expand_path, parse_axes, parse_values
from training_core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-4,3e-4", [1e-4, 3e-4]),
        ("best, sampled", ["best", "sampled"]),
        ("true,false", [True, False]),
        ("[0.9, 0.99], [0.8, 0.95]", [[0.9, 0.99], [0.8, 0.95]]),
        ("0..3", [0, 1, 2, 3]),
        ("7, 10..12", [7, 10, 11, 12]),
        ("/models/a,meta/b", ["/models/a", "meta/b"]),
        ('"a, b", c', ["a, b", "c"]),
    ],
)
def test_values(text: str, values: list[object]) -> None:
    assert parse_values(text) == values


@pytest.mark.parametrize("words", [["a.b"], ["=1"], ["a.b="], ["a.b=1", "a.b=2"], ["a.b=0..5000"]])
def test_what_is_no_axis_is_refused_at_its_field(words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_axes(words)
    assert set(refused.value.fields) <= {"a.b", ""}


def test_combinations() -> None:
    axes = {"run.seed": [0, 1], "a": [1, 2], "b": [3, 4]}
    grid = list(combinations(axes))
    assert len(grid) == count(axes) == 8
    assert grid[:3] == [
        {"a": 1, "b": 3, "run.seed": 0},
        {"a": 1, "b": 3, "run.seed": 1},
        {"a": 1, "b": 4, "run.seed": 0},
    ]
    together = list(combinations(axes, "list"))
    assert [(point["a"], point["b"]) for point in together] == [(1, 3), (1, 3), (2, 4), (2, 4)]
    assert len(together) == count(axes, "list") == 4
    assert list(combinations({"run.seed": [5]}, "list")) == [{"run.seed": 5}]
    with pytest.raises(ConfigError):
        list(combinations({"a": [1, 2], "b": [3]}, "list"))


def test_stars_stand_for_every_name() -> None:
    tree = {"policies": {"x": {"rate": 1}, "y": {"rate": 2}}}
    assert expand_path("policies.*.rate", tree) == ["policies.x.rate", "policies.y.rate"]
    assert expand_path("policies.x.rate", tree) == ["policies.x.rate"]
    assert expand_path("roles.*.rate", tree) == []
