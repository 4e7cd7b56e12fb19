"""No input makes a page or an operation of the API fail: every address, every parameter it reads, hostile values."""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote_plus
from zlib import crc32

import pytest
from django.db import transaction
from django.http import QueryDict
from django.test import Client
from django.utils.datastructures import MultiValueDict
from drf_spectacular.generators import SchemaGenerator

from tests.webapp.site.routes import Route, routes
from tests.webapp.site.world import World
from webapp.accounts.models import User
from webapp.api.parsers import StrictJSONParser

WORDS = [
    b"\0", b"a\0b", b"\xed\xa0\x80", b"\xff\xfe", "\U0001d4b3".encode() * 90, b"-1", b"0", b"9" * 31, b"-" + b"9" * 31, b"1e400",
    b"NaN", b"inf", b"1.5", b"0x10", "\uff11".encode(), "\u0661".encode(), b"x" * 9000, b"'\"><script>", b"';--", b"%",
    b"../../etc/passwd", b"word", b"//evil.example", b"true", b"[]", b"[[]]", b"{}", b"null", b"\r\nX-Injected: y",
    b'"; filename="evil.html', b"0001-01-01", b"9999-12-31T23:59:59+14:00", b"10000-01-01", b"-999999999d", b"18446744073709551616",
    b"9223372036854775807", b"2147483648", b" ", b"", b"\x1b[31m", "\u202e".encode(), b"(" * 900, b"not " * 400 + b"a", b"a in [",
    b"a.b=1e308", b"created>-999999999999d", b"created>-1e300w", b"name~\\", b"run.seed>99999999999999999999", b"=" * 2000, b"a=b\nc=d",
    b"run.seed=1\nrun.seed=2", b"1,2,,3", b",", b"a:b", b"/:max",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 0.5, 1e308, 2**31, 2**63, -(2**63), "", " ", "word", "x" * 9000, "\0", "\ud800", "9" * 40, "NaN", "../x",
    "'\"><b>", "\r\nX: y", [], [None], [[]], {}, {"": None}, {"a.b": {}}, [1, "a", {}], {"run.seed": []}, "=1+1", "0001-01-01",
    [{"a": "x" * 500}], ["x" * 300] * 30,
]  # fmt: skip
BODIES = [b"", b"{", b"[]", b"null", b"1", b'"x"', b"[" * 900, b'{"a":"\\ud800"}', b"\xff", b'{"a": NaN}']
AT_ONCE = {"pages": 1, "api": 2, "admin": 1}
"""Values of each parameter in a usual run, which differ from name to name; a soak test tries more."""
SLOWLY = {"pages": 3, "api": 4, "admin": 2}
NAMES_OF_THE_FORM = {"f:run.seed", "f:algorithm.type", "f:team.roles.planner.policy"}
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
SCHEMA = SchemaGenerator().get_schema(request=None, public=True)


@contextmanager
def names_read() -> Iterator[set[str]]:
    """The names that views look for in queries, forms and JSON bodies meanwhile."""
    found: set[str] = set()

    def noting(method: Any) -> Any:
        def read(self: Any, key: Any, *rest: Any, **named: Any) -> Any:
            if isinstance(self, QueryDict | _Body) and isinstance(key, str):
                found.add(key)
            return method(self, key, *rest, **named)

        return read

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultiValueDict, "__getitem__", noting(MultiValueDict.__getitem__))
        patch.setattr(MultiValueDict, "_getlist", noting(MultiValueDict._getlist))  # type: ignore[attr-defined]
        patch.setattr(QueryDict, "__contains__", noting(dict.__contains__), raising=False)
        for name in ("get", "__getitem__", "__contains__", "pop"):
            patch.setattr(_Body, name, noting(getattr(dict, name)), raising=False)
        parse = StrictJSONParser.parse
        patch.setattr(StrictJSONParser, "parse", lambda *given, **named: _body(parse(*given, **named)))
        yield found
    found -= {"csrfmiddlewaretoken"}


class _Body(dict[str, Any]):
    """A JSON object whose reading is noted."""


def _body(data: Any) -> Any:
    return _Body(data) if isinstance(data, dict) else data


def good(world: World) -> dict[str, str]:
    """Values under which views read on."""
    things = world.things
    return {
        "project": str(things["slug"]), "run": str(things["run"]), "runs": f"{things['run']},{things['second_run']}",
        "preset": "plan_path_duo", "keys": "eval/success", "key": "eval/success", "metric": "eval/success",
        "checkpoint": str(things["checkpoint"]), "other": str(things["other_episode"]), "kind": "eval", "name": "a name",
        "username": "mine_owner", "password": "x", "level": "viewer", "title": "a title", "text": "a text", "act": "tag",
        "template_name": "t", "view": str(things["view"]), "group": "family", "by": "family",
    }  # fmt: skip


def client_of(world: World, route: Route) -> Client:
    client = Client(raise_request_exception=True)
    if route.api:
        client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {world.token}"
    elif route.pattern.startswith("admin/"):
        person = User.objects.create_superuser(f"root{User.objects.count()}", password="x")
        client.force_login(person)
    elif not route.name.startswith("accounts:log"):
        client.force_login(world.owner)
    return client


def refuses(client: Client, method: str, path: str, **given: Any) -> None:
    """The request is answered, whatever the answer is, by a status below 500 and headers that can be sent."""
    __tracebackhide__ = True
    what = f"{method} {path[:300]} {str(given)[:300]}"
    with transaction.atomic():
        try:
            answer: Any = client.generic(method, path, **given)
            if answer.streaming:
                b"".join(answer)
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
        finally:
            transaction.set_rollback(True)
    assert answer.status_code < 500 or answer.status_code == 503, f"{what}: {answer.status_code}"
    for name, value in answer.items():
        assert not CONTROL.search(f"{name}{value}"), f"{what}: {name}: {value!r} cannot be sent"
        assert value.count("filename=") <= 1, f"{what}: {name}: {value!r}"


def form(fields: Mapping[str, str | bytes]) -> str:
    return "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in fields.items())


def chosen(values: list[Any], name: str, count: int) -> list[Any]:
    """`count` of the values; which ones follows from the name."""
    start = crc32(name.encode())
    return [values[(start + 7 * step) % len(values)] for step in range(count)]


def fuzz_fields(route: Route, world: World, method: str, count: int) -> None:
    """Hostile values of each name in the query (GET) or in the form (POST)."""
    client, usual, known = client_of(world, route), good(world), {"next", *documented(route, method)}
    for path in route.paths(world.things):
        for _ in range(
            1 if route.pattern.startswith("admin/") else 2
        ):  # what is read may depend on what is said
            with names_read() as names:
                send(client, method, path, {name: usual[name] for name in known if name in usual})
            if names <= known:
                break
            known |= {name for name in names if len(name) < 60}
        if "f:" in "".join(known) or "preset" in known:
            known |= NAMES_OF_THE_FORM
        for name in sorted(known):
            for word in chosen(WORDS, f"{route.pattern}{name}", count):
                send(
                    client, method, path, {each: usual[each] for each in known if each in usual} | {name: word},
                )  # fmt: skip


def send(client: Client, method: str, path: str, fields: Mapping[str, str | bytes]) -> None:
    if method == "GET":
        refuses(client, "GET", path, QUERY_STRING=form(fields))
    else:
        refuses(client, "POST", path, data=form(fields), content_type="application/x-www-form-urlencoded")


def operation(route: Route, method: str) -> dict[str, Any]:
    """What the API's schema tells of an operation."""
    path = "/" + re.sub(
        r"<(\w+:)?(\w+)>", lambda found: "{" + found[2].replace("pk", "id") + "}", route.pattern
    )
    return SCHEMA["paths"].get(path, {}).get(method.lower(), {})  # type: ignore[no-any-return]


def documented(route: Route, method: str) -> set[str]:
    """Names of query parameters that the API's schema tells."""
    told = operation(route, method).get("parameters", [])
    return {each["name"] for each in told if each["in"] == "query"}


def body_names(route: Route, method: str) -> set[str]:
    told = operation(route, method).get("requestBody", {}).get("content", {})
    schema = told.get("application/json", {}).get("schema")
    if schema is None:
        return set()
    return set(SCHEMA["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]["properties"])


def fuzz_body(route: Route, world: World, method: str, count: int) -> None:
    """Hostile values of each field of a JSON body, and bodies that are none."""
    client, usual = client_of(world, route), good(world) | {"runs": [world.things["run"]]}

    def post(path: str, data: bytes) -> None:
        refuses(client, method, path, data=data, content_type="application/json")

    for path in route.paths(world.things):
        for body in BODIES:
            post(path, body)
        names = body_names(route, method)
        if not names:
            continue
        with names_read() as read:
            post(path, json.dumps({name: usual[name] for name in names if name in usual}).encode())
        names |= {name for name in read if len(name) < 60}
        for name in sorted(names):
            for value in chosen(VALUES, f"{route.pattern}{name}", count):
                fields = {each: usual[each] for each in names if each in usual} | {name: value}
                post(path, json.dumps(fields).encode())


def fuzz(route: Route, world: World, count: int) -> None:
    for method in route.methods:
        if method == "POST" and route.pattern.startswith("admin/"):
            continue  # it changes next to nothing, and its forms are Django's
        if method == "GET" or not route.api:
            fuzz_fields(route, world, method, count)
        else:
            fuzz_body(route, world, method, count)


PARTS = {
    "pages": [route for route in routes() if not route.api],
    "api": [route for route in routes() if route.api],
    "admin": routes(admin=True),
}


def failures(part: str, world: World, count: int) -> list[str]:
    found = []
    for route in PARTS[part]:
        try:
            fuzz(route, world, count)
        except AssertionError as error:
            found.append(str(error)[:600])
    return found


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of refusals are expected, and writing them down takes longer than answering."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.extended
@pytest.mark.parametrize("part", PARTS)
def test_no_value_of_a_parameter_makes_an_address_fail(part: str, worlds: tuple[World, World]) -> None:
    found = failures(part, worlds[0], AT_ONCE[part])
    assert not found, "\n".join(found)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", PARTS)
def test_none_of_many_values_makes_an_address_fail(part: str, worlds: tuple[World, World]) -> None:
    found = failures(part, worlds[0], SLOWLY[part])
    assert not found, "\n".join(found)
