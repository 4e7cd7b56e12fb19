"""Rows of one run in the order of their index."""

from typing import Any, Self, TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


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
