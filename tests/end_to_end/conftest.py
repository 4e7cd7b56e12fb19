"""A real server process on the test database, and a real browser in front of it; the process serves all tests."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import django
import pytest

django.setup()  # conftest files are imported before pytest-django does it

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client, override_settings  # noqa: E402
from playwright.sync_api import (  # noqa: E402
    Browser,
    BrowserContext,
    Page,
    expect,
)

from tests.end_to_end.running_stack import RunningStack  # noqa: E402
from tests.end_to_end.seed import START, Event, Story, encoded  # noqa: E402
from training_core.config.files import load_config  # noqa: E402
from webapp.accounts.models import Membership, Project, User  # noqa: E402
from webapp.ingest.services import batch_store  # noqa: E402
from webapp.runs.models import Attempt, Run  # noqa: E402
from webapp.stack.processes import dies_with_parent  # noqa: E402

PATIENCE = 300.0
"""Seconds; nothing is asserted on them."""
expect.set_options(timeout=120_000)  # of what is seen at once when the machine is not busy


@pytest.fixture(scope="session")
def static_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All static files, gathered as `up` does."""
    root = tmp_path_factory.mktemp("static")
    with override_settings(STATIC_ROOT=str(root)):
        call_command("collectstatic", interactive=False, verbosity=0)
    return root


@pytest.fixture(scope="session")
def shared_stack() -> Iterator[RunningStack]:
    """A whole stack for tests that leave it well; to start one takes longer than most of them."""
    running = RunningStack(TROUPE_WEBHOOK_NETWORKS="127.0.0.0/8")
    try:
        yield running.start()
    finally:
        running.remove()


class Server:
    """The web server as a process of its own on the test database; may be ended and started again."""

    def __init__(self, static_root: Path, **variables: str) -> None:
        url = os.environ["DATABASE_URL"].replace("/troupe?", f"/{settings.DATABASES['default']['NAME']}?")
        own = {"DATABASE_URL": url, "TROUPE_STATIC_ROOT": str(static_root)}
        self._environment = os.environ | own | variables
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it answers; one that runs goes on."""
        if self._process and self._process.poll() is None:
            return
        descriptor = self._listener.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "webapp.stack.serve", str(descriptor)],
            pass_fds=[descriptor],
            env=self._environment,
            preexec_fn=dies_with_parent(),
        )
        _answers(f"{self.url}/healthz", self._process)

    def kill(self) -> None:
        """At once, with every socket."""
        if self._process:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def rest(self) -> None:
        """Until it has done what it was asked: emptying the tables waits for whoever reads them."""
        if not self._process:
            return
        _answers(f"{self.url}/healthz", self._process)  # later than all that was asked before
        deadline = time.monotonic() + PATIENCE
        while _at_work():
            assert time.monotonic() < deadline, "the server does not come to rest"
            time.sleep(0.02)

    def close(self) -> None:
        """For good."""
        self.kill()
        self._listener.close()


@pytest.fixture(scope="session")
def kept_server(django_db_setup: None, static_root: Path) -> Iterator[Server]:
    """The process that all tests share: to start it takes longer than most of them."""
    running = Server(static_root)
    yield running
    running.close()


@pytest.fixture
def server(transactional_db: None, kept_server: Server) -> Iterator[Server]:
    """A server that answers."""
    kept_server.start()
    yield kept_server
    kept_server.rest()


def _at_work() -> bool:
    """Whether another session of this database is in the middle of something."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select exists (select from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and state <> 'idle')"
        )
        return bool(cursor.fetchone()[0])


def _answers(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(address, timeout=5)
            return
        except OSError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)


@pytest.fixture
def ada(transactional_db: None) -> User:
    """The owner of the project `lab`."""
    user = User.objects.create_user("ada")  # no password: to hash one takes half a second
    lab = Project.objects.create(slug="lab", name="Path finding")
    Membership.objects.create(project=lab, user=user, level=Membership.Level.OWNER)
    return user


@pytest.fixture(scope="session")
def kept_context(browser: Browser, kept_server: Server) -> Iterator[BrowserContext]:
    """One browser profile, 1280 pixels wide: with its cache, scripts are loaded and compiled once."""
    opened = browser.new_context(
        base_url=kept_server.url, viewport={"width": 1280, "height": 900}, color_scheme="light"
    )
    yield opened
    opened.close()


@pytest.fixture
def context(kept_context: BrowserContext, server: Server, ada: User) -> Iterator[BrowserContext]:
    """The profile with nothing stored but the cookie of ada's session."""
    client = Client()
    client.force_login(ada)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    kept_context.clear_cookies()
    kept_context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": server.url}])
    kept_context.set_default_timeout(120_000)
    yield kept_context
    page = kept_context.new_page()
    storage = {"origin": server.url, "storageTypes": "local_storage,session_storage"}
    kept_context.new_cdp_session(page).send("Storage.clearDataForOrigin", storage)
    kept_context.unroute_all()
    for opened in kept_context.pages:
        opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page on which any error in the console or of the network fails the test."""
    opened = context.new_page()
    complaints: list[str] = []
    opened.on(
        "console",
        lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None,
    )
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "response",
        lambda answer: complaints.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None,
    )
    yield opened
    opened.close()
    assert not complaints, complaints


def signed_in(browser: Browser, context: BrowserContext, server: Server, **options: Any) -> Page:
    """A page of another profile, with the session of `context`."""
    other = browser.new_context(base_url=server.url, **options)
    other.add_cookies(context.cookies())  # type: ignore[arg-type]
    other.set_default_timeout(120_000)
    return other.new_page()


def run_make(user: User, name: str = "", state: str = "queued") -> Run:
    """A run of the demonstration preset with one attempt, in ada's project."""
    config = load_config("plan_path_duo", {"run.iterations": 120})
    run = Run.objects.create(
        project=Project.objects.get(slug="lab"), owner=user, name=name or config.run.name, preset="plan_path_duo",
        config=config.model_dump(mode="json"), iterations=config.run.iterations, state=state,
    )  # fmt: skip
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    return run


def tell(run: Run, events: Iterable[Event]) -> None:
    """What the driver of `run` sends."""
    batch_store(run.pk, encoded(events), "")


def run_told(
    user: User,
    name: str = "",
    state: str = "queued",
    iterations: int = 0,
    *,
    ago: float | None = None,
    **options: int,
) -> tuple[Run, Story]:
    """A run after its opening and so many iterations, and its story, which began `ago` seconds ago or at START."""
    run = run_make(user, name, state)
    start = START if ago is None else time.time() - ago
    story = Story(run.pk, seed=options.pop("seed", 0), start=start)
    tell(run, story.opening())
    if iterations:
        tell(run, story.iterations(0, iterations, **options))
    return run, story
