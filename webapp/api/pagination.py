"""Pages of lists whose order the caller chose; those in the order of arrival have cursors (webapp.api.views)."""

from typing import Any

from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from webapp.api.queries import number


class OrderedPages(BasePagination):
    """`limit` rows from `offset` on, and the addresses of the pages before and after; rows are not counted."""

    default, most = 50, 500

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """A page. Raises ParseError."""
        self.address = request.build_absolute_uri()
        self.limit = min(number(request, "limit", self.default, 1), self.most)
        self.offset = number(request, "offset", 0)
        rows = list(queryset[self.offset : self.offset + self.limit + 1])
        self.more = len(rows) > self.limit
        return rows[: self.limit]

    def get_paginated_response(self, data: Any) -> Response:
        """The same words as pages by cursor have."""
        after = replace_query_param(self.address, "offset", self.offset + self.limit) if self.more else None
        before = max(0, self.offset - self.limit)
        previous = replace_query_param(self.address, "offset", before) if before else None
        if self.offset and not before:
            previous = remove_query_param(self.address, "offset")
        return Response({"next": after, "previous": previous, "results": data})
