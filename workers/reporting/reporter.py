"""The reporter of an attempt: writes events to disk, then delivers them. A call costs one encoding and one write.

A thread delivers, with increasing pauses while the server does not answer.
"""

import logging
import random
import secrets
import time
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import orjson

from workers.reporting.encoding import encode
from workers.storage.folders import RunFolder
from workers.telemetry.delivery import HttpChannel, SpoolUploader, Undelivered
from workers.telemetry.limits import MAX_MEDIA, MAX_METRICS, MAX_TEXT
from workers.telemetry.spool import MAX_KEPT, KeptLines, SpoolWriter

logger = logging.getLogger(__name__)
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
WARNING_SECONDS = 60.0
"""Seconds between two warnings about the same outage."""
POLL_SECONDS = 0.05
"""Seconds between checks for undelivered events."""
SMALL_BATCH = 10
"""Up to this number of steps is delivered at the next check, for people who watch the run."""
BATCH_SECONDS = 0.25
"""Seconds between larger batches, which cost the server less per event."""
LARGE_BATCH = 5000
"""This number of steps is delivered immediately."""
HEARTBEAT_SECONDS = 5.0
"""Seconds between heartbeats."""
PROGRESS_SECONDS = 1.0
"""Seconds between heartbeats after a completed iteration, for the progress bar."""
LOST_SECONDS = 10.0
"""Seconds between two reports of lost events."""
FINAL = ("finished", "stopped", "paused", "failed")
_CLIPPED = {"title": 200, "outcome": 200, "task": 200, "error": MAX_TEXT}


class Reporter:
    """The reporter of one attempt. Methods may be called from any thread and never wait for the network.

    A full disk raises nothing: events are kept in memory, up to MAX_KEPT bytes, and sent from there. Those that do not fit are
    counted in `lost`, in the log, on the run's page and in the message of its end. Methods raise TypeError for objects that are not
    data.

    Without `url` events stay on disk, to be delivered later (`troupe_client.reporting.sync`). The
    delivering thread calls `before` ahead of the first batch, and repeats it while it raises Undelivered.
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
        """Completed iterations, sent with heartbeats; set by the driver and by `status`."""
        self.lost = 0
        """Events for which neither the disk nor the memory had room; heartbeats do not count."""
        self.kept = KeptLines()
        """After `close`: the events that are not on disk. The server may not have stored them."""
        self._head = (
            orjson.dumps({"run": run, "attempt": attempt, "producer": self.producer})[:-1] + b',"seq":'
        )
        self._spool = SpoolWriter(folder.spool(attempt) / f"{self.producer}.jsonl", MAX_KEPT)
        self._shipping = Shipping(self._spool, url, token, before) if url else None
        self._steps = 0
        self._unreported = 0
        self._report_after = 0.0
        self._is_full = False
        self._wake = Event()
        self._closing = Event()
        self._close_lock = Lock()
        self._deadline = 0.0
        self._thread = Thread(target=self._work, name="reporter", daemon=True)
        self._thread.start()

    @property
    def command(self) -> str | None:
        """Command of the server: "stop", "pause", "exit" (a newer attempt exists), or None."""
        return self._shipping.command if self._shipping else None

    @property
    def acknowledged(self) -> int:
        """Seq of the last event that the server has stored."""
        return self._shipping.acknowledged if self._shipping else 0

    def has_stored(self, seq: int) -> bool:
        """Whether the server has stored all events up to `seq`; True if there is no server."""
        return self._shipping is None or self.acknowledged >= seq

    @property
    def spool(self) -> Path:
        """The file of its events."""
        return self._spool.path

    @property
    def seq(self) -> int:
        """Seq of the last event."""
        return self._spool.seq

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Report scalars of one step, in several events if needed. NaN and infinities are preserved."""
        if len(values) <= MAX_METRICS:
            whole = values if type(values) is dict else dict(values)
            self._append({"type": "metrics", "step": step, "values": whole})
        else:
            pairs = list(values.items())
            for start in range(0, len(pairs), MAX_METRICS):
                some = dict(pairs[start : start + MAX_METRICS])
                self._append({"type": "metrics", "step": step, "values": some})
        self._steps += 1
        if self._steps == LARGE_BATCH:
            self._wake.set()

    def media(self, step: int, name: str, values: list[dict[str, Any]]) -> None:
        """Report media of one name and step: documents as in workers.telemetry.events. Too large ones become a line of the log."""
        if (size := len(encode({"values": values}))) > MAX_MEDIA:
            reason = f"its {size:,} bytes are more than {MAX_MEDIA >> 20} MiB"
            return self.log("warning", "media", f"{name} of step {step} is left out: {reason}")
        self._append({"type": "media", "step": step, "name": name, "values": values})

    def episode(self, fields: Mapping[str, Any]) -> None:
        """Report an episode: the fields of EpisodeEvent without the envelope."""
        clipped = {key: str(fields[key])[:size] for key, size in _CLIPPED.items() if key in fields}
        self._append({**fields, **clipped, "type": "episode"})

    def phase(self, worker: str, phase: str, iteration: int, start: float, end: float) -> None:
        """Report a span of a worker's time; start and end in seconds since the epoch."""
        fields = {"worker": worker, "phase": phase, "iteration": iteration, "start": start, "end": end}
        self.report("phase", fields)

    def report(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Report an event of a type of workers.telemetry.events: its fields without the envelope."""
        self._append({**fields, "type": kind})

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
        """Report a checkpoint at `path` (relative to the run folder): written, deleted (`removed`), or how it is damaged."""
        flags = {"metrics": dict(metrics), "best": best, "removed": removed, "damaged": damaged[:2000]}
        self._append({"type": "checkpoint", "iteration": iteration, "path": path, "bytes": size, **flags})

    def log(self, level: str, source: str, message: str) -> None:
        """Write a line to the run's log. Levels: debug, info, warning, error."""
        self._append({"type": "log", "level": level, "source": source[:80], "message": message[:MAX_TEXT]})

    def status(
        self,
        state: str,
        iteration: int,
        message: str = "",
        facts: Mapping[str, Any] | None = None,
        remedy: str = "",
    ) -> None:
        """Report the driver's state and deliver it immediately. The message of an end names the number of lost events."""
        self.iteration = iteration
        if state in FINAL and self.lost:
            self._report_lost(always=True)
            message = f"{message} {_words(self.lost)}.".lstrip()
        fields = {
            "state": state,
            "iteration": iteration,
            "message": message[:MAX_TEXT],
            "facts": dict(facts or {}),
        }
        if remedy:
            fields["remedy"] = remedy[:MAX_TEXT]
        self._append({"type": "status", **fields}, always=True)
        self._wake.set()

    def close(self, timeout: float = 30.0, patience: float = inf) -> bool:
        """Deliver pending events for at most `timeout` seconds, then refuse further events.

        `patience`: seconds after which it gives up if the server is away. Returns whether no event is lost, and the server has
        stored all; without `url`, the disk.
        """
        with self._close_lock:
            if not self._closing.is_set():
                self._deadline = time.monotonic() + timeout
                self._closing.set()
                self._wake.set()
                self._wait(self._deadline + min(1.0, timeout / 10), patience)
                self.kept = self._spool.close()
        on_disk = self._shipping is not None or not self.kept.lines
        return self.has_stored(self.seq) and on_disk and not self.lost

    def _wait(self, until: float, patience: float) -> None:
        """Wait for the thread until a time (monotonic seconds); only `patience` seconds if the server is away."""
        started = time.monotonic()
        while self._thread.is_alive() and (now := time.monotonic()) < until:
            if self._shipping and self._shipping.is_away and now - started > patience:
                self._deadline = now
                return
            self._thread.join(0.05)

    def _append(self, event: dict[str, Any], *, always: bool = False) -> None:
        """Write an event. `always`: in memory, it exceeds the bound."""
        event["time"] = time.time()
        tail = b"," + encode(event)[1:] + b"\n"
        try:
            self._spool.append(self._head, tail, always=always)
        except OSError as error:
            if event["type"] != "heartbeat":
                self.lost += 1
                self._unreported += 1
                if self.lost == 1:
                    logger.error("A %s event is lost: %s", event["type"], error)
            return
        if self._spool.is_full != self._is_full:
            self._note_disk()
        if self._unreported and not always:
            self._report_lost()

    def _note_disk(self) -> None:
        self._is_full = self._spool.is_full
        if self._is_full:
            text = "The disk of %s takes no events; up to %d MiB of them are kept in memory until it does"
            logger.error(text, self._spool.path.parent, MAX_KEPT >> 20)
        else:
            logger.warning("The disk of %s takes events again", self._spool.path.parent)

    def _report_lost(self, *, always: bool = False) -> None:
        """Report the number of lost events, in the log and to the run's page; at most every LOST_SECONDS, unless `always`."""
        if not self._unreported or (not always and time.monotonic() < self._report_after):
            return
        self._report_after = time.monotonic() + LOST_SECONDS
        count, self._unreported = self._unreported, 0
        line = {"type": "log", "level": "error", "source": "reporting", "message": _words(count)}
        self._append(line, always=True)
        self._append({"type": "heartbeat", "iteration": self.iteration, "lost": self.lost}, always=True)

    def _work(self) -> None:
        """Send heartbeats and batches; runs in the thread."""
        last, reported, shipped = time.monotonic(), 0, 0.0
        while not self._closing.is_set():
            woken = self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            now = time.monotonic()
            wait = HEARTBEAT_SECONDS if self.iteration == reported else PROGRESS_SECONDS
            if now - last >= wait:
                last, reported = now, self.iteration
                self._append({"type": "heartbeat", "iteration": reported})
            due = woken or self._steps <= SMALL_BATCH or self._is_full or now - shipped >= BATCH_SECONDS
            if self._shipping and due:
                shipped, self._steps = now, 0
                self._shipping.ship()
        if self._shipping:
            self._shipping.drain(self._deadline)
            self._shipping.close()


def _words(lost: int) -> str:
    return f"{lost:,} events are lost: the disk of the run's folder was full, and so was the memory for them"


class Shipping:
    """The delivering part of a reporter. Only its thread calls it; `command` and `acknowledged` may be read by others."""

    def __init__(
        self, spool: SpoolWriter, url: str, token: str, before: Callable[[], None] | None = None
    ) -> None:
        self._spool, self._url, self._token = spool, url, token
        self._before = before
        self._uploader: SpoolUploader | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self._last_warning = -WARNING_SECONDS
        self.command: str | None = None
        self.acknowledged = 0

    def ship(self) -> None:
        """Deliver all pending events, unless a pause after a failure has not ended."""
        while time.monotonic() >= self._not_before and self._step():
            pass

    def drain(self, deadline: float) -> None:
        """Deliver all pending events, repeating failed attempts until `deadline` (monotonic seconds)."""
        self._not_before = 0.0
        while time.monotonic() < deadline:
            if not self._step() and not self._pause:
                return
            if self._pause:
                time.sleep(max(0.0, min(self._pause, 1.0, deadline - time.monotonic())))

    @property
    def is_away(self) -> bool:
        """Whether the server did not accept the last batch."""
        return self._pause > 0

    def close(self) -> None:
        """Close the connection."""
        if self._uploader:
            self._uploader.close()

    def _step(self) -> bool:
        """Deliver one batch. Returns False if there is none or if it failed; `_pause` is then the time to wait."""
        try:
            if self._before:
                self._before()
                self._before = None
            if self._uploader is None:
                channel = HttpChannel(self._url, self._token)
                self._uploader = SpoolUploader(self._spool.path, channel, self._spool)
            more = self._uploader.step()
        except Undelivered as error:
            self.command = (self._uploader and self._uploader.command) or self.command
            self._failed(str(error))
            return False
        except Exception as error:  # telemetry must not end the run; the spool has all events
            logger.exception("Delivering events failed")
            self._failed(repr(error))
            return False
        self._pause = 0.0
        self.acknowledged = self._uploader.acknowledged
        self.command = self._uploader.command or self.command
        return more

    def _failed(self, reason: str) -> None:
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))
        self._not_before = time.monotonic() + self._pause * random.uniform(0.5, 1.5)
        if time.monotonic() - self._last_warning >= WARNING_SECONDS:
            self._last_warning = time.monotonic()
            where = "in memory, because the disk is full," if self._spool.is_full else "on disk"
            logger.warning("Events stay %s until the server accepts them: %s", where, reason)
