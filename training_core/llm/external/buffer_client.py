"""HTTP client of a rollout buffer service (workers/rollout_buffer)."""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_core.config.rollout import RolloutBuffer
from training_core.errors import BufferFailure

Record = dict[str, Any]
_TIMEOUT, _CONNECT_TIMEOUT = 120.0, 10.0
"""Seconds."""
logging.getLogger("httpx").setLevel(logging.WARNING)  # a line per poll would fill the run's log


@dataclass(frozen=True)
class Fetched:
    """One response of the service."""

    groups: list[list[Record]]
    """Received records, by instance."""
    finished: list[str]
    """Instances of received groups, including those without delivered records."""
    delivery: int
    meta: dict[str, Any]


class BufferClient:
    """One channel of a service. Every call raises BufferFailure if the service refuses or is unreachable."""

    def __init__(self, url: str, token: str, channel: str = "") -> None:
        self.url = url.rstrip("/") + (f"/channels/{channel}" if channel else "")
        self._headers = {"Authorization": f"Bearer {token}"}

    def start_rollout(self, request: Mapping[str, Any]) -> None:
        """Start a generator."""
        self._call("POST", "/start_rollout", request)

    def stop_rollout(self) -> None:
        """Stop the generator."""
        self._call("POST", "/stop_rollout", {})

    def fetch(self, delivery: int, limit: int | None) -> Fetched:
        """Complete groups, about `most` records; `delivery` is the last one that was received."""
        body = {"delivery": delivery} | ({"batch_size": limit} if limit else {})
        answer = self._call("POST", "/get_rollout_data", body)
        data, meta = answer["data"]["data"], answer["data"]["meta_info"]
        groups: dict[str, list[Record]] = {}
        for record in data:
            groups.setdefault(str(record["instance_id"]), []).append(record)
        return Fetched(list(groups.values()), list(meta["finished_groups"]), int(meta["delivery"]), meta)

    def _call(self, method: str, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        import httpx  # only here: a machine that trains from a script may lack it

        try:
            answer = httpx.request(
                method,
                self.url + path,
                json=dict(content),
                headers=self._headers,
                trust_env=False,
                timeout=httpx.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT),
            )
            body = answer.json()
        except httpx.InvalidURL as error:
            raise BufferFailure(f"workflow.url = {self.url!r} is not a URL; use http://host:8889") from error
        except (httpx.HTTPError, ValueError) as error:
            raise BufferFailure(
                f"the rollout buffer at {self.url} does not answer ({type(error).__name__}); start it with `troupe buffer serve`"
            ) from error
        if not answer.is_success or not isinstance(body, dict):
            reason = body.get("message") if isinstance(body, dict) else answer.text[:200]
            raise BufferFailure(f"the rollout buffer at {self.url} refused: {reason}")
        return body


def connect(workflow: RolloutBuffer, channel: str) -> BufferClient:
    """Connect to the service in the config, or to the one on this machine. Raises BufferFailure if there is none.

    The token of this machine's service is only sent to that service's address.
    """
    token = os.environ.get(workflow.token_env, "").strip()
    file = Path(os.environ.get("TROUPE_HOME", "").strip() or "var") / "rollout_buffer.json"
    local: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    url = workflow.url or str(local.get("url", ""))
    if not url:
        raise BufferFailure(
            f"there is no rollout buffer on this machine (no {file}); start it with `troupe buffer serve`, or set workflow.url"
        )
    if not token and url.rstrip("/") == local.get("url"):
        token = str(local["token"])
    return BufferClient(url, token, channel)
