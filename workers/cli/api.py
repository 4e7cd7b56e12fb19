"""The REST API from a script's side: where the server is, one call, clear errors."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from training_core.errors import TroupeError

ROOT = Path(__file__).resolve().parents[2]


class ServerFailure(TroupeError):
    """The server cannot be reached, or refused; the message says what to do. `fields` has messages per field."""

    def __init__(self, message: str, fields: dict[str, str] | None = None) -> None:
        self.fields = fields or {}
        super().__init__(message)


def home() -> Path:
    """TROUPE_HOME; the default is var/ beside manage.py."""
    return Path(os.environ.get("TROUPE_HOME", "").strip() or ROOT / "var").expanduser().resolve()


@dataclass(frozen=True)
class Server:
    """Address and token."""

    url: str
    token: str

    def call(self, path: str, body: Any = None, **query: Any) -> Any:
        """GET, or POST where there is a body. Raises ServerFailure."""
        try:
            answer = httpx.request(
                "GET" if body is None else "POST",
                self.url.rstrip("/") + path,
                params={name: value for name, value in query.items() if value not in (None, "")},
                json=body,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=30.0,
                trust_env=False,
            )
        except httpx.HTTPError as error:
            raise ServerFailure(
                f"{self.url} does not answer ({type(error).__name__}). Start it with `troupe up`, or set TROUPE_URL"
            ) from error
        if answer.is_success:
            return answer.json()
        raise _refusal(answer)


def find_server() -> Server:
    """TROUPE_URL and TROUPE_TOKEN; else what `troupe up` wrote on this machine. Raises ServerFailure."""
    url, token = os.environ.get("TROUPE_URL", "").strip(), os.environ.get("TROUPE_TOKEN", "").strip()
    if url and token:
        return Server(url, token)
    path = home() / "local.json"
    try:
        local = json.loads(path.read_text())
        return Server(url or local["url"], token or local["token"])
    except FileNotFoundError:
        raise ServerFailure(
            f"no Troupe runs here (there is no {path}). Start one with `troupe up`, or set TROUPE_URL and TROUPE_TOKEN"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise ServerFailure(
            f"{path} cannot be read ({error}); start `troupe up` again to write it anew"
        ) from error


def _refusal(answer: httpx.Response) -> ServerFailure:
    try:
        body = answer.json()
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    detail = str(body.get("detail") or f"HTTP {answer.status_code}")
    if answer.status_code == 401:
        detail += ". Set TROUPE_TOKEN to a token from the API tokens page"
    return ServerFailure(detail, body.get("errors"))
