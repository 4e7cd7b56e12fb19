"""Limits of events and configs: each bound holds, and no field has a longer text than its column."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import annotated_types
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import training_core.config
from workers.telemetry import events
from workers.telemetry.limits import MAX_DATA, MAX_KEYS, MAX_METRICS

EVENT: TypeAdapter[Any] = TypeAdapter(events.AnyEvent)
HEAD = {"run": "r", "attempt": 1, "producer": "p", "seq": 1, "time": 1.0}
LOWER, UPPER = (annotated_types.Ge, annotated_types.Gt), (annotated_types.Le, annotated_types.Lt)
ONCE = (LOWER, UPPER, (annotated_types.MinLen,), (annotated_types.MaxLen,), (annotated_types.MultipleOf,))


def models(base: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        if model.__module__.startswith(("workers.", "training_core.")):
            yield model
        yield from models(model)


def test_no_field_has_two_bounds_of_one_kind() -> None:
    """pydantic keeps both and the last one holds, so that the narrower one may be lost."""
    for found in pkgutil.walk_packages(training_core.config.__path__, "training_core.config."):
        importlib.import_module(found.name)
    seen = set(models())
    assert len(seen) > 60 and events.CheckpointEvent in seen
    twice = [
        f"{model.__module__}.{model.__name__}.{name}: {info.metadata}"
        for model in seen
        for name, info in model.model_fields.items()
        for kinds in ONCE
        if sum(isinstance(each, kinds) for each in info.metadata) > 1
    ]
    assert twice == []


@pytest.mark.parametrize("field", ["seq", "attempt"])
@pytest.mark.parametrize("value", [0, -1, -5, -(2**63), True, "1", 1.0])
def test_numbers_of_events_are_integers_from_one(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        EVENT.validate_python({**HEAD, "type": "heartbeat", "iteration": 1, field: value})


def test_a_size_is_not_negative() -> None:
    event = {**HEAD, "type": "checkpoint", "iteration": 1, "path": "a"}
    assert EVENT.validate_python({**event, "bytes": 0}).bytes == 0
    with pytest.raises(ValidationError, match="bytes"):
        EVENT.validate_python({**event, "bytes": -1})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"type": "metrics", "step": 1, "values": {f"m{n}": 1 for n in range(MAX_METRICS + 1)}}, "1001 names"),
        ({"type": "status", "state": "running", "iteration": 1, "facts": {"a": "x" * MAX_DATA}}, "bytes as JSON"),
        ({"type": "status", "state": "running", "iteration": 1, "facts": {"a": [[]] * MAX_DATA}}, "bytes as JSON"),
        ({"type": "heartbeat", "iteration": 1, **{f"k{n}": 1 for n in range(MAX_KEYS)}}, "fields"),
        ({"type": "log", "level": "info", "source": "s", "message": "x" * 20_001}, "20000 characters"),
        ({"type": "phase", "worker": "w", "phase": "update", "policy": "p" * 41, "iteration": 1, "start": 1, "end": 2}, "policy"),
    ],
)  # fmt: skip
def test_too_large_events_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EVENT.validate_python({**HEAD, **fields})


def test_events_at_the_limit_are_accepted() -> None:
    values = {f"m{n}": 1.0 for n in range(MAX_METRICS)}
    assert len(EVENT.validate_python({**HEAD, "type": "metrics", "step": 1, "values": values}).values) == 1000
    facts = {"a": "x" * (MAX_DATA - len('{"a":""}'))}
    status = {**HEAD, "type": "status", "state": "running", "iteration": 1, "facts": facts}
    assert EVENT.validate_python(status).facts == facts


@pytest.mark.parametrize("wrong", [[], {"episode": 1}, {f"k{n}": 1 for n in range(1000)}])
def test_many_wrong_items_make_few_messages(wrong: Any) -> None:
    for event in (
        {"type": "batch", "iteration": 1, "consumed": 1, "learnt": 1, "episodes": [wrong] * 10_000},
        {"type": "episode_annotation", "episode": "e", "turns": [wrong] * 10_000},
    ):
        with pytest.raises(ValidationError) as refused:
            EVENT.validate_python({**HEAD, **event})
        assert refused.value.error_count() < 20
