"""The REST API from a script's side: where the server is, one call, clear errors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.errors import TroupeError

if TYPE_CHECKING:
    import httpx

ROOT = Path(__file__).resolve().parents[1]


class ServerFailure(TroupeError):
    """The server refused; the message says what to do. `fields` has messages per config field."""

    def __init__(self, message: str, fields: dict[str, str] | None = None) -> None:
        self.fields = fields or {}
        super().__init__(message)


class ServerAway(ServerFailure):
    """The server cannot be reached now; it may come back."""


def home() -> Path:
    """TROUPE_HOME; the default is var/ beside manage.py."""
    return Path(os.environ.get("TROUPE_HOME", "").strip() or ROOT / "var").expanduser().resolve()


@dataclass(frozen=True)
class Server:
    """Address and token."""

    url: str
    token: str

    def address(self, path: str) -> str:
        """A path of the server as a whole address."""
        return self.url.rstrip("/") + path

    def call(self, path: str, body: Any = None, **query: Any) -> Any:
        """GET, or POST where there is a body. Raises ServerAway, ServerFailure."""
        return self.send("GET" if body is None else "POST", path, body, **query)

    def send(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Any method, e.g. DELETE. Raises ServerAway, ServerFailure."""
        import httpx  # a tenth of a second that --help need not wait for

        try:
            answer = httpx.request(
                method,
                self.address(path),
                params={name: value for name, value in query.items() if value not in (None, "")},
                content=None if body is None else _encoded(body),
                headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
                timeout=30.0,
                trust_env=False,
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ServerFailure(f"TROUPE_URL={self.url!r} is no address: use http://host:port") from error
        except httpx.HTTPError as error:
            raise ServerAway(
                f"{self.url} does not answer ({type(error).__name__}). Start it with `troupe up`, or set TROUPE_URL"
            ) from error
        return self._document(answer)

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """Lines of a streamed answer, as they come. Raises ServerAway, ServerFailure."""
        with self.stream(path, **query) as answer:
            yield from answer.iter_lines()

    @contextmanager
    def stream(self, path: str, **query: Any) -> Iterator[httpx.Response]:
        """An answer to GET that is read piece by piece. Raises ServerAway, ServerFailure."""
        import httpx

        try:
            with httpx.stream(
                "GET",
                self.address(path),
                params={name: value for name, value in query.items() if value not in (None, "")},
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=60.0,
                trust_env=False,
            ) as answer:
                if not answer.is_success:
                    answer.read()
                    self._document(answer)
                yield answer
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ServerFailure(f"TROUPE_URL={self.url!r} is no address: use http://host:port") from error
        except httpx.HTTPError as error:
            raise ServerAway(f"{self.url} does not answer, or broke off ({type(error).__name__})") from error

    def _document(self, answer: httpx.Response) -> Any:
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_success and body is not None:
            return body
        if answer.status_code in (502, 503, 504):
            raise ServerAway(f"{self.url} is not ready (HTTP {answer.status_code}); try again")
        if not isinstance(body, dict):
            raise ServerFailure(
                f"{self.url} answered HTTP {answer.status_code} and no JSON; is it a Troupe server?"
            )
        detail = str(body.get("detail") or f"HTTP {answer.status_code}")
        if answer.status_code == 401:
            detail += "; then set TROUPE_TOKEN to it"
        raise ServerFailure(detail, body.get("errors"))


def run_path(run_id: str, below: str = "") -> str:
    """Address of a run, or of something below it. Raises ServerFailure for what can be no id."""
    if not (run_id.isascii() and run_id.isalnum()):
        raise ServerFailure(f"{run_id!r} is no run's id; `troupe runs` lists them")
    return f"/api/v1/runs/{run_id}/{below}"


def _encoded(body: Any) -> bytes:
    """JSON; TOML's dates travel as text. Raises ServerFailure for NaN and infinities."""
    try:
        return json.dumps(body, default=str, allow_nan=False).encode()
    except ValueError as error:
        raise ServerFailure(f"what was given cannot be sent: {error}; use finite numbers") from error


def find_server() -> Server:
    """TROUPE_URL and TROUPE_TOKEN; else what `troupe up` wrote on this machine. Raises ServerFailure.

    The local token is never sent to another address than the one it is for.
    """
    url, token = os.environ.get("TROUPE_URL", "").strip(), os.environ.get("TROUPE_TOKEN", "").strip()
    if url and token:
        return Server(url, token)
    local = _read_local(home() / "local.json")
    if url and url.rstrip("/") != local.url.rstrip("/"):
        raise ServerFailure(
            f"TROUPE_TOKEN is not set. Make a token on {url.rstrip('/')}/account/tokens/ and set it"
        )
    return Server(local.url, token or local.token)


def _read_local(path: Path) -> Server:
    try:
        local = json.loads(path.read_text())
        return Server(local["url"], local["token"])
    except FileNotFoundError:
        raise ServerFailure(
            f"no Troupe runs here (there is no {path}). Start one with `troupe up`, or set TROUPE_URL and TROUPE_TOKEN"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServerFailure(
            f"{path} cannot be read ({error}); start `troupe up` again to write it anew"
        ) from error
