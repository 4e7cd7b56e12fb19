"""Calls of every operation of the REST API that are generated from its OpenAPI document: no failure, nothing undocumented."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from django.db import transaction
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, given, settings
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.webapp.site.world import World

CHECKS: list[Any] = [content_type_conformance, response_schema_conformance, status_code_conformance]
EXAMPLES = 12
"""Calls of an operation."""
SCHEMA: Any = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True))
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def answer(client: Client, case: Any) -> Response:
    """Send a call in this process; what it changes is undone."""
    sent = requests.Request(**_request(case)).prepare()
    kind = sent.headers.pop("Content-Type", "application/json")
    sent.headers["Accept-Encoding"] = "identity"
    with transaction.atomic():
        found = client.generic(
            str(sent.method),
            str(sent.path_url),
            sent.body or b"",
            content_type=kind,
            headers=dict(sent.headers),
        )
        content = b"".join(found) if found.streaming else found.content  # type: ignore[call-overload]
        transaction.set_rollback(True)
    headers = {name: [value] for name, value in found.items()}
    return Response(found.status_code, headers, content, sent, 0.0, verify=True)


def _request(case: Any) -> dict[str, Any]:
    known = ("method", "url", "headers", "params", "json", "data", "files", "cookies")
    given = case.as_transport_kwargs(base_url="http://testserver")
    return {name: value for name, value in given.items() if name in known}


def check(client: Client, case: Any, world: World) -> None:
    """Send a call for the things of the world, where its address names one."""
    for name in set(case.path_parameters or {}) & set(world.things):
        case.path_parameters[name] = str(world.things[name])
    found = answer(client, case)
    assert found.status_code < 500, case.as_curl_command()
    case.validate_response(found, checks=CHECKS)


@pytest.mark.extended
def test_operations_answer_as_documented(worlds: tuple[World, World], subtests: pytest.Subtests) -> None:
    client = Client(headers={"Authorization": f"Bearer {worlds[0].token}"}, raise_request_exception=False)
    usual = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
    patient = settings(usual, suppress_health_check=list(HealthCheck))
    for operation in OPERATIONS:
        calls = given(case=operation.as_strategy())(lambda case: check(client, case, worlds[0]))
        with subtests.test(str(operation.label)):
            patient(calls)()
