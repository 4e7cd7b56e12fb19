"""Names that other programs rely on change on purpose only: addresses, config fields, commands, events."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from tests.golden.surfaces import FOLDER, SURFACES, text_of
from workers.telemetry.events import AnyEvent

WIRE = Path(__file__).with_name("events.jsonl").read_text().splitlines()
EVENT: TypeAdapter[Any] = TypeAdapter(AnyEvent)


@pytest.mark.slow
@pytest.mark.parametrize("name", SURFACES)
def test_a_surface_is_as_it_was_recorded(name: str) -> None:
    recorded = (FOLDER / f"{name}.json").read_text()
    assert text_of(name) == recorded, (
        "record it again if a name is meant to change: python -m tests.golden.surfaces"
    )


@pytest.mark.parametrize("line", WIRE, ids=lambda line: str(json.loads(line)["type"]))
def test_an_event_of_then_is_read_and_written_as_it_was(line: str) -> None:
    event = json.loads(line)
    assert EVENT.dump_python(EVENT.validate_python(event), mode="json", exclude_unset=True) == event


def test_every_kind_of_event_has_a_sample() -> None:
    kinds = {kind.model_fields["type"].annotation for kind in get_args(get_args(AnyEvent)[0])}
    assert {get_args(kind)[0] for kind in kinds} == {json.loads(line)["type"] for line in WIRE}
