"""Transcripts in the REST API: filters here, the list and one episode in webapp.api.views."""

from typing import Any

from django import forms
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ParseError
from rest_framework.request import Request

from webapp.api.queries import text, truth
from webapp.api.schema import parameter
from webapp.transcripts.forms import EpisodeFilters


def _kind(field: forms.Field) -> type:
    for kind, answer in (
        (forms.NullBooleanField, bool),
        (forms.IntegerField, int),
        (forms.FloatField, float),
    ):
        if type(field) is kind:
            return answer
    return str


PAGING = ("limit", "cursor", "format")
FILTERS: list[OpenApiParameter] = [
    parameter(name, _kind(field), str(field.help_text)) for name, field in EpisodeFilters.base_fields.items()
]


def filters_read(request: Request) -> dict[str, Any]:
    """Filters of the address. Raises ParseError for what is not understood."""
    unknown = set(request.query_params) - {*EpisodeFilters.base_fields, *PAGING}
    if unknown:
        raise ParseError(
            f"no filter {', '.join(sorted(unknown))}; filters are {', '.join(EpisodeFilters.base_fields)}"
        )
    given = {name: text(request, name) for name in EpisodeFilters.base_fields}
    for name, field in EpisodeFilters.base_fields.items():
        if isinstance(field, forms.NullBooleanField):
            given[name] = {True: "true", False: "false", None: ""}[truth(request, name)]
    form = EpisodeFilters(given)
    if not form.is_valid():
        told = [
            f"{name}={given[name][:40]!r}: {' '.join(map(str, said))}" for name, said in form.errors.items()
        ]
        raise ParseError("; ".join(told))
    return form.values()
