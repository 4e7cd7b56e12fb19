"""What a run says: on disk first, then to the server. Saying it costs the caller one encoding and one write."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread
from typing import Any

import orjson

from workers.reporting.encoding import encode
from workers.reporting.shipping import Shipping
from workers.storage.run_folder import RunFolder
from workers.telemetry.limits import MAX_METRICS, MAX_TEXT
from workers.telemetry.spool import SpoolWriter

logger = logging.getLogger(__name__)

LOOK = 0.05
"""Seconds between looks at what waits. Little goes out at once: somebody may be watching."""
FEW = 10
"""Steps that are little."""
INTERVAL = 0.25
"""Seconds between batches while more is said: larger batches cost the server less."""
HURRY = 5000
"""Steps that go out at once."""
HEARTBEAT = 5.0
"""Seconds between heartbeats."""
PROGRESS = 1.0
"""The same while iterations are completed, so that progress is seen."""
_CLIPPED = {"title": 200, "outcome": 200, "task": 200, "error": MAX_TEXT}


class Reporter:
    """One per attempt. Methods may be called from any thread; none blocks on the network and none raises for a full
    disk: what cannot be written is counted in `lost` and said in the log. TypeError for objects that are no data.

    Without `url` events stay on disk, to be shipped later (`troupe_client.reporting.sync`). `before` is called by the
    delivering thread before the first batch, again and again while it raises Undelivered.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: str,
        attempt: int,
        url: str = "",
        token: str = "",
        before: Callable[[], None] | None = None,
    ) -> None:
        self.producer = secrets.token_hex(8)
        self.iteration = 0
        """Iterations completed, as heartbeats tell it; the driver sets it, and so does `status`."""
        self.lost = 0
        """Events that could not be written to disk."""
        self._head = (
            orjson.dumps({"run": run, "attempt": attempt, "producer": self.producer})[:-1] + b',"seq":'
        )
        self._spool = SpoolWriter(folder.spool(attempt) / f"{self.producer}.jsonl")
        self._shipping = Shipping(self._spool.path, url, token, before) if url else None
        self._steps = 0
        self._unsaid = 0
        self._wake = Event()
        self._closing = Event()
        self._close_lock = Lock()
        self._deadline = 0.0
        self._thread = Thread(target=self._work, name="reporter", daemon=True)
        self._thread.start()

    @property
    def command(self) -> str | None:
        """What the server wants: "stop", "pause", "exit" (a newer attempt exists), or None."""
        return self._shipping.command if self._shipping else None

    @property
    def acknowledged(self) -> int:
        """Last seq that the server has stored."""
        return self._shipping.acknowledged if self._shipping else 0

    @property
    def seq(self) -> int:
        """Last seq on disk."""
        return self._spool.seq

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Scalars of one step, in as many events as they need; NaN and infinities travel as such."""
        pairs = list(values.items())
        for start in range(0, len(pairs) or 1, MAX_METRICS):
            self._append(
                {"type": "metrics", "step": step, "values": dict(pairs[start : start + MAX_METRICS])}
            )
        self._steps += 1
        if self._steps == HURRY:
            self._wake.set()

    def episode(self, fields: Mapping[str, Any]) -> None:
        """An episode: the fields of EpisodeEvent but for the envelope."""
        clipped = {key: str(fields[key])[:size] for key, size in _CLIPPED.items() if key in fields}
        self._append({**fields, **clipped, "type": "episode"})

    def annotation(self, fields: Mapping[str, Any]) -> None:
        """What the update learnt about an episode: the fields of EpisodeAnnotationEvent but for the envelope."""
        self._append({**fields, "type": "episode_annotation"})

    def batch(self, fields: Mapping[str, Any]) -> None:
        """What an update learnt from: the fields of BatchEvent but for the envelope."""
        self._append({**fields, "type": "batch"})

    def phase(self, worker: str, phase: str, iteration: int, start: float, end: float) -> None:
        """A span of one worker's time; seconds since the epoch."""
        fields = {"worker": worker, "phase": phase, "iteration": iteration}
        self._append({"type": "phase", **fields, "start": start, "end": end})

    def span(self, fields: Mapping[str, Any]) -> None:
        """A span of one worker's time, with all that is known of it: the fields of PhaseEvent but for the envelope."""
        self._append({**fields, "type": "phase"})

    def utilisation(self, fields: Mapping[str, Any]) -> None:
        """How busy a worker's device was: the fields of UtilisationEvent but for the envelope."""
        self._append({**fields, "type": "utilisation"})

    def checkpoint(
        self,
        iteration: int,
        path: str,
        size: int,
        metrics: Mapping[str, float],
        *,
        best: bool = False,
        removed: bool = False,
        damaged: str = "",
    ) -> None:
        """A checkpoint at `path` (relative to the run folder) was written, (removed) deleted, or found damaged: how."""
        flags = {"metrics": dict(metrics), "best": best, "removed": removed, "damaged": damaged[:2000]}
        self._append({"type": "checkpoint", "iteration": iteration, "path": path, "bytes": size, **flags})

    def log(self, level: str, source: str, message: str) -> None:
        """A line for the run's log: debug, info, warning or error."""
        self._append({"type": "log", "level": level, "source": source[:80], "message": message[:MAX_TEXT]})

    def status(
        self, state: str, iteration: int, message: str = "", facts: Mapping[str, Any] | None = None
    ) -> None:
        """The driver's state. Sent at once."""
        self.iteration = iteration
        fields = {
            "state": state,
            "iteration": iteration,
            "message": message[:MAX_TEXT],
            "facts": dict(facts or {}),
        }
        self._append({"type": "status", **fields})
        self._wake.set()

    def close(self, timeout: float = 30.0) -> bool:
        """Deliver what is left for at most `timeout` seconds; whether all of it was. More events are refused."""
        with self._close_lock:
            if not self._closing.is_set():
                self._deadline = time.monotonic() + timeout
                self._closing.set()
                self._wake.set()
                self._thread.join(timeout + 1.0)
                self._spool.close()
        return self._shipping is None or self.acknowledged >= self.seq

    def _append(self, event: dict[str, Any]) -> None:
        event["time"] = time.time()
        tail = b"," + encode(event)[1:] + b"\n"
        try:
            self._spool.append(self._head, tail)
        except OSError as error:
            self.lost += 1
            self._unsaid += 1
            if self._unsaid == 1:
                logger.error("A %s event could not be written to the spool: %s", event["type"], error)
            return
        if self._unsaid and event["type"] != "log":
            self._say_lost()

    def _say_lost(self) -> None:
        """Tell how many events are lost. The count stays until this line itself is on disk: while the disk is nearly full, small
        events may fit and this one not.
        """
        count = self._unsaid
        message = f"{count} events could not be written to disk and are lost"
        before = self.lost
        self.log("error", "reporting", message)
        if self.lost == before:
            self._unsaid -= count

    def _work(self) -> None:
        """The thread: heartbeats, and batches when it is time for them."""
        last, told, shipped = time.monotonic(), 0, 0.0
        while not self._closing.is_set():
            hurried = self._wake.wait(LOOK)
            self._wake.clear()
            now = time.monotonic()
            wait = HEARTBEAT if self.iteration == told else PROGRESS
            if now - last >= wait:
                last, told = now, self.iteration
                self._append({"type": "heartbeat", "iteration": told})
            if self._shipping and (hurried or self._steps <= FEW or now - shipped >= INTERVAL):
                shipped, self._steps = now, 0
                self._shipping.ship()
        if self._shipping:
            self._shipping.drain(self._deadline)
            self._shipping.close()
