"""Terminal output of `up`: plain lines, with colours and a spinner on a TTY."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status


class Terminal:
    """Prints which children start, are ready (with the duration), or died.

    After its output (a pipe or a terminal) is closed, it prints nothing, so that `up` continues and ends its children in order.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._began = time.monotonic()
        self._waiting: dict[str, float] = {}
        self._status: Status | None = None
        self._lock = threading.Lock()

    def starting(self, name: str) -> None:
        """Report a started child; the spinner shows its name until it is ready."""
        with self._lock:
            self._waiting[name] = time.monotonic()
            self._refresh()

    def ready(self, name: str, note: str = "") -> None:
        """It answers."""
        with self._lock:
            took = time.monotonic() - self._waiting.pop(name, time.monotonic())
            self._refresh()
        self._print(f"  [green]ready[/]  {name:<14} {took:5.1f} s  [dim]{escape(note)}[/]".rstrip())

    def trouble(self, name: str, what: str) -> None:
        """Report that a child died or does not start."""
        with self._lock:
            self._waiting.pop(name, None)
            self._refresh()
        self._print(f"  [yellow]again[/]  {name:<14} {escape(what)}")

    def say(self, text: str, **style: Any) -> None:
        """Print a separate line, without markup."""
        self._print(escape(text), **style)

    def error(self, text: str) -> None:
        """Print the error that stopped the stack."""
        self._print(f"[red]error[/]  {escape(text)}")

    def since_start(self) -> float:
        """Seconds since the start of `up`."""
        return time.monotonic() - self._began

    def close(self) -> None:
        """Remove the spinner."""
        with self._lock:
            self._waiting.clear()
            self._refresh()

    def _print(self, markup: str, **style: Any) -> None:
        with self._unless_closed():
            self.console.print(markup, **style)

    @contextmanager
    def _unless_closed(self) -> Iterator[None]:
        """Stop printing when the output is closed. Rich raises SystemExit for a closed pipe."""
        try:
            yield
        except (OSError, SystemExit):
            self.console.quiet = True

    def _refresh(self) -> None:
        if self.console.is_terminal and not self.console.quiet:
            with self._unless_closed():
                self._spin()

    def _spin(self) -> None:
        if self._waiting and self._status is None:
            self._status = self.console.status("")
            self._status.start()
        if self._status is None:
            return
        if self._waiting:
            self._status.update(f"starting {', '.join(self._waiting)}")
        else:
            self._status.stop()
            self._status = None
