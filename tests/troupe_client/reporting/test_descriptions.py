"""Descriptions of runs: what is too long is shortened, nothing is refused."""

import json
from typing import Any

import pytest

from troupe_client.documents.descriptions import (
    CUT,
    MAX_CONFIG,
    MAX_LEVELS,
    MAX_NAME,
    MAX_NOTES,
    MAX_TAGS,
    MAX_WORD,
    config_shortened,
    shortened,
)
from troupe_client.documents.launches import ClientRunBody
from troupe_client.reporting.client import whole_step
from troupe_client.reporting.config_values import config_json


def nested(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for _ in range(levels):
        tree = {"deeper": tree}
    return tree


def levels_of(value: Any) -> int:
    return 1 + max((levels_of(item) for item in value.values()), default=0) if isinstance(value, dict) else 0


def test_everything_that_is_too_long_is_shortened_and_named() -> None:
    request = {
        "id": "abcdefgh23", "name": "n" * 300, "notes": "\0\ud800" + "x" * 5000, "group": "g" * 99, "algorithm": "a" * 99,
        "tags": ["t" * 99, *map(str, range(30))], "team": {str(number): "p" for number in range(80)},
        "headline": list(map(str, range(20))), "provenance": {"command": ["\udcff.py"]},
        "config": config_json(nested(400) | {"clip": float("inf"), "text": "\ud800"}),
    }  # fmt: skip
    body, cut = shortened(request)
    ClientRunBody.model_validate(body)  # as the server does it
    assert body["name"] == "n" * MAX_NAME and len(body["notes"]) == MAX_NOTES
    assert body["notes"].startswith("\ufffd?x") and body["group"] == "g" * MAX_WORD
    assert body["tags"] == ["t" * MAX_WORD, *map(str, range(MAX_TAGS - 1))]
    assert levels_of(body["config"]) <= MAX_LEVELS and body["config"]["clip"] == "Infinity"
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode("utf-8")
    words = [part.split()[0] for part in cut]
    assert words == ["name", "notes", "group", "algorithm", "1", "tags", "team", "headline", "config"]
    assert shortened({"name": "short", "config": {"lr": 0.1}}) == (
        {"name": "short", "config": {"lr": 0.1}, "tags": [], "team": {}, "headline": [], "provenance": {}},
        [],
    )


def test_the_largest_parts_of_a_config_are_cut() -> None:
    config = {"lr": 0.1, "model": {"layers": 2, "words": ["word"] * 200_000}, "notes": "x" * MAX_CONFIG}
    stored, cut = config_shortened(config)
    assert len(json.dumps(stored)) <= MAX_CONFIG and len(cut) == 1
    assert (stored["lr"], stored["model"]["layers"]) == (0.1, 2)
    assert stored["model"]["words"].startswith(f"{CUT} list of") and stored["notes"].startswith(
        f"{CUT} str of"
    )
    many, _ = config_shortened({f"field{number}": number for number in range(100_000)})
    assert 0.2 * MAX_CONFIG < len(json.dumps(many)) <= MAX_CONFIG * 1.01 and CUT in many


@pytest.mark.parametrize("step", [2**70, float("nan"), float("inf"), "word", None])
def test_a_step_that_is_not_a_number_of_64_bits_is_named(step: Any) -> None:
    with pytest.raises(ValueError, match="is not a whole number below 2\\^63"):
        whole_step(step)
    assert whole_step(3.0) == 3
