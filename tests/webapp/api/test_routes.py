"""Routes: what a function's signature makes of a request and of its response."""

from typing import Annotated, Any, Literal

import pytest
from django.test import Client
from django.urls import include, path
from drf_spectacular.generators import SchemaGenerator
from pydantic import Field
from rest_framework.request import Request

from troupe_client.documents.base import Body, Document, Page
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person
from webapp.accounts.tokens import token_create
from webapp.api.pagination import OrderedPages, paged
from webapp.api.routes import Routes, Words, lenient

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
routes = Routes()


class Toy(Document):
    """A toy."""

    owner: str
    size: float = Field(description="Centimetres.")
    tags: list[str] = []


class ToyBody(Body):
    """A toy to make."""

    size: float = Field(gt=0)


@routes.get("toys/<int:pk>/", name="toys")
def toys(
    user: Person,
    pk: int,
    limit: Annotated[int, Field(ge=1, description="At most.")] = 3,
    order: Literal["up", "down"] = "up",
    tags: Words = [],  # noqa: B006 - a default of pydantic's is copied
    broken: bool | None = None,
) -> list[Toy]:
    """Return toys."""
    size = float("nan") if broken else pk + limit
    return [Toy(owner=str(user), size=size, tags=[order, *tags])]


@routes.post("toys/<int:pk>/", status=201, admin=True, errors={409: Toy})
def toy_make(user: Person, pk: int, body: ToyBody) -> Toy:
    """Make a toy."""
    return Toy(owner=str(user), size=body.size)


class ToyFilters(Body):
    """Filters of toys."""

    colour: Literal["red", "blue"] | None = None
    since: int = Field(0, ge=0, alias="from")


@routes.get("toys/filtered/", name="toy-filters")
def toy_filters(query: ToyFilters, order: Literal["up", "down"] = "up") -> list[Toy]:
    """Return toys."""
    return [Toy(owner=query.colour or "", size=query.since, tags=[order])]


@routes.get("toys/pages/", name="toy-pages", paging=("limit", "offset"))
def toy_pages(request: Request) -> Page[Toy]:
    """Return toys in pages."""
    return paged(request, range(3), OrderedPages, lambda rows: [Toy(owner="", size=row) for row in rows])  # type: ignore[no-any-return]


urlpatterns = [path("api/v1/", include(routes.urls))]


def ask(user: User, *scopes: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {token_create(user, 't', list(scopes))[1]}"})


def test_query_parameters_are_typed_and_refused_by_name(user: User, project: Project) -> None:
    client = ask(user, "read")
    toy = client.get("/api/v1/toys/4/?limit=2&order=down&tags=a,,b&broken=").json()["results"][0]
    assert toy == {"owner": "ada", "size": 6.0, "tags": ["down", "a", "b"]}
    assert client.get("/api/v1/toys/4/?broken=yes").json()["results"][0]["size"] == "NaN"
    for wrong in ("limit=0", "limit=x", "limit=1e99", "order=left", "broken=perhaps"):
        refused = client.get(f"/api/v1/toys/4/?{wrong}")
        assert refused.status_code == 400, wrong
        assert list(refused.json()["errors"])[0].startswith(wrong.partition("=")[0])


def test_a_model_of_query_parameters_may_forbid_unknown_ones(user: User, project: Project) -> None:
    client = ask(user, "read")
    address = "/api/v1/toys/filtered/?colour=red&from=3&order=down"
    toy = client.get(f"{address}&format=json&limit=2").json()["results"][0]
    assert toy == {"owner": "red", "size": 3.0, "tags": ["down"]}
    for wrong in ("shape=round", "from=-1", "colour=green"):
        refused = client.get(f"/api/v1/toys/filtered/?{wrong}")
        assert refused.status_code == 400 and list(refused.json()["errors"]) == [wrong.partition("=")[0]]


def test_a_page_ignores_what_is_invalid() -> None:
    asked = {"colour": "green", "from": "3", "shape": "round"}
    assert lenient(ToyFilters, asked) == ToyFilters.model_validate({"from": 3})
    assert lenient(ToyFilters, {"from": ""}) == ToyFilters()


def test_a_body_is_validated_and_an_admin_route_needs_the_scope(user: User, project: Project) -> None:
    def post(client: Client, body: Any) -> Any:
        return client.post("/api/v1/toys/4/", body, content_type="application/json")

    assert post(ask(user, "read", "launch"), {"size": 1}).status_code == 403
    admin = ask(user, "read", "launch", "admin")
    assert (post(admin, {"size": 1}).status_code, post(admin, {"size": 1}).json()["size"]) == (201, 1.0)
    for body, name in (({}, "size"), ({"size": 0}, "size"), ({"size": 1, "sice": 2}, "sice"), ([], "")):
        refused = post(admin, body)
        assert refused.status_code == 400 and list(refused.json()["errors"]) == [name], body


def test_pages_link_to_each_other(user: User, project: Project) -> None:
    client = ask(user, "read")
    first = client.get("/api/v1/toys/pages/?limit=2").json()
    assert [toy["size"] for toy in first["results"]] == [0.0, 1.0] and first["previous"] is None
    last = client.get(first["next"]).json()
    assert [toy["size"] for toy in last["results"]] == [2.0] and last["next"] is None


def test_the_openapi_document_states_parameters_bodies_and_results() -> None:
    schema = SchemaGenerator(patterns=urlpatterns).get_schema(request=None, public=True)
    get, post = (schema["paths"]["/api/v1/toys/{id}/"][method] for method in ("get", "post"))
    by_name = {parameter["name"]: parameter for parameter in get["parameters"]}
    assert by_name["limit"]["schema"] | {"description": by_name["limit"]["description"]} == {
        "type": "integer", "minimum": 1, "default": 3, "description": "At most.",
    }  # fmt: skip
    assert by_name["order"]["schema"]["enum"] == ["up", "down"]
    assert by_name["tags"]["schema"]["type"] == "string"
    components = schema["components"]["schemas"]
    assert components["ToyResults"]["properties"]["results"]["items"] == {"$ref": "#/components/schemas/Toy"}
    assert components["Toy"]["required"] == ["owner", "size", "tags"]
    assert post["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/ToyBody"
    }
    assert set(post["responses"]) >= {"201", "400", "403", "409"}
    refused, taken = (
        post["responses"][status]["content"]["application/json"]["schema"]["$ref"]
        for status in ("400", "409")
    )
    assert refused.endswith("/Error") and taken.endswith("/Toy"), "a route's own document of an error stays"
    pages = schema["paths"]["/api/v1/toys/pages/"]["get"]["parameters"]
    assert {parameter["name"] for parameter in pages} == {"limit", "offset"}
