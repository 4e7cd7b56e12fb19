"""A writer's side of the buffer: a record is asked for again until the service has it."""

import time
from types import TracebackType
from typing import Any, Self

import httpx

from training_core.errors import TroupeError

PATIENCE_SECONDS = 600.0
"""How long a service may be away."""
_PAUSE_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 0.1
"""A reader may just be at it; later pauses double, up to what the service asks for."""


class WriteFailure(TroupeError):
    """The buffer refused a record, or was away for too long."""


class Writer:
    """Writes to one address (with its token as password). For one thread."""

    def __init__(self, url: str, patience: float = PATIENCE_SECONDS) -> None:
        self._client = httpx.Client(trust_env=False, timeout=60.0)
        self._url = url.rstrip("/") + "/buffer/write"
        self._patience = patience

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def write(self, record: dict[str, Any]) -> None:
        """Returns when it is kept. A full buffer is waited for; one that is away, for so long. Raises WriteFailure."""
        deadline = time.monotonic() + self._patience
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = self._client.post(self._url, json=record)
            except httpx.TransportError as error:
                said, wait = f"{type(error).__name__}: {error}", _PAUSE_SECONDS
            else:
                if answer.is_success:
                    return
                said = f"HTTP {answer.status_code}: {answer.text[:300]}"
                if answer.status_code == 429:
                    deadline = time.monotonic() + self._patience
                elif answer.status_code < 500:
                    raise WriteFailure(f"the buffer refused a record of {record.get('instance_id')}: {said}")
                wait = float(answer.headers.get("retry-after", _PAUSE_SECONDS))
            if time.monotonic() > deadline:
                raise WriteFailure(f"the buffer did not take a record for {self._patience:.0f} s: {said}")
            time.sleep(min(wait, pause))
            pause *= 2
