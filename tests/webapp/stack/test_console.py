"""Closed output does not end `up`."""

import io
import os

import pytest
from rich.console import Console

from webapp.stack.console import Terminal


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_nothing_is_printed_to_closed_output(terminal: bool) -> None:
    reader, writer = os.openpty() if terminal else os.pipe()
    output = io.TextIOWrapper(io.FileIO(writer, "w"), write_through=True)
    up = Terminal(Console(file=output, force_terminal=terminal))
    os.close(reader)
    up.starting("web")
    up.ready("web")
    up.trouble("web", "ended")
    up.say("Stopping")
    up.error("the port is taken")
    up.close()
    output.detach().close()
