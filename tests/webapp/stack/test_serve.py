"""Who the web server believes about callers."""

import socket
import subprocess
import sys
import threading
from os import environ
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.conftest import wait_until
from webapp.config import environment
from webapp.stack.home import PREPARED, wait_until_prepared
from webapp.stack.serve import server_config

HEADERS = [(b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"https")]


async def seen(peer: str) -> tuple[str, str]:
    """(address, scheme) of a request from this peer, as the application sees it."""
    found: dict[str, Any] = {}

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        found.update(scope)

    config = server_config()
    config.app, config.interface = app, "asgi3"
    config.load()
    scope = {"type": "http", "client": (peer, 5), "scheme": "http", "headers": HEADERS}
    await config.loaded_app(scope, None, None)
    return found["client"][0], found["scheme"]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TROUPE_BEHIND_PROXY", "TROUPE_PROXY_ADDRESSES", "FORWARDED_ALLOW_IPS"):
        monkeypatch.delenv(name, raising=False)


async def test_forwarded_headers_are_not_believed_without_a_proxy() -> None:
    assert await seen("127.0.0.1") == ("127.0.0.1", "http")


async def test_forwarded_headers_of_the_proxy_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_BEHIND_PROXY", "1")
    assert await seen("127.0.0.1") == ("203.0.113.9", "https")
    assert await seen("192.0.2.1") == ("192.0.2.1", "http")


async def test_the_proxy_may_be_on_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_BEHIND_PROXY", "1")
    monkeypatch.setenv("TROUPE_PROXY_ADDRESSES", "172.16.0.0/12")
    assert await seen("172.18.0.1") == ("203.0.113.9", "https")
    assert await seen("127.0.0.1") == ("127.0.0.1", "http")


def test_clients_close_idle_connections_before_the_server_does() -> None:
    """Otherwise a request may be sent on a connection that is just closed."""
    expiry = httpx.Client()._transport._pool._keepalive_expiry  # type: ignore[attr-defined]
    assert server_config().timeout_keep_alive > expiry


@pytest.mark.extended
def test_the_server_listens_on_an_address_of_its_own() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    child = subprocess.Popen([sys.executable, "-m", "webapp.stack.serve", place], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: healthy(place), [child])
    finally:
        child.terminate()
        child.wait(60)


@pytest.mark.extended
@pytest.mark.parametrize(
    "command",
    [["-m", "webapp.stack.serve", "127.0.0.1:0"], ["-m", "celery", "-A", "webapp.site.celery", "worker"]],
)
def test_processes_wait_until_the_database_is_prepared(command: list[str], tmp_path: Path) -> None:
    code = f"import sys, runpy; sys.argv = {command[1:]!r}; runpy.run_module({command[1]!r}, run_name='__main__')"
    waits = f"import webapp.stack.home as p; p.wait_until_prepared = lambda: sys.exit('asked'); {code}"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {waits}"], capture_output=True, text=True, timeout=90
    )
    assert "asked" in done.stderr and "ready" not in done.stdout


@pytest.mark.extended
def test_static_files_collected_during_the_start_are_served(tmp_path: Path) -> None:
    """The server imports its modules before `prepare` has collected them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    collect = "call_command('collectstatic', interactive=False, verbosity=0)"
    code = f"import webapp.stack.serve as s\nfrom django.core.management import call_command\ns.wait_until_prepared = lambda: {collect}"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{code}\ns.main({address!r})"],
        env={**environ, "TROUPE_HOME": str(tmp_path), "TROUPE_STATIC_ROOT": str(tmp_path / "static")},
    )
    try:
        wait_until(lambda: healthy(address), [child])
        file = next((tmp_path / "static" / "css").glob("*.*.css"))
        assert httpx.get(f"http://{address}/static/css/{file.name}", trust_env=False).status_code == 200
    finally:
        child.terminate()
        child.wait(60)


def test_waiting_ends_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PREPARED, raising=False)
    wait_until_prepared()
    monkeypatch.setenv(PREPARED, str(tmp_path / "prepared"))
    thread = threading.Thread(target=wait_until_prepared)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    (tmp_path / "prepared").touch()
    thread.join(60)
    assert not thread.is_alive()


def healthy(place: str) -> bool:
    try:
        return bool(httpx.get(f"http://{place}/healthz", trust_env=False).json() == {"status": "ok"})
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    ("url", "told"), [("https://lab.example.org", "31536000 True True"), ("http://lab", "0 False False")]
)
def test_https_servers_ask_for_https_alone(url: str, told: str) -> None:
    code = "from webapp.config import settings as s; print(s.SECURE_HSTS_SECONDS, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE)"
    env = {**environ, "TROUPE_SERVER_URL": "http://web:8000", "TROUPE_PUBLIC_URL": url}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "http://web:8000"),
        ({"TROUPE_PUBLISHED_PORT": "8951"}, "http://127.0.0.1:8951"),
        (
            {"TROUPE_PUBLISHED_PORT": "8951", "TROUPE_PUBLIC_URL": "https://lab.example.org/"},
            "https://lab.example.org",
        ),
    ],
)
def test_people_reach_the_server_at_its_public_address(
    given: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TROUPE_PUBLIC_URL", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert environment.public_url("http://web:8000") == told


def test_a_public_address_with_a_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_PUBLIC_URL", "https://lab.example.org/troupe")
    with pytest.raises(ImproperlyConfigured):
        environment.public_url("http://web:8000")
