"""The rollout buffer behind its HTTP endpoints: channels in one store, and the rollouts that fill them."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workers.rollout_buffer.channel import Channel
from workers.rollout_buffer.plugins import PluginFailure, Plugins
from workers.rollout_buffer.rollouts import RolloutProcesses
from workers.rollout_buffer.rules import BufferLimits, finite
from workers.rollout_buffer.store import Store

CHANNEL = re.compile(r"[A-Za-z0-9_.-]{0,80}")


@dataclass(frozen=True)
class BufferFolders:
    """Folders of a buffer."""

    folder: Path
    """Folder of its data and logs."""
    data: Path
    """Folder that contains input files, directly or in subfolders."""


class RolloutBuffer:
    """All channels. Slime's clients use the one named ""; others are for further runs and evaluations."""

    def __init__(
        self,
        folders: BufferFolders,
        limits: BufferLimits,
        plugins: Plugins,
        address: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plugins = plugins
        self.address = address
        """The service's address with its token, for plugins."""
        self._folders = folders
        self._limits = limits
        self._clock = clock
        self._lock = threading.RLock()
        self._store = Store(folders.folder / "records.sqlite")
        self._rollouts = RolloutProcesses(folders.folder)
        self._channels: dict[str, Channel] = {}

    def resume(self) -> list[str]:
        """Restart the rollouts that were running when the service ended. Returns a message for each that could not be restarted."""
        failures = []
        for name in self._store.channels():
            request = self._store.noted(name, "rollout")
            channel = self.channel(name)
            if request is not None:
                try:
                    self._configure(channel, request)
                    self._run(channel, request)
                except PluginFailure as error:
                    failures.append(f"the rollout of channel {name!r} cannot be restarted: {error}")
        return failures

    def close(self) -> None:
        """Stop the rollouts; `resume` of the next service restarts them."""
        self._rollouts.end_all()
        self._store.close()

    def channel(self, name: str) -> Channel:
        """A channel, created if it does not exist. Raises ValueError for an invalid name."""
        if not CHANNEL.fullmatch(name):
            raise ValueError(f"{name!r} is not a channel name; use letters, digits, _ . - only")
        with self._lock:
            if name not in self._channels:
                self._channels[name] = Channel(name, self._store, self._limits, {}, self._clock)
            return self._channels[name]

    def names(self) -> list[str]:
        """Names of the channels."""
        return sorted(self._channels)

    def start_rollout(self, name: str, settings: Mapping[str, Any]) -> None:
        """Start a plugin in the background. Raises ValueError for a wrong request, PluginFailure for an unknown type.

        Stored records are kept, and not generated again: ready groups are added to `skip_instance_ids`, and open groups are
        completed. `delivery` is the last delivery that the reader has received; groups of a later one, which are delivered
        again, are skipped too. `fresh` drops all records. An instance named k times is skipped in k epochs.
        """
        request = self._checked(settings)
        with self._lock:
            self._rollouts.end(name)
            channel = self.channel(name)
            channel.restart(empty=bool(request.pop("fresh", False)), acknowledged=request.pop("delivery"))
            self._configure(channel, request)
            self._note_rollout(name, request)
            self._run(channel, request)

    def rollout(self, name: str) -> dict[str, Any]:
        """The state of a channel's rollout; see RolloutProcesses.state."""
        with self._lock:
            state = self._rollouts.state(name)
            if state["state"] == "finished" and self._store.noted(name, "rollout") is not None:
                self._note_rollout(name, None)  # nothing to resume
            return state

    def stop_rollout(self, name: str) -> None:
        """Stop a channel's rollout; its records are kept."""
        with self._lock:
            self._rollouts.end(name)
            self._note_rollout(name, None)

    def _run(self, channel: Channel, request: Mapping[str, Any]) -> None:
        skip = [*request.get("skip_instance_ids", []), *channel.done_instances()]
        url = f"{self.address}/channels/{channel.name}" if channel.name else self.address
        data = {"remote_buffer_url": url, "invalid_reward": self._limits.least_reward, **request}
        data |= {"skip_instance_ids": skip, "begun": channel.begun()}
        self._rollouts.start(channel.name, self.plugins.get(request["task_type"]), data)

    def _configure(self, channel: Channel, request: Mapping[str, Any]) -> None:
        """Set the plugin's rules, and the number of rollouts per prompt as the group size."""
        hooks = self.plugins.get(request["task_type"]).hooks
        limits = replace(
            self._limits,
            group_size=request["num_repeat_per_sample"],
            max_records=whole_number(request.get("max_records", self._limits.max_records), "max_records"),
            least_reward=finite(request.get("least_reward", self._limits.least_reward), "least_reward"),
        )
        channel.configure(limits, hooks)

    def _note_rollout(self, name: str, request: Mapping[str, Any] | None) -> None:
        with self._store.lock:
            self._store.note(name, "rollout", request)

    def _checked(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The request with converted numbers and an absolute path of its file. Raises ValueError, PluginFailure."""
        request = dict(settings)
        self.plugins.get(str(request.get("task_type", "")))
        for name, default in (
            ("num_repeat_per_sample", self._limits.group_size),
            ("num_epoch", 1),
            ("num_process", 10),
        ):
            request[name] = whole_number(request.get(name, default), name)
        delivery = request.get("delivery")
        request["delivery"] = None if delivery is None else int(finite(delivery, "delivery"))
        skip = request.get("skip_instance_ids") or []
        if not isinstance(skip, list):
            raise ValueError("skip_instance_ids is a list of instance ids")
        request["skip_instance_ids"] = [str(instance) for instance in skip]
        if request.get("input_file"):
            request["input_file"] = str(self._file(str(request["input_file"])))
        if not request.get("remote_buffer_url"):
            request.pop("remote_buffer_url", None)
        return request

    def _file(self, name: str) -> Path:
        """The path of an input file, which must be below the data folder: users who start runs must not read other files."""
        path = (self._folders.data / name).resolve()
        if not path.is_relative_to(self._folders.data.resolve()):
            raise ValueError(
                f"input_file {name} is not below {self._folders.data}; move it there, or start the service with --data"
            )
        if not path.is_file():
            raise ValueError(f"there is no input_file {path}")
        return path


def whole_number(value: Any, name: str) -> int:
    """Convert a value to an integer above 0. Raises ValueError."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not a whole number: {value!r}") from None
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be 1 or more")
    return number
