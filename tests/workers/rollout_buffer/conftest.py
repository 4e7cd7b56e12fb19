"""Files of buffers are closed after each test: Python 3.13 warns about a connection that is collected open."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _closed_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    connect = sqlite3.connect
    with ExitStack() as opened:

        def recorded(*args: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*args, **options)
            opened.callback(connection.close)
            return connection

        monkeypatch.setattr(sqlite3, "connect", recorded)
        yield
