"""Import TensorBoard's event files: each folder with event files is one run, as in TensorBoard.

A repeated import adds new values only: run, producer and seq are functions of folder, file and value.
"""

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from training_core.errors import TroupeError
from troupe_client.reporting.config_values import config_json
from troupe_client.reporting.importing import (
    Delivery,
    ImportedRun,
    NeedsPackage,
    deliver_end,
    digest,
    files_within,
    is_within,
    stable_id,
)
from troupe_client.reporting.media import Histogram, Image, Media, Text
from troupe_client.reporting.opening import begin, within_limits
from troupe_client.server_api import Server, ServerAway
from workers.reporting.encoding import encode
from workers.telemetry.delivery import Undelivered
from workers.telemetry.limits import MAX_BINS, MAX_ITEMS

PATTERN = "*tfevents*"
PAUSE = 1.0
"""Seconds between two looks at files that are followed."""
BEAT = 5.0
"""Seconds between heartbeats, which report that a run is followed."""
STOP = ("stop", "pause")


def log_folders(root: Path) -> list[Path]:
    """Return the folders with event files at or below `root`."""
    return sorted({path.parent for path in files_within(root, root, PATTERN)})


FRAME = 16
"""Bytes of a record in addition to its content: size, and two checksums."""


def loader_of(path: Path) -> Any:
    """TensorBoard's reader of an event file, with the number of bytes that it has read as `read`. Raises NeedsPackage."""
    try:
        from tensorboard.backend.event_processing import event_file_loader as loaders
    except ImportError as error:
        raise NeedsPackage("reading event files needs TensorBoard: pip install tensorboard") from error

    class Counted(loaders.RawEventFileLoader):  # type: ignore[misc]
        read = 0

        def Load(self) -> Iterator[bytes]:
            for record in super().Load():
                self.read += len(record) + FRAME
                yield record

    class Loader(loaders.EventFileLoader, Counted):  # type: ignore[misc]
        pass

    return Loader(str(path))


def unread(file: Path, at: int) -> str:
    """Return what cannot be read from byte `at` on, where a reader has stopped; empty for a record that is not complete yet."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    size, count = file.stat().st_size, 0
    with file.open("rb") as content:
        head = _read_at(content, at, 12)
        if len(head) == 12 and masked_crc32c(head[:8]) != int.from_bytes(head[8:], "little"):
            return f"{size - at:,} bytes"
        while len(head := _read_at(content, at, 8)) == 8:
            at += int.from_bytes(head, "little") + FRAME
            if at > size:
                break
            count += 1
    return f"{count} records" if count else ""


class EventFile:
    """An event file, read as far as it is written. Raises NeedsPackage if TensorBoard is not installed."""

    def __init__(self, path: Path) -> None:
        self._loader = loader_of(path)
        self._path = path
        self.name = path.name
        self.attempt = 0
        self.values = ImportedRun("", "")
        """Values that are read, with their numbers; their events are removed when they are delivered."""
        self.firsts: dict[str, int] = {}
        """Smallest step of a scalar by tag."""
        self.lasts: dict[str, int] = {}
        """Largest step of a scalar by tag."""

    def read(self) -> None:
        """Read the events that were written since the last call."""
        from tensorboard.util import tensor_util

        for event in self._loader.Load():
            scalars: dict[str, Any] = {}
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                if plugin == "scalars":
                    scalars[value.tag] = float(tensor_util.make_ndarray(value.tensor).item())
                elif plugin == "hparams":
                    self.values.config |= hparams_of(value)
                else:
                    self._read_media(event, plugin, value)
            if scalars:
                self.values.add("", event.step, scalars, event.wall_time)
            for tag in scalars:
                self.firsts[tag] = min(event.step, self.firsts.get(tag, event.step))
                self.lasts[tag] = max(event.step, self.lasts.get(tag, event.step))

    @property
    def damage(self) -> str:
        """What of the file cannot be read, although it is written; empty if nothing."""
        at, size = self._loader.read, self._path.stat().st_size
        what = unread(self._path, at) if at < size else ""
        return (
            f"{self._path} is damaged at byte {at:,} of {size:,}: {what} from there on are not imported"
            if what
            else ""
        )

    def repeats(self, ends: Mapping[str, int]) -> bool:
        """Whether it has a step of a tag that earlier files have, or an earlier one. ends: their last steps by tag."""
        return any(tag in ends and first <= ends[tag] for tag, first in self.firsts.items())

    def _read_media(self, event: Any, plugin: str, value: Any) -> None:
        kind = plugin or "tensor"
        try:
            items = media_of(plugin, value)
        except TroupeError as error:
            items, kind = [], f"{kind}: {error}"
        if items:
            self.values.add(" media", event.step, {value.tag.removesuffix(SUFFIX): items}, event.wall_time)
        else:
            self.values.left_out[kind] += 1


class FolderImport:
    """The import of one folder, which can be repeated while files grow."""

    def __init__(self, server: Server, folder: Path, project: str, name: str, tags: list[str]) -> None:
        self.run, self.name = stable_id(str(folder.resolve())), name
        self._server, self._folder = server, folder
        self._request = {
            "id": self.run,
            "project": project,
            "resume": "allow",
            "name": name,
            "tags": tags,
        }
        self._files: dict[Path, EventFile] = {}
        self._deliveries: dict[str, Delivery] = {}
        self._attempt = 0
        self._ends: dict[str, int] = {}
        self._beating = f"beats {secrets.token_hex(8)}"
        self._beaten = 0.0

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(file.values.count for file in self._files.values())

    @property
    def left_out(self) -> Counter[str]:
        """Number of values that cannot be imported, by kind."""
        return sum((file.values.left_out for file in self._files.values()), Counter())

    @property
    def damage(self) -> str:
        """What of its files cannot be read, although it is written; empty if nothing."""
        return "; ".join(damage for file in self._files.values() if (damage := file.damage))

    @property
    def is_stopped(self) -> bool:
        """Whether a person has pressed Stop on the run's page."""
        return any(delivery.command in STOP for delivery in self._deliveries.values())

    def update(self) -> None:
        """Deliver what is new.

        A file that repeats steps of earlier ones, as after a resume with `purge_step`, is a new attempt: its values replace theirs.
        Raises TroupeError (the server refuses), Undelivered; what was read then is delivered by the next call.
        """
        for path in sorted(self._folder.glob(PATTERN), key=_in_order):
            if not is_within(self._folder, path):
                continue
            if path not in self._files:
                self._files[path] = EventFile(path)
            self._files[path].read()
        for file in self._files.values():
            if file.values.events or file.attempt:
                self._deliver(file)

    def beat(self) -> None:
        """Report that the run is followed."""
        if self._attempt and time.monotonic() - self._beaten > BEAT:
            self._beaten = time.monotonic()
            last = max(self._ends.values(), default=0)
            beat = encode({"type": "heartbeat", "iteration": last, "time": time.time()})
            self._delivery(self._beating, self._attempt).add([beat])

    def end(self) -> None:
        """Report the end of the run, if it has begun, and close all files."""
        if self._attempt:
            self._end_attempt()
        for delivery in self._deliveries.values():
            delivery.close()

    def _deliver(self, file: EventFile) -> None:
        if not file.attempt:
            if not self._attempt or file.repeats(self._ends):
                self._begin(file)
            file.attempt = self._attempt
        for kind in ("", " media"):
            self._delivery(f"{file.name}{kind}", file.attempt).add(file.values.events.pop(kind, ()))
        self._ends |= file.lasts

    def _delivery(self, producer: str, attempt: int) -> Delivery:
        name = producer if attempt == 1 else f"{producer} {attempt}"
        if name not in self._deliveries:
            self._deliveries[name] = Delivery(self._server, self.run, attempt, digest(name))
        return self._deliveries[name]

    def _begin(self, file: EventFile) -> None:
        if self._attempt:
            self._end_attempt()
        number = self._attempt + 1
        hparams = {name: value for item in self._files.values() for name, value in item.values.config.items()}
        request: dict[str, Any] = self._request | {"config": {"folder": str(self._folder), **hparams}}
        request["first_step"] = max(0, min(file.firsts.values(), default=0))
        request["nonce"] = "import" if number == 1 else f"import-{number}"
        request["config"] = config_json(request["config"])
        self._attempt = begin(self._server, within_limits(request)).attempt

    def _end_attempt(self) -> None:
        media = (file.values.last for file in self._files.values() if not file.lasts)
        last = max([*self._ends.values(), *media], default=0)
        deliver_end(self._server, self.run, self._attempt, last)


def follow(imports: Callable[[], list[FolderImport]], stopping: Event, report: Callable[[str], None]) -> None:
    """Import what is new until `stopping` is set, or a person has pressed Stop on the page of each run.

    `imports`: those of the folders that there are, which the caller ends. A server that does not answer is asked again.
    """
    is_away = False
    while not stopping.wait(PAUSE):
        current = imports()
        try:
            for item in current:
                if not item.is_stopped:
                    item.update()
                    item.beat()
            is_away = False
        except (ServerAway, Undelivered) as error:
            if not is_away:
                report(f"{error}; the import continues when the server answers")
            is_away = True
        if current and all(item.is_stopped for item in current):
            return


def _read_at(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _in_order(file: Path) -> list[Any]:
    """Sort files by the time and the number in their names."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file.name)]


if TYPE_CHECKING:
    from numpy import ndarray

START = "_hparams_/session_start_info"
"""Tag of a run's hyperparameters."""
SUFFIX = "/text_summary"
"""Of the tags of texts that torch writes."""


def media_of(plugin: str, value: Any) -> list[Media]:
    """Return the media of a value of this plugin; none for other plugins. Raises TroupeError for those that cannot be stored."""
    from tensorboard.util import tensor_util

    if plugin not in MEDIA:
        return []
    media: list[Media] = MEDIA[plugin](tensor_util.make_ndarray(value.tensor))
    if len(media) > MAX_ITEMS or any(item.limit for item in media):
        raise TroupeError("too large")
    return media


def hparams_of(value: Any) -> dict[str, Any]:
    """Return the hyperparameters of a value of the plugin hparams, if it has those of the run."""
    from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data

    if value.tag != START:
        return {}
    hparams: Mapping[str, Any] = parse_session_start_info_plugin_data(
        value.metadata.plugin_data.content
    ).hparams
    return {name: getattr(item, item.WhichOneof("kind"), None) for name, item in hparams.items()}


def _histogram(rows: "ndarray[Any, Any]") -> list[Media]:
    """rows (B, 3): left edge, right edge and count of a bucket. Buckets without width are added to their neighbour."""
    if not rows.size:
        return []
    edges, counts, narrow = [float(rows[0, 0])], [], 0.0
    for _, right, count in rows.tolist():
        if right > edges[-1]:
            edges.append(right)
            counts.append(count + narrow)
            narrow = 0.0
        elif counts:
            counts[-1] += count
        else:
            narrow += count
    if not counts:  # all values are equal
        half = abs(edges[0]) * 1e-6 or 0.5
        counts, edges = [narrow], [edges[0] - half, edges[0] + half]
    size = -(-len(counts) // MAX_BINS)
    sums = [sum(counts[start : start + size]) for start in range(0, len(counts), size)]
    return [Histogram(counts=sums, edges=[*edges[:-1:size], edges[-1]])]


def _texts(cells: "ndarray[Any, Any]") -> list[Media]:
    return [Text("\n".join(cell.decode("utf-8", "replace") for cell in cells.ravel().tolist()))]


def _images(cells: "ndarray[Any, Any]") -> list[Media]:
    """cells: width, height, and encoded images."""
    return [Image(cell) for cell in cells.ravel().tolist()[2:]]


MEDIA = {"histograms": _histogram, "text": _texts, "images": _images}
"""Plugin of TensorBoard -> its media."""
