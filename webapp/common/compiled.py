"""Querysets whose SQL is compiled once, for the queries that a server repeats for each batch of events and each update of a page.

Django compiles a queryset at every evaluation. For a row by its key that takes several times as long as Postgres needs.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


class CompiledQuery(Generic[Row]):
    """Calls return the rows of `make(*parameters)`, whose SQL contains each parameter once and in their order.

    `filter` sorts the names of its arguments: several parameters need one `filter` each. Annotations and deferred fields are
    those of the queryset; its related objects are not loaded.
    """

    def __init__(self, make: Callable[..., QuerySet[Row]]) -> None:
        self._make = make
        self._compiled: tuple[type[Row], str] | None = None

    def __call__(self, *parameters: str | int) -> list[Row]:
        """Raises ValueError at the first call if the SQL has other parameters, or another order of them."""
        model, sql = compiled = self._compiled or self._compile(parameters)
        if len(set(parameters)) == len(parameters):  # the order of equal parameters cannot be checked
            self._compiled = compiled
        return list(model._default_manager.raw(sql, parameters))

    def first(self, *parameters: str | int) -> Row | None:
        """Return the first row, or None."""
        rows = self(*parameters)
        return rows[0] if rows else None

    def _compile(self, parameters: tuple[str | int, ...]) -> tuple[type[Row], str]:
        queryset = self._make(*parameters)
        sql, used = queryset.query.sql_with_params()
        if used != parameters:
            raise ValueError(
                f"a compiled query of {parameters} has the parameters {used}; use one filter() for each parameter, in "
                "their order"
            )
        return queryset.model, sql
