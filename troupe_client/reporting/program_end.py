"""How the program ends: without an error, by an exception, by sys.exit, or by a signal.

At the end Python no longer knows the argument of `sys.exit`, and SIGTERM ends it at once. So `sys.exit` and the signals by which
people and schedulers end programs are observed. They keep their effects: exit status, messages, and handlers of the program.
"""

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from opcode import opname
from types import FrameType
from typing import Any, NoReturn

ENDING = ("SIGTERM", "SIGHUP", "SIGXCPU")
SECONDS = 2.0
"""Seconds that a signal waits for the report of the end."""


class ProgramEnd:
    """Calls `finish` when the process ends, with the reason; it is empty for an end without an error."""

    def __init__(self, finish: Callable[[str], Any]) -> None:
        self._finish = finish
        self._exit: SystemExit | None = None
        self._outermost: FrameType | None = None
        """The frame that `_exit` has left if nothing has caught it."""

    def watch(self) -> None:
        """Install the hooks in this process."""
        sys.exit = self._exiting
        if parent_process() is None:
            atexit.register(lambda: self._finish(self._reason()))
        else:  # children of multiprocessing run no functions of atexit
            child = _ChildEnd()
            Finalize(None, lambda: self._finish(child.reason(self._exit)), exitpriority=0)
        if threading.current_thread() is threading.main_thread():
            self._watch_signals()

    def forget_exit(self) -> None:
        """Forget a sys.exit that the program has caught."""
        self._exit = self._outermost = None

    def _watch_signals(self) -> None:
        numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
        ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
        for number in ours:
            signal.signal(number, self._signalled)
        if hasattr(os, "register_at_fork"):  # forked children, such as those that load data, end at once
            os.register_at_fork(after_in_child=lambda: _restore(ours, self._signalled))

    def _reason(self) -> str:
        if not hasattr(sys, "ps1") and _is_uncaught(error := getattr(sys, "last_value", None)):
            return _described(error)
        caught = self._outermost is None or _has_returned(self._outermost)
        return "" if caught else _described(self._exit)

    def _exiting(self, status: Any = None, /) -> NoReturn:
        error = SystemExit() if status is None else SystemExit(status)
        if threading.current_thread() is threading.main_thread():
            self._exit, self._outermost = error, sys._getframe()
            while self._outermost.f_back is not None:
                self._outermost = self._outermost.f_back
        raise error

    def _signalled(self, number: int, _: FrameType | None) -> None:
        """Report the signal, then end by it, as the parent process expects.

        Another thread reports: this one may hold a lock of the reporter.
        """
        reason = f"ended by {signal.Signals(number).name}"
        thread = threading.Thread(target=self._finish, args=(reason,), daemon=True)
        thread.start()
        thread.join(SECONDS)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


class _ChildEnd:
    """How a child of multiprocessing ends. Before Python 3.13 it is finalised while its error is handled, later afterwards."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        frame: FrameType | None = sys._getframe()
        while frame is not None and not _is_bootstrap(frame):
            frame = frame.f_back
        self._bootstrap = frame
        """The call of multiprocessing that runs the child's function and sets its exit code."""
        self._print = traceback.print_exc
        traceback.print_exc = self._printing

    def reason(self, exited: SystemExit | None) -> str:
        """The reason of the end; `exited` is the last sys.exit."""
        if error := sys.exc_info()[1] or self._error:
            return _described(error)
        code = self._bootstrap.f_locals.get("exitcode") if self._bootstrap else None
        return _described(exited or SystemExit(code)) if code else ""

    def _printing(self, *args: Any, **options: Any) -> None:
        if _is_bootstrap(sys._getframe(1)):
            self._error = sys.exc_info()[1]
        self._print(*args, **options)


def _is_bootstrap(frame: FrameType) -> bool:
    return (
        frame.f_code.co_name == "_bootstrap" and frame.f_globals.get("__name__") == "multiprocessing.process"
    )


def _restore(numbers: list[int], handler: Callable[..., Any]) -> None:
    for number in numbers:
        if signal.getsignal(number) == handler:
            signal.signal(number, signal.SIG_DFL)


def _has_returned(frame: FrameType) -> bool:
    """Whether the last instruction of a frame that has ended was a return, not an exception that passed through it."""
    return opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _is_uncaught(error: BaseException | None) -> bool:
    """Whether an exception that was printed has left the outermost frame."""
    trace = error.__traceback__ if error is not None else None
    return trace is not None and trace.tb_frame.f_back is None


def _described(error: BaseException | None) -> str:
    """Return one line for an exception; a text for sys.exit, with the exception during which it was called; empty for success."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return ""
    if not isinstance(error, SystemExit):
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    if not isinstance(error.code, int):
        return str(error.code)
    cause = _described(error.__context__)
    return f"exit code {error.code} after {cause}" if cause else f"exit code {error.code}"
