"""Querysets whose SQL is compiled once, for the queries that a server repeats for each batch of events and each update of a page.

Django compiles a queryset at every evaluation. For a row by its key that takes several times as long as Postgres needs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class _Plan(Generic[Row]):
    """The SQL of a queryset, and how its rows become instances: positions of the model's fields and of annotations, converters by
    position.
    """

    model: type[Row]
    sql: str
    fields: Sequence[str]
    start: int
    annotations: Mapping[str, int]
    converters: Mapping[int, tuple[Sequence[Callable[..., Any]], Any]]

    def instance(self, row: Sequence[Any]) -> Row:
        columns = list(row)
        for position, (converters, expression) in self.converters.items():
            for convert in converters:
                columns[position] = convert(columns[position], expression, connection)
        instance = self.model.from_db(
            connection.alias, self.fields, columns[self.start : self.start + len(self.fields)]
        )
        for name, position in self.annotations.items():
            setattr(instance, name, columns[position])
        return instance


class CompiledQuery(Generic[Row]):
    """Calls return the rows of `make(*parameters)`, whose SQL contains each parameter once and in their order.

    `filter` sorts the names of its arguments: several parameters need one `filter` each. Annotations and deferred fields are
    those of the queryset; its related objects are not loaded.
    """

    def __init__(self, make: Callable[..., QuerySet[Row]]) -> None:
        self._make = make
        self._plan: _Plan[Row] | None = None

    def __call__(self, *parameters: str | int) -> list[Row]:
        """Raises ValueError at the first call if the SQL has other parameters, or another order of them."""
        plan = self._plan or self._compile(parameters)
        if len(set(parameters)) == len(parameters):  # the order of equal parameters cannot be checked
            self._plan = plan
        with connection.cursor() as cursor:
            cursor.execute(plan.sql, parameters)
            return [plan.instance(row) for row in cursor.fetchall()]

    def first(self, *parameters: str | int) -> Row | None:
        """Return the first row, or None."""
        rows = self(*parameters)
        return rows[0] if rows else None

    def _compile(self, parameters: tuple[str | int, ...]) -> _Plan[Row]:
        queryset = self._make(*parameters)
        compiler = queryset.query.get_compiler(connection=connection)
        sql, used = compiler.as_sql()
        if tuple(used) != parameters:
            raise ValueError(
                f"a compiled query of {parameters} has the parameters {used}; use one filter() for each parameter, in "
                "their order"
            )
        columns = [column for column, _, _ in compiler.select]
        of_model = compiler.klass_info["select_fields"]
        start, end = of_model[0], of_model[-1] + 1
        return _Plan(
            queryset.model,
            sql,
            [column.target.attname for column in columns[start:end]],
            start,
            compiler.annotation_col_map,
            compiler.get_converters(columns),
        )
