"""Client for writers of a buffer: sends a record until the service has stored it."""

import time
from types import TracebackType
from typing import Any, Self

import httpx

from training_core.errors import TroupeError

RETRY_SECONDS = 600.0
"""Maximum seconds of retries while a service is unavailable."""
_PAUSE_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 0.1
"""First pause, since a reader may be active; later pauses double, up to the service's Retry-After."""


class WriteFailure(TroupeError):
    """The buffer refused a record, or was unavailable for too long."""


class Writer:
    """Writes to one address (with its token as password). For one thread."""

    def __init__(self, url: str, retry_seconds: float = RETRY_SECONDS) -> None:
        self._client = httpx.Client(trust_env=False, timeout=60.0)
        self._url = url.rstrip("/") + "/buffer/write"
        self._retry_seconds = retry_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def write(self, record: dict[str, Any]) -> None:
        """Return when the record is stored. Waits for a full buffer, and `retry_seconds` for an unavailable one. Raises WriteFailure."""
        deadline = time.monotonic() + self._retry_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = self._client.post(self._url, json=record)
            except httpx.TransportError as error:
                problem, wait = f"{type(error).__name__}: {error}", _PAUSE_SECONDS
            else:
                if answer.is_success:
                    return
                problem = f"HTTP {answer.status_code}: {answer.text[:300]}"
                if answer.status_code == 429:
                    deadline = time.monotonic() + self._retry_seconds
                elif answer.status_code < 500:
                    raise WriteFailure(
                        f"the buffer refused a record of {record.get('instance_id')}: {problem}"
                    )
                wait = float(answer.headers.get("retry-after", _PAUSE_SECONDS))
            if time.monotonic() > deadline:
                raise WriteFailure(
                    f"the buffer did not take a record for {self._retry_seconds:.0f} s: {problem}"
                )
            time.sleep(min(wait, pause))
            pause *= 2
