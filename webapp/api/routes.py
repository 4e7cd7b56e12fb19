"""Routes of the REST API: one function per operation.

    routes = Routes()

    @routes.get("artifacts/<int:pk>/versions/<str:version>/", name="artifact-version")
    def version(user: Person, pk: int, version: str, files: Annotated[bool, Field(description="With files.")] = True) -> ArtifactVersion:

The parameters of a function are the parts of a request: `user`, `request`, `body` (a pydantic model), the variables of the path, and query
parameters (all others; `query` is a pydantic model of further ones, which may forbid unknown parameters). The annotated result is the
response: a document, a list of documents ({"results": [...]}), a page of a list (`paged` in webapp.api.pagination), or a response of
Django. Validation, errors and OpenAPI follow from the signature and the docstring.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from django.http import HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.urls.resolvers import RoutePattern
from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, BeforeValidator, ValidationError, WithJsonSchema, create_model
from rest_framework.parsers import BaseParser, FormParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.views import APIView

from training_core.config.errors import error_messages
from training_core.errors import ConfigError
from troupe_client.documents.base import Count, Page, Results

Model = TypeVar("Model", bound=BaseModel)
Function = TypeVar("Function", bound=Callable[..., Any])
Words = Annotated[
    list[str],
    BeforeValidator(
        lambda text: [word for word in text.split(",") if word] if isinstance(text, str) else text
    ),
    WithJsonSchema({"type": "string"}),
]
"""A query parameter with several values, separated by commas."""
MODEL = "#/components/schemas/{model}"
"""Address of the schema of a model in the OpenAPI document."""
RESERVED = frozenset({"limit", "cursor", "offset", "format"})
"""Query parameters of paging and of the framework."""
PAGING = {
    "limit": OpenApiParameter("limit", int, description="Maximum number of results."),
    "cursor": OpenApiParameter("cursor", str, description="Part of `next` and `previous`."),
    "offset": OpenApiParameter("offset", int, description="Number of results before the first."),
}


def parsed(model: type[Model], data: Any) -> Model:
    """Return the validated data. Raises ConfigError with a message for each field."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(error_messages(error, model)) from error


def lenient(model: type[Model], data: Mapping[str, Any]) -> Model:
    """Return the validated data of a page's URL, without unknown, empty and invalid values."""
    names = {info.alias or name for name, info in model.model_fields.items()}
    values = {name: text for name, text in data.items() if name in names and text}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong = {item["loc"][0] for item in error.errors()}
        return model.model_validate({name: text for name, text in values.items() if name not in wrong})


@dataclass(frozen=True)
class Operation:
    """A method of a path."""

    method: str
    function: Callable[..., Any]
    variables: frozenset[str]
    """Names in the path."""
    name: str = ""
    """Of the URL."""
    status: int = 200
    admin: bool = False
    """Whether a token needs the scope admin; every DELETE needs it."""
    media_type: str = ""
    """Of a response that is not a document."""
    parser: type[BaseParser] | None = None
    """For a body that is not JSON."""
    forms: bool = False
    """Whether the body may be a form, too."""
    errors: Mapping[int, type[BaseModel]] = field(default_factory=dict)
    """Status -> document of an error that has more fields than `detail` and `errors`."""
    operation_id: str | None = None
    paging: tuple[str, ...] = ("limit", "cursor")
    """Query parameters that select the part of a list, if the response is a page."""

    @cached_property
    def types(self) -> dict[str, Any]:
        """Return the annotations of the parameters and of the result."""
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def query(self) -> type[BaseModel]:
        """Return the model of the query parameters."""
        fields: dict[str, Any] = {
            name: (Count if self.types[name] is int else self.types[name], parameter.default)
            for name, parameter in signature(self.function).parameters.items()
            if name not in self.variables | {"user", "request", "body", "query"}
        }
        return create_model(f"{self.function.__name__}_query", __base__=self.types.get("query"), **fields)

    @cached_property
    def result(self) -> type[BaseModel] | None:
        """Return the model of the response; None for a response of Django."""
        kind = self.types["return"]
        if get_origin(kind) is list:
            kind = Results.__class_getitem__(get_args(kind)[0])
        return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None

    def respond(self, request: Request, variables: Mapping[str, Any]) -> HttpResponseBase:
        """Call the function. Raises ConfigError for an invalid body or query, and the errors of the function."""
        ignored = RESERVED - self.query.model_fields.keys()
        texts = {name: text for name, text in request.query_params.items() if text and name not in ignored}
        query = parsed(self.query, texts)
        arguments: dict[str, Any] = {"user": request.user, "request": request, **variables}
        if "body" in self.types:
            arguments["body"] = parsed(self.types["body"], _plain(request.data))
        arguments |= {name: getattr(query, name) for name in self.query.model_fields} | {"query": query}
        result: Any = self.function(**{name: arguments[name] for name in signature(self.function).parameters})
        if self.result is None:
            return cast(HttpResponseBase, result)
        if isinstance(result, list):
            result = {"results": result}
        document = result if isinstance(result, BaseModel) else self.result.model_validate(result)
        return HttpResponse(document.model_dump_json(), status=self.status, content_type="application/json")

    def view(self) -> Callable[..., HttpResponseBase]:
        """Return the method of the view, with its part of the OpenAPI document."""

        def method(_: APIView, request: Request, **variables: Any) -> HttpResponseBase:
            return self.respond(request, variables)

        method.__doc__ = self.function.__doc__
        binary = {(self.status, self.media_type): OpenApiTypes.BINARY}
        binary_body = self.parser and {self.parser.media_type: OpenApiTypes.BINARY}
        return extend_schema(
            operation_id=self.operation_id,
            parameters=list(self._parameters()),
            request=binary_body or self.types.get("body"),
            responses=(binary if self.result is None else {self.status: self.result}) | dict(self.errors),
        )(method)

    def _parameters(self) -> Iterator[OpenApiParameter]:
        for name, schema in self.query.model_json_schema().get("properties", {}).items():
            facts = {key: value for key, value in schema.items() if key not in ("title", "description")}
            if isinstance(facts.get("default"), list):
                facts["default"] = ",".join(facts["default"])
            yield OpenApiParameter(name, facts, description=schema.get("description", ""))
        if self.result is not None and issubclass(self.result, Page):
            yield from (PAGING[name] for name in self.paging)


class DocumentSchema(PydanticExtension):
    """Schemas of models in OpenAPI. drf-spectacular stores a model that contains itself as a reference to itself."""

    priority = 1

    def map_serializer(self, auto_schema: Any, direction: str) -> Any:
        schema = super().map_serializer(auto_schema, direction)  # type: ignore[no-untyped-call]
        if "$ref" not in schema:
            return schema
        schemas = self.target.model_json_schema(ref_template=MODEL, mode="serialization")["$defs"]
        return schemas[self.target.__name__]


class Routes:
    """The operations of an app by their paths."""

    def __init__(self) -> None:
        self._paths: dict[str, list[Operation]] = {}

    def get(self, pattern: str, **options: Any) -> Callable[[Function], Function]:
        """Decorate a function that reads; `options` are fields of Operation."""
        return self._add("get", pattern, options)

    def post(self, pattern: str, **options: Any) -> Callable[[Function], Function]:
        """Decorate a function that creates or acts."""
        return self._add("post", pattern, options)

    def put(self, pattern: str, **options: Any) -> Callable[[Function], Function]:
        """Decorate a function that stores."""
        return self._add("put", pattern, options)

    def patch(self, pattern: str, **options: Any) -> Callable[[Function], Function]:
        """Decorate a function that changes some fields."""
        return self._add("patch", pattern, options)

    def delete(self, pattern: str, **options: Any) -> Callable[[Function], Function]:
        """Decorate a function that deletes."""
        return self._add("delete", pattern, options)

    def _add(self, method: str, pattern: str, options: dict[str, Any]) -> Callable[[Function], Function]:
        variables = frozenset(RoutePattern(pattern).converters)

        def decorate(function: Function) -> Function:
            self._paths.setdefault(pattern, []).append(Operation(method, function, variables, **options))
            return function

        return decorate

    @property
    def urls(self) -> list[URLPattern]:
        """Return the patterns for a URLconf."""
        return [
            path(pattern, _view(operations), name=operations[0].name)
            for pattern, operations in self._paths.items()
        ]


def _plain(data: Any) -> Any:
    return data.dict() if isinstance(data, QueryDict) else data


def _view(operations: list[Operation]) -> Callable[..., HttpResponseBase]:
    parsers = [operation.parser for operation in operations if operation.parser]
    if any(operation.forms for operation in operations):
        parsers += [FormParser, MultiPartParser]
    methods: dict[str, Any] = {operation.method: operation.view() for operation in operations}
    methods["admin_methods"] = {operation.method.upper() for operation in operations if operation.admin}
    methods["parser_classes"] = (*APIView.parser_classes, *parsers)
    view: Any = type(operations[0].function.__name__, (APIView,), methods)
    return cast(Callable[..., HttpResponseBase], view.as_view())
