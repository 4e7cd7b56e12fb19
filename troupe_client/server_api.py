"""Client of the REST API: the server's address, requests, errors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.errors import TroupeError

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx

ROOT = Path(__file__).resolve().parents[1]


class ServerFailure(TroupeError):
    """The server refused a request. `fields` has messages by config field, `body` is the response."""

    def __init__(
        self, message: str, fields: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> None:
        self.fields = fields or {}
        self.body = body or {}
        super().__init__(message)


class ServerAway(ServerFailure):
    """The server does not answer; a later request may succeed."""


def home() -> Path:
    """The data folder: TROUPE_HOME; default: var/ next to manage.py."""
    return Path(os.environ.get("TROUPE_HOME", "").strip() or ROOT / "var").expanduser().resolve()


@cache
def _authorities() -> SSLContext:
    import httpx

    return httpx.create_ssl_context()


def trusted(url: str) -> SSLContext | bool:
    """Return the argument `verify` of httpx for an address: the usual authorities, or those of SSL_CERT_FILE in spite of trust_env=False.

    Without it, httpx reads the authorities at each request, also for http: 30 ms, more than the request.
    """
    return _authorities() if url.lower().startswith("https:") else False


@dataclass(frozen=True)
class Server:
    """Address and token of a server."""

    url: str
    token: str
    timeout: float = 30.0
    """Seconds for a request that is not streamed."""
    public_url: str = ""
    """Address of the pages, where it is another one."""

    def address(self, path: str) -> str:
        """The URL of a path for requests."""
        return self.url.rstrip("/") + path

    def page(self, path: str) -> str:
        """The URL of a path for people."""
        return (self.public_url or self.url).rstrip("/") + path

    def call(self, path: str, body: Any = None, **query: Any) -> Any:
        """Send GET, or POST if there is a body, and return the JSON response. Raises ServerAway, ServerFailure."""
        return self.send("GET" if body is None else "POST", path, body, **query)

    def send(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send a request and return the JSON response. Raises ServerAway, ServerFailure."""
        import httpx  # imports for a tenth of a second, which --help does not need

        try:
            response = httpx.request(
                method,
                self.address(path),
                params=query_parameters(query),
                content=None if body is None else _encoded(body),
                headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
                timeout=httpx.Timeout(self.timeout, connect=min(5.0, self.timeout)),
                trust_env=False,
                verify=trusted(self.url),
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._bad_address() from error
        except httpx.HTTPError as error:
            raise ServerAway(
                f"{self.url} does not answer ({type(error).__name__}). Start it with `troupe up`, or set TROUPE_URL"
            ) from error
        return read_document(response, self.url)

    def upload(self, path: str, file: Path) -> Any:
        """PUT the bytes of a file, streamed from disk, and return the JSON response. Raises ServerAway, ServerFailure."""
        import httpx

        try:
            with file.open("rb") as content:
                response = httpx.put(
                    self.address(path),
                    content=content,
                    headers={
                        "Authorization": f"Bearer {self.token}",
                        "Content-Type": "application/octet-stream",
                        "Content-Length": str(file.stat().st_size),
                    },
                    timeout=httpx.Timeout(60.0, write=600.0, read=600.0),
                    trust_env=False,
                    verify=trusted(self.url),
                )
        except httpx.HTTPError as error:
            raise ServerAway(f"{self.url} ended the upload ({type(error).__name__}); try again") from error
        return read_document(response, self.url)

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """Yield the lines of a streamed response, which end with a newline only: a transcript may contain other line separators.

        Raises ServerAway, ServerFailure.
        """
        rest = b""
        with self.stream(path, **query) as response:
            for chunk in response.iter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode() for line in lines)
        if rest:
            yield rest.decode()

    @contextmanager
    def stream(self, path: str, **query: Any) -> Iterator[httpx.Response]:
        """Send GET and stream the response. Raises ServerAway, ServerFailure."""
        import httpx

        try:
            with httpx.stream(
                "GET",
                self.address(path),
                params=query_parameters(query),
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=60.0,
                trust_env=False,
                verify=trusted(self.url),
            ) as response:
                if not response.is_success:
                    response.read()
                    read_document(response, self.url)
                yield response
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._bad_address() from error
        except httpx.HTTPError as error:
            text = (
                f"{self.url} does not answer, or ended the response early ({type(error).__name__}); try again"
            )
            raise ServerAway(text) from error

    def _bad_address(self) -> ServerFailure:
        return ServerFailure(f"TROUPE_URL={self.url!r} is not an address: use http://host:port")


def read_document(response: httpx.Response, url: str) -> Any:
    """Return the JSON of a response of the server at `url`. Raises ServerAway, ServerFailure."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.is_success and body is not None:
        return body
    status = response.status_code
    if status in (502, 503, 504):
        raise ServerAway(f"{url} is not ready (HTTP {status}); try again")
    if not isinstance(body, dict):
        raise ServerFailure(f"{url} answered HTTP {status} without JSON; is it a Troupe server?")
    detail = str(body.get("detail") or f"HTTP {status}")
    if status == 401:
        detail += "; then set TROUPE_TOKEN to it"
    raise ServerFailure(detail, body.get("errors"), body)


def run_path(run_id: str, below: str = "") -> str:
    """Path of a run, or of a resource below it. Raises ServerFailure if `run_id` cannot be an id."""
    if not (run_id.isascii() and run_id.isalnum()):
        raise ServerFailure(f"{run_id!r} is not a run id; `troupe runs` lists them")
    return f"/api/v1/runs/{run_id}/{below}"


def project_path(project: str, below: str) -> str:
    """Path of a resource below a project. Raises ServerFailure if `project` cannot be a slug."""
    if not project.replace("-", "").replace("_", "").isalnum() or not project.isascii():
        raise ServerFailure(f"{project!r} is not a project slug; `troupe project list` lists them")
    return f"/api/v1/projects/{project}/{below}"


def query_parameters(query: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that have a value."""
    return {name: value for name, value in query.items() if value not in (None, "")}


def _encoded(body: Any) -> bytes:
    """JSON, with TOML's dates as text. Raises ServerFailure for NaN and infinities."""
    try:
        return json.dumps(body, default=str, allow_nan=False).encode()
    except ValueError as error:
        raise ServerFailure(f"the request cannot be encoded as JSON: {error}; use finite numbers") from error


def find_server() -> Server:
    """Return the server of TROUPE_URL and TROUPE_TOKEN; otherwise the one that `troupe up` started on this machine.

    The token of the local server is sent to its address only. Raises ServerFailure.
    """
    url, token = os.environ.get("TROUPE_URL", "").strip(), os.environ.get("TROUPE_TOKEN", "").strip()
    if url and token:
        return Server(url, token)
    local = _read_local(home() / "local.json")
    if url and url.rstrip("/") != local.url.rstrip("/"):
        raise ServerFailure(
            f"TROUPE_TOKEN is not set. Create a token on {url.rstrip('/')}/account/tokens/ and set it"
        )
    return replace(local, token=token or local.token)


def _read_local(path: Path) -> Server:
    try:
        local = json.loads(path.read_text())
        return Server(local["url"], local["token"], public_url=local.get("public_url", ""))
    except FileNotFoundError:
        raise ServerFailure(
            f"no Troupe server runs here ({path} does not exist). Start one with `troupe up`, set TROUPE_HOME to the data folder "
            "of one on this machine, or set TROUPE_URL and TROUPE_TOKEN"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServerFailure(f"{path} cannot be read ({error}); `troupe up` writes it again") from error
