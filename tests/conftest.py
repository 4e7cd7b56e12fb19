"""A real Postgres and a real Redis for the tests, on unix sockets, started when the first test needs them.

Their addresses are fixed here, before Django reads its settings; the servers end with the session.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from webapp.stack.postgres import PostgresServer, clean_environment, prepare_postgres
from webapp.stack.processes import become, dies_with_parent
from webapp.stack.servers import redis_answers, redis_command, redis_url

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright
    from pytest_django import DjangoDbBlocker

BROWSERS = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
"""The tests use the first one that exists. The shell has no user interface, so that a new page takes a quarter of the CPU time."""
CHROMIUM = next((path for path in BROWSERS if Path(path).exists()), "")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
]  # fmt: skip
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
SLOW_PARTS = (
    "workers/driver", "workers/gateway", "workers/rollout_buffer", "troupe_client/cli", "architecture/test_import_budget",
    "docs/test_adding", "training_core/llm/test_other_device", "training_core/marl/test_other_device",
    "training_core/marl/test_seed_group", "training_core/marl/test_trainer",
)  # fmt: skip
"""Folders and files whose tests train, or start a server or an interpreter: `make check` leaves them out."""
KEPT_TABLES = {"django_content_type", "auth_permission"}
"""Django creates their rows after `migrate`. To create them after each test takes three times as long as to empty all other tables."""
MOST_DELETED = 1 << 18
"""Bytes of a table, with its deleted rows, above which it is truncated."""
_WRITTEN = """
SELECT relname, pg_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0 AND relname != ALL(%s)
"""
TESTS = Path(__file__).parent
BASE = Path(tempfile.mkdtemp(prefix="troupe-test-"))
BASE.chmod(0o711)  # the account that serves the database goes through it
SOCKETS = BASE / "pg"
REDIS = BASE / "redis.sock"
HOME = BASE / "home"
(HOME / "static").mkdir(mode=0o711, parents=True)  # WhiteNoise looks there when the first page is asked for

os.environ |= {
    "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
    "DATABASE_URL": f"postgres://troupe@/troupe?host={SOCKETS}",
    "REDIS_URL": redis_url(REDIS),
    "TROUPE_HOME": str(HOME),
    "TROUPE_SECRET_KEY": "for tests alone",
    "OMP_NUM_THREADS": "1",
}
for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "TROUPE_URL", "TROUPE_TOKEN", "TROUPE_LAUNCHER"):
    os.environ.pop(name, None)


@contextmanager
def running_servers(**settings: str) -> Iterator[PostgresServer]:
    """Postgres with these settings, and Redis, up and answering; they end with the block. Benchmarks use it without pytest."""
    SOCKETS.mkdir(mode=0o700)
    postgres = prepare_postgres(HOME, SOCKETS)
    with (BASE / "postgres.log").open("ab") as log:
        children = [
            subprocess.Popen(
                postgres.command(**settings),
                env=clean_environment(HOME),
                preexec_fn=dies_with_parent(signal.SIGINT),
                stderr=log,
                **become(postgres.account),
            ),
            subprocess.Popen(redis_command(REDIS), preexec_fn=dies_with_parent(), stdout=subprocess.DEVNULL),
        ]
    try:
        wait_until(lambda: redis_answers(REDIS) and postgres.answers(), children)
        yield postgres
    finally:
        children[0].send_signal(signal.SIGINT)
        children[1].terminate()
        for child in children:
            child.wait(300)


@pytest.fixture(scope="session")
def servers() -> Iterator[PostgresServer]:
    """Both servers, up and answering."""
    with running_servers(**FAST) as postgres:
        yield postgres


@pytest.fixture(scope="session")
def django_db_setup(
    servers: PostgresServer, django_test_environment: None, django_db_blocker: "DjangoDbBlocker"
) -> None:
    """The test database, with the tables of a new home; tests that commit empty them with `_empty_tables`."""
    from django.db import connection
    from django.test import TransactionTestCase

    from webapp.stack.setup import create_tables

    TransactionTestCase._fixture_teardown = _empty_tables  # type: ignore[method-assign]
    with servers.connect("postgres") as administrator:
        administrator.execute("CREATE DATABASE test_troupe")
    with django_db_blocker.unblock():
        connection.close()
        connection.settings_dict["NAME"] = "test_troupe"
        create_tables()


def _empty_tables(case: object) -> None:
    """Empty all tables but `KEPT_TABLES`, in place of the command `flush`: to truncate them all takes a tenth of a second."""
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_WRITTEN, [[*KEPT_TABLES, "django_migrations"]])
        statements = [
            f"TRUNCATE {name} CASCADE" if size > MOST_DELETED else f"DELETE FROM {name}"
            for name, size in cursor.fetchall()
        ]
        # The role leaves out foreign keys; without parameters, several statements are one message.
        cursor.execute("; ".join(["SET LOCAL session_replication_role = replica", *statements]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `SLOW_PARTS`, before pytest selects by markers."""
    for item in items:
        if item.path.is_relative_to(TESTS) and str(item.path.relative_to(TESTS)).startswith(SLOW_PARTS):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Let each process of pytest-xdist import this file, and so start its own servers, before it reads Django's settings."""
    del os.environ["DJANGO_SETTINGS_MODULE"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have left running: hundreds of threads once starved the tests that came last."""
    threads = Counter(re.sub(r"\d+", "N", thread.name) for thread in threading.enumerate())
    processes: Counter[str] = Counter()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            processes[child.name()] += 1
    terminalreporter.write_line(f"left: threads {dict(threads)}, processes {dict(processes)}")


def pytest_unconfigure() -> None:
    """Remove what the session has left on disk."""
    shutil.rmtree(BASE, ignore_errors=True)


def wait_until(
    happened: Callable[[], bool], children: list["subprocess.Popen[bytes]"], within: float = 300.0
) -> None:
    """Poll until it has happened; fails when a child has died or the time is up."""
    deadline = time.monotonic() + within
    while not happened():
        dead = [child.args for child in children if child.poll() is not None]
        assert not dead, f"ended too early: {dead}; {(BASE / 'postgres.log').read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"nothing within {within} s"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def playwright() -> Iterator["Playwright"]:
    """Playwright keeps an event loop in this thread, which Django would refuse to work beside."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: "Playwright") -> Iterator["Browser"]:
    """Debian's Chromium."""
    if not CHROMIUM:
        pytest.skip(f"there is none of {', '.join(BROWSERS)}; apt-get install chromium-headless-shell")
    with playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as running:
        yield running
