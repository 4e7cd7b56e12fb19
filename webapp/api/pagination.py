"""Pagination of lists: by cursor in the order of arrival, by offset in any other order."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import ParseError
from rest_framework.pagination import BasePagination, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from webapp.common.searches import search_limited


def number(request: Request, name: str, default: int, least: int = 0) -> int:
    """Return an integer of at least `least`. Raises ParseError."""
    value = request.query_params.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdecimal()) or len(value) > 18 or int(value) < least:
        raise ParseError(f"{name}={value[:40]!r}: give an integer of at least {least}")
    return int(value)


PAGING = {"limit", "offset", "cursor"}
WRONG_CURSOR = "the cursor is invalid: use the value of `next` or `previous`"


class OrderedPages(BasePagination):
    """`limit` rows from `offset` on, and the URLs of the previous and next pages; rows are not counted."""

    default, most = 50, 500

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """Return a page. Raises ParseError."""
        self.address = request.build_absolute_uri()
        self.limit = min(number(request, "limit", self.default, 1), self.most)
        self.offset = number(request, "offset", 0)
        rows = list(queryset[self.offset : self.offset + self.limit + 1])
        self.more = len(rows) > self.limit
        return rows[: self.limit]

    def get_paginated_response(self, data: Any) -> Response:
        """Return the same keys as cursor pagination."""
        after = replace_query_param(self.address, "offset", self.offset + self.limit) if self.more else None
        before = max(0, self.offset - self.limit)
        previous = replace_query_param(self.address, "offset", before) if before else None
        if self.offset and not before:
            previous = remove_query_param(self.address, "offset")
        return Response({"next": after, "previous": previous, "results": data})


class NewestFirst(CursorPagination):
    """Cursor pagination: stable while new rows arrive."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 500

    def get_page_size(self, request: Request) -> int:
        """Return `limit`, at most max_page_size. Raises ParseError for an invalid number."""
        return min(number(request, "limit", self.page_size, 1), self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        """Return a page. Raises ParseError for an invalid cursor."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, TypeError, ValidationError) as error:
            raise ParseError(WRONG_CURSOR) from error


def paged(
    request: Request,
    rows: Any,
    pages: type[BasePagination],
    documents: Callable[[list[Any]], list[Any]],
) -> Any:
    """Return the page of a queryset that the request asks for, as the fields of a Page of documents. Raises ParseError."""
    paginator = pages()
    with search_limited() if set(request.query_params) - PAGING else nullcontext():
        page: list[Any] | None = paginator.paginate_queryset(rows, request)
    return paginator.get_paginated_response(documents(page or [])).data
