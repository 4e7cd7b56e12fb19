"""The number of completed steps, for programs that count from 0 and for those that count from 1."""

LARGEST = 2**31 - 1


class Progress:
    """Counts completed steps. `total`: number of steps of the run, 0 if unknown.

    `completed` and `next_step` are those of a resumed run: they are equal if its steps count from 0.
    """

    def __init__(self, total: int = 0, completed: int = 0, next_step: int = 0) -> None:
        self.completed = completed
        self._total = total
        self._first = None if next_step == 0 else int(completed < next_step)
        self._last = -1
        self._logged = False

    def note(self, step: int, *, committed: bool) -> int:
        """Return the number of completed steps after values of `step`; a step is complete when it is committed.

        Late values of an earlier step do not reduce it. Values before the first of N steps, such as an evaluation at step 0, do
        not make it N + 1.
        """
        if self._first is None:
            self._first = int(step > 0)
        done = step - self._first + committed
        if self._total and step == self._total:
            done = min(done, self._total)
        before = self.completed if self._logged else 0
        self.completed = min(max(done, before, 0), LARGEST)
        self._last = max(step, self._last)
        self._logged = True
        return self.completed

    def end(self) -> int:
        """Return the number of completed steps of a program that ends as planned.

        A program that logs every tenth step counts from 0 if its last step of N is N - 1.
        """
        if self._total and self._last == self._total - 1:
            self.completed = self._total
        return self.completed
