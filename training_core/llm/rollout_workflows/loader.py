"""An endless loader of data in batches, which restarts at the end of the data with a new shuffle."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from training_core.seeding import keyed_seed


class RestartingLoader:
    """Iterates over batches of rows without end. Remaining rows of an epoch that do not fill a batch start the next one."""

    def __init__(self, rows: Sequence[Any], batch_size: int, *, seed: int = 0, shuffle: bool = True) -> None:
        if not rows:
            raise ValueError("there are no rows to load")
        self.batch_size = batch_size
        self._rows = rows
        self._seed = seed
        self._shuffle = shuffle
        self._position = 0
        """Rows returned so far."""
        self._permutation: list[int] = []
        self._epoch_of_order = -1

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        batch = [self._row(self._position + offset) for offset in range(self.batch_size)]
        self._position += self.batch_size
        return batch

    @property
    def epoch(self) -> int:
        """Number of completed passes over all rows."""
        return self._position // len(self._rows)

    def state_dict(self) -> dict[str, int]:
        """The position of the loader."""
        return {"given": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume from a `state_dict`."""
        self._position = state["given"]

    def _row(self, number: int) -> Any:
        epoch, offset = divmod(number, len(self._rows))
        return self._rows[self._permutation_of(epoch)[offset]]

    def _permutation_of(self, epoch: int) -> list[int]:
        if epoch != self._epoch_of_order:
            self._permutation = list(range(len(self._rows)))
            if self._shuffle:
                Random(keyed_seed(self._seed, epoch)).shuffle(self._permutation)
            self._epoch_of_order = epoch
        return self._permutation
