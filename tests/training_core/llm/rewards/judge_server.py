"""An OpenAI-compatible server on the loopback whose "model" is a rule."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Decide = Callable[[list[str]], str]
"""The texts of the shown answers -> what stands after the code."""
ANSWER = re.compile(r"BEGIN ANSWER (\d+) ([0-9a-f]{16})\n(.*?)\nEND ANSWER \1 \2", re.DOTALL)


class JudgeServer(ThreadingHTTPServer):
    """Records the requests. `replies` are sent first: a status, or a text in place of a verdict."""

    daemon_threads = True

    def __init__(self, decide: Decide, replies: Sequence[int | str] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.decide, self.replies = decide, list(replies)
        self.requests: list[dict[str, Any]] = []
        self.usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        self.keys: set[str | None] = set()
        self.released = threading.Event()
        self.released.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def shown(self, number: int = -1) -> list[str]:
        """The answers in a request, in order."""
        return [text for _, _, text in ANSWER.findall(self.requests[number]["messages"][1]["content"])]


class _Handler(BaseHTTPRequestHandler):
    server: JudgeServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.keys.add(self.headers["Authorization"])
        self.server.released.wait(30.0)
        reply = self.server.replies.pop(0) if self.server.replies else None
        if isinstance(reply, int):
            return self._send(
                reply, {"error": {"message": f"refused: {self.headers['Authorization']}", "type": "test"}}
            )
        found = ANSWER.findall(body["messages"][1]["content"])
        verdict = f"I think.\nVERDICT {found[0][1]}: {self.server.decide([text for _, _, text in found])}"
        message = {"role": "assistant", "content": reply if reply is not None else verdict}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        facts = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        self._send(200, facts | {"choices": choices, "usage": self.server.usage})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(server: JudgeServer) -> Iterator[JudgeServer]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def by(quality: Callable[[str], float]) -> Decide:
    """A judge that grades by a number from 0 to 10, and orders by it."""

    def decide(texts: list[str]) -> str:
        if len(texts) == 1:
            return str(int(quality(texts[0])))
        levels: dict[float, list[str]] = {}
        for number, text in enumerate(texts, 1):
            levels.setdefault(-quality(text), []).append(str(number))
        return " > ".join(" = ".join(numbers) for _, numbers in sorted(levels.items()))

    return decide
