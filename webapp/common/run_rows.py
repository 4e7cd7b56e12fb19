"""Rows of one run in the order of their index."""

from typing import Any, Self, TypeVar

from django.db import models
from django.db.models.sql.datastructures import BaseTable

Row = TypeVar("Row", bound=models.Model)


class _Newest(BaseTable):
    """Some rows of a table under its name in the FROM clause: conditions apply to them alone."""

    def __init__(self, table_name: str, alias: str, rows: "models.QuerySet[Any] | None" = None) -> None:
        super().__init__(table_name, alias)
        self.rows = rows

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        assert self.rows is not None
        sql, parameters = self.rows.query.get_compiler(connection=connection).as_sql()
        return f"({sql}) {compiler.quote_name_unless_alias(self.table_alias)}", parameters

    def relabeled_clone(self, change_map: dict[str | None, str]) -> "_Newest":
        return _Newest(self.table_name, change_map.get(self.table_alias) or str(self.table_alias), self.rows)


class RunRows(models.QuerySet[Row]):
    """Rows with a column `run` and an index on (run, -id).

    PostgreSQL treats `run = X ORDER BY id` as an order of the whole table, and may read the rows of all later runs first. A condition
    on several ids, of which one does not exist, with an order by run and id leaves only the indexes of the run.
    """

    _of_run = False
    _ascending = False

    def of_run(self, run: models.Model | str, ascending: bool = False) -> Self:
        """Return the rows of a run; then `order_by("-pk")` and `order_by("pk")` read them through the run's index.

        ascending: further conditions fit an index on (run, ..., id), whose ids ascend.
        """
        rows = self.filter(run_id__in=[run if isinstance(run, str) else run.pk, ""])
        rows._of_run, rows._ascending = True, ascending
        return rows

    def newest(self, most: int, before: int | None = None, after: int | None = None) -> Self:
        """Limit these rows, which are `of_run` without other conditions, to the newest `most` with ids between `after` and `before`.

        Conditions are checked for these rows alone, from the newest on, and only until a limited result is complete: a
        condition on ids would let the planner read the rows of all later runs, or a whole index of words, first.
        """
        rows = self.order_by("-pk").defer(None)
        if before is not None:
            rows = rows.filter(pk__lt=before)
        if after is not None:
            rows = rows.filter(pk__gt=after)
        limited = self.__class__(self.model, using=self.db)
        name = limited.query.get_initial_alias()
        limited.query.alias_map[name] = _Newest(self.model._meta.db_table, name, rows[:most])
        limited._of_run, limited._ascending = True, self._ascending
        return limited

    def order_by(self, *names: Any) -> Self:
        """Sort; by the primary key alone, through the run's index."""
        if self._of_run and names in (("-pk",), ("-id",)):
            names = ("-run_id" if self._ascending else "run_id", "-pk")
        elif self._of_run and names in (("pk",), ("id",)):
            names = ("run_id" if self._ascending else "-run_id", "pk")
        return super().order_by(*names)

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]  # not in the stubs
        clone._of_run, clone._ascending = self._of_run, self._ascending
        return clone
