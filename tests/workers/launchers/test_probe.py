"""The HTTP probe against a real server."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from workers.launchers.probe import http_answers, main


class Handler(BaseHTTPRequestHandler):
    """Answers with the status in the path; /private needs a token, /moved leads to a page that answers."""

    def do_GET(self) -> None:
        status = {"/moved": 302, "/private": 401}.get(self.path) or int(self.path[1:] or 200)
        if self.headers["Authorization"] == "Bearer secret":
            status = 200
        self.send_response(status)
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_only_200_is_an_answer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    answers = {path: http_answers(url + path) for path in ("", "/", "/200", "/204", "/503", "/moved")}
    assert answers == {"": True, "/": True, "/200": True, "/204": False, "/503": False, "/moved": False}


def test_a_token_is_sent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_TEST", "secret")
    assert not http_answers(f"{url}/private")
    assert http_answers(f"{url}/private", "secret")
    assert main([f"{url}/private", "--token", "TOKEN_OF_TEST"]) == 0
    assert main([f"{url}/private"]) == 1


def test_nothing_listens(url: str) -> None:
    assert not http_answers("http://127.0.0.1:9/healthz")
    assert not http_answers(url.replace("http", "https"))
