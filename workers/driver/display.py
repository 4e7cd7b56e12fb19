"""Output for a person at a terminal: a progress bar, or plain lines in a job's log."""

import sys
from collections.abc import Mapping
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from workers.driver.lines import figures_text
from workers.driver.run_events import Display


class Shown(Display, Protocol):
    """A display that is opened and closed as a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class Bar:
    """A rich progress bar: iteration, success, return, time left. The lines of the run's log scroll above it.

    `shaped`: the return includes shaped rewards.
    """

    def __init__(self, iterations: int, shaped: bool = False, console: Console | None = None) -> None:
        self._shaped = shaped
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task("starting", total=iterations, figures="")
        self._loading: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def loading(self, done: float, text: str) -> None:
        """Show a separate bar, removed when the model is complete."""
        if self._loading is None:
            self._loading = self._progress.add_task("base model", total=100, figures="")
        self._progress.update(self._loading, completed=int(100 * done), figures=text)
        if done >= 1.0:
            self._progress.remove_task(self._loading)
            self._loading = None

    def iteration(self, number: int, values: Mapping[str, float]) -> None:
        self._progress.update(
            self._task,
            completed=number,
            description="training",
            figures=figures_text("train", values, self._shaped),
        )


class Lines:
    """The lines of the run's log on standard output, for the log of a job."""

    def __init__(self) -> None:
        self._stream = sys.stdout
        """The stream itself: what is written to a reported one would be a second line of the run's log."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def note(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def loading(self, done: float, text: str) -> None:
        self.note(f"base model, {done:.0%}: {text}")

    def iteration(self, number: int, values: Mapping[str, float]) -> None:
        """Its line in the run's log is printed as a note."""
