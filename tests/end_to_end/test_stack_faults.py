"""`manage.py up` under attack: each part is killed and comes back, and at the end nothing is left."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from tests.end_to_end.running_stack import PATIENCE, ROOT, RunningStack, ended, title
from webapp.stack.processes import tagged
from webapp.stack.servers import free_ports

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def one_stack() -> Iterator[RunningStack]:
    """One stack for the tests of this file. The port it wants is taken."""
    wanted = free_ports(1)[0]
    with socket.socket() as other:
        other.bind(("127.0.0.1", wanted))
        other.listen()
        stack = RunningStack(TROUPE_PORT=str(wanted))
        try:
            yield stack.start()
        finally:
            stack.remove()


@pytest.fixture
def stack(one_stack: RunningStack) -> RunningStack:
    """The stack of this file, started again if another test has ended it."""
    assert one_stack.process
    return one_stack if one_stack.process.poll() is None else one_stack.start()


def kill(stack: RunningStack, name: str, number: int = signal.SIGKILL) -> psutil.Process:
    """Kill a part; returns what was killed, after another process has taken its place and all is well."""
    victim = stack.part(name)
    assert victim is not None, f"{name} is not up"
    victim.send_signal(number)
    stack.until(lambda: (now := stack.part(name)) is not None and now.pid != victim.pid)
    stack.until(stack.well)
    return victim


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are more than an entry in the table."""
    return [process for process in processes if not ended(process)]


def users(stack: RunningStack) -> int:
    """How many accounts the database has."""
    with psycopg.connect(
        stack.facts["environment"]["DATABASE_URL"].replace("postgres://", "postgresql://")
    ) as connection:
        row = connection.execute("SELECT count(*) FROM accounts_user").fetchone()
        return int(row[0]) if row else 0


def test_a_taken_port_gives_the_next_one_and_it_is_said(stack: RunningStack) -> None:
    port = int(stack.url.rsplit(":", 1)[1])
    assert port > int(stack.environment["TROUPE_PORT"])
    assert f"Port {stack.environment['TROUPE_PORT']} is in use" in stack.said


def test_the_printed_link_logs_in_once(stack: RunningStack) -> None:
    stack.until(lambda: "Log in once with:" in stack.said)
    link = re.search(r"http://\S+/account/link/\S+/", stack.said)
    assert link
    with httpx.Client(timeout=PATIENCE, trust_env=False) as browser:
        assert browser.get(link[0]).status_code == 302
        assert browser.get(f"{stack.url}/account/tokens/").status_code == 200
    assert httpx.get(link[0], timeout=PATIENCE, trust_env=False).status_code == 410


def test_files_with_secrets_are_private(stack: RunningStack) -> None:
    assert set(json.loads((stack.home / "local.json").read_text())) == {"url", "token"}
    for name in ("local.json", "stack.json", "secret_key", "log/web.log", "log/postgres.log"):
        assert (stack.home / name).stat().st_mode & 0o077 == 0, name


def test_nothing_listens_beyond_this_machine(stack: RunningStack) -> None:
    seen = []
    for process in alive(stack.tree()):
        try:
            seen += [c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        except psutil.Error:
            continue
    assert seen and set(seen) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_jobs_of_ray_want_the_token_and_do_not_get_our_secrets(stack: RunningStack) -> None:
    address = stack.facts["environment"]["RAY_ADDRESS"]
    assert httpx.get(f"{address}/api/jobs/", timeout=PATIENCE, trust_env=False).status_code in (401, 403)
    head = stack.part("ray")
    assert head is not None
    assert not {"DATABASE_URL", "REDIS_URL", "TROUPE_SECRET_KEY"} & set(head.environ())


def test_a_second_up_says_so_and_ends(stack: RunningStack) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "up"],
        env=stack.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "already runs" in done.stdout and stack.url in done.stdout
    stack.until(stack.well)


def test_a_management_command_finds_the_running_stack(stack: RunningStack) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "login_link", "grace", "--create"]
    done = subprocess.run(
        command, env=stack.environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert httpx.get(done.stdout.strip(), timeout=PATIENCE, trust_env=False).status_code == 302


@pytest.mark.extended
def test_the_web_server_killed(stack: RunningStack) -> None:
    victim = stack.part("web")
    assert victim is not None
    victim.kill()
    answer = httpx.get(f"{stack.url}/healthz", timeout=PATIENCE, trust_env=False)
    assert answer.status_code == 200, "who asks meanwhile waits, and is answered"
    stack.until(lambda: (now := stack.part("web")) is not None and now.pid != victim.pid)
    stack.until(stack.well)
    assert "was ended by SIGKILL" in stack.said


@pytest.mark.extended
def test_more_requests_at_once_than_postgres_has_connections(stack: RunningStack) -> None:
    """300, each of which reads the database, where Postgres has 100 connections."""

    async def ask_all() -> list[int]:
        limits = httpx.Limits(max_connections=None)
        headers = {"Authorization": f"Bearer {stack.token}"}
        async with httpx.AsyncClient(
            base_url=stack.url, headers=headers, limits=limits, timeout=PATIENCE, trust_env=False
        ) as client:
            answers = await asyncio.gather(*(client.get("/api/v1/runs/") for _ in range(300)))
            return [answer.status_code for answer in answers]

    with ThreadPoolExecutor(1) as pool:  # Playwright leaves an event loop in this thread
        statuses = pool.submit(asyncio.run, ask_all()).result()
    assert Counter(statuses) == {200: 300}


@pytest.mark.extended
def test_redis_killed(stack: RunningStack) -> None:
    """It forgets everything, so a worker that is well again has been asked anew, through it."""
    kill(stack, "redis")


@pytest.mark.extended
def test_postgres_killed(stack: RunningStack) -> None:
    before = users(stack)
    assert before >= 1
    kill(stack, "postgres")
    assert users(stack) == before


@pytest.mark.extended
def test_postgres_restarted_in_order(stack: RunningStack) -> None:
    kill(stack, "postgres", signal.SIGINT)


def test_the_worker_killed(stack: RunningStack) -> None:
    kill(stack, "worker")


@pytest.mark.extended
def test_beat_killed(stack: RunningStack) -> None:
    kill(stack, "beat")


@pytest.mark.extended
def test_the_ray_head_killed(stack: RunningStack) -> None:
    head = stack.part("ray")
    assert head is not None
    family = head.children(recursive=True)
    assert len(family) >= 4
    kill(stack, "ray")
    assert alive(family) == [], "what the dead head had started is gone"


def test_ctrl_c_leaves_nothing(stack: RunningStack) -> None:
    tree = stack.tree()
    assert len(tree) > 10
    titles = [title(process).split() for process in tree]
    (socket,) = {words[3] for words in titles if "workers.prefork.server" in words}
    assert Path(socket).is_socket()
    assert stack.stop(signal.SIGINT) == 0
    assert not Path(socket).parent.exists()
    assert alive(tree) == []
    assert tagged("TROUPE_STACK_ID", stack.facts["id"]) == []
    assert not Path(stack.facts["scratch"]).exists()
    assert not (stack.home / "stack.json").exists()
    assert "Stopped; no process is left running." in stack.said


@pytest.mark.extended
def test_up_continues_when_its_output_is_closed() -> None:
    stack = RunningStack()
    reader, writer = os.pipe()
    try:
        stack.start(output=writer, wait=False)
        os.close(writer)
        assert os.read(reader, 100)
        os.close(reader)
        stack.until(stack.well)
        tree = stack.tree()
        assert stack.stop() == 0
        assert alive(tree) == []
    finally:
        stack.remove()


@pytest.mark.extended
def test_up_killed_leaves_nothing_that_the_next_one_minds() -> None:
    stack = RunningStack(TROUPE_LAUNCHER="local")
    try:
        stack.start()
        first, token, tree = dict(stack.facts), stack.token, stack.tree()
        assert stack.process
        os.kill(stack.process.pid, signal.SIGKILL)
        stack.process.wait(PATIENCE)
        stack.start()
        assert alive(tree) == []
        assert tagged("TROUPE_STACK_ID", first["id"]) == []
        assert not Path(first["scratch"]).exists()
        assert stack.token == token, "scripts go on with the token that they have"
        assert users(stack) == 1
        assert stack.stop(signal.SIGTERM) == 0
    finally:
        stack.remove()


@pytest.mark.extended
def test_given_servers_are_used_and_left_alone(servers: object) -> None:
    """With DATABASE_URL and REDIS_URL `up` starts neither, and ends neither."""
    database, redis = os.environ["DATABASE_URL"], os.environ["REDIS_URL"]
    stack = RunningStack(DATABASE_URL=database, REDIS_URL=redis, TROUPE_LAUNCHER="local")
    try:
        stack.start()
        assert stack.part("postgres") is None and stack.part("redis") is None and stack.part("ray") is None
        assert not (stack.home / "postgres").exists()
        assert stack.stop() == 0
        with psycopg.connect(database.replace("postgres://", "postgresql://")) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        stack.remove()


@pytest.mark.extended
def test_a_database_that_is_not_there_is_told() -> None:
    stack = RunningStack(
        DATABASE_URL=f"postgres://nobody@127.0.0.1:{free_ports(1)[0]}/none", TROUPE_LAUNCHER="local"
    ).start(wait=False)
    try:
        assert stack.process and stack.process.wait(PATIENCE) == 1
        assert "DATABASE_URL does not answer" in stack.said
    finally:
        stack.remove()
