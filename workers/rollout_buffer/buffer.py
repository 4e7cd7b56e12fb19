"""The rollout buffer behind its HTTP face: channels on one store, and the rollouts that fill them."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workers.rollout_buffer.channel import Channel
from workers.rollout_buffer.plugins import PluginFailure, Plugins
from workers.rollout_buffer.rollouts import Rollouts
from workers.rollout_buffer.rules import Limits, finite
from workers.rollout_buffer.store import Store

CHANNEL = re.compile(r"[A-Za-z0-9_.-]{0,80}")


@dataclass(frozen=True)
class Place:
    """Where a buffer keeps things and finds files."""

    folder: Path
    """Its data and logs."""
    data: Path
    """Input files lie here or below."""


class RolloutBuffer:
    """All channels. The one named "" is what slime's clients speak to; others are for further runs, and evaluations."""

    def __init__(
        self,
        place: Place,
        limits: Limits,
        plugins: Plugins,
        address: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plugins = plugins
        self.address = address
        """The service's own, with its token: what plugins write to."""
        self._place = place
        self._limits = limits
        self._clock = clock
        self._lock = threading.RLock()
        self._store = Store(place.folder / "records.sqlite")
        self._rollouts = Rollouts(place.folder)
        self._channels: dict[str, Channel] = {}

    def resume(self) -> list[str]:
        """Go on with the rollouts that were under way when the service ended; what could not go on, and why."""
        failures = []
        for name in self._store.channels():
            request = self._store.noted(name, "rollout")
            channel = self.channel(name)
            if request is not None:
                try:
                    self._configure(channel, request)
                    self._run(channel, request)
                except PluginFailure as error:
                    failures.append(f"the rollout of channel {name!r} does not go on: {error}")
        return failures

    def close(self) -> None:
        """End the rollouts; `resume` of the next service starts them again."""
        self._rollouts.end_all()
        self._store.close()

    def channel(self, name: str) -> Channel:
        """A channel, made where it is missing. Raises ValueError for what can be no name."""
        if not CHANNEL.fullmatch(name):
            raise ValueError(f"{name!r} is no channel's name: letters, digits, _ . - only")
        with self._lock:
            if name not in self._channels:
                self._channels[name] = Channel(name, self._store, self._limits, {}, self._clock)
            return self._channels[name]

    def names(self) -> list[str]:
        """Channels in use."""
        return sorted(self._channels)

    def start_rollout(self, name: str, given: Mapping[str, Any]) -> None:
        """Start a plugin in the background. Raises ValueError for a wrong request, PluginFailure for an unknown type.

        What is held stays, and is not made again: `skip_instance_ids` grows by the groups that are ready, and groups that
        are begun are completed. With `delivery`, the last one that the reader knows of, it grows too by those that are handed
        out again because it does not. `fresh` drops it all. An instance named k times is skipped in k epochs.
        """
        request = self._checked(given)
        with self._lock:
            self._rollouts.end(name)
            channel = self.channel(name)
            channel.restart(empty=bool(request.pop("fresh", False)), acknowledged=request.pop("delivery"))
            self._configure(channel, request)
            self._note_rollout(name, request)
            self._run(channel, request)

    def rollout(self, name: str) -> dict[str, Any]:
        """The state of a channel's rollout; see Rollouts.state."""
        with self._lock:
            state = self._rollouts.state(name)
            if state["state"] == "finished" and self._store.noted(name, "rollout") is not None:
                self._note_rollout(name, None)  # nothing to go on with
            return state

    def stop_rollout(self, name: str) -> None:
        """End a channel's rollout; what it wrote stays."""
        with self._lock:
            self._rollouts.end(name)
            self._note_rollout(name, None)

    def _run(self, channel: Channel, request: Mapping[str, Any]) -> None:
        skip = [*request.get("skip_instance_ids", []), *channel.done_instances()]
        url = f"{self.address}/channels/{channel.name}" if channel.name else self.address
        whole = {"remote_buffer_url": url, "invalid_reward": self._limits.least_reward, **request}
        whole |= {"skip_instance_ids": skip, "begun": channel.begun()}
        self._rollouts.start(channel.name, self.plugins.get(request["task_type"]), whole)

    def _configure(self, channel: Channel, request: Mapping[str, Any]) -> None:
        """The plugin's rules, and groups as large as a prompt is repeated."""
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

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The request with its numbers as numbers and its file as a path. Raises ValueError, PluginFailure."""
        request = dict(given)
        self.plugins.get(str(request.get("task_type", "")))
        for name, default in (
            ("num_repeat_per_sample", self._limits.group_size),
            ("num_epoch", 1),
            ("num_process", 10),
        ):
            request[name] = whole_number(request.get(name, default), name)
        known = request.get("delivery")
        request["delivery"] = None if known is None else int(finite(known, "delivery"))
        skip = request.get("skip_instance_ids") or []
        if not isinstance(skip, list):
            raise ValueError("skip_instance_ids is a list of instance ids")
        request["skip_instance_ids"] = [str(each) for each in skip]
        if request.get("input_file"):
            request["input_file"] = str(self._file(str(request["input_file"])))
        if not request.get("remote_buffer_url"):
            request.pop("remote_buffer_url", None)
        return request

    def _file(self, name: str) -> Path:
        """An input file. Only those below the data folder: whoever may start a run must not read the whole machine."""
        path = (self._place.data / name).resolve()
        if not path.is_relative_to(self._place.data.resolve()):
            raise ValueError(
                f"input_file {name} is not below {self._place.data}; move it there, or start the service with --data"
            )
        if not path.is_file():
            raise ValueError(f"there is no input_file {path}")
        return path


def whole_number(value: Any, name: str) -> int:
    """A whole number above 0, or text that is one. Raises ValueError."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is no whole number: {value!r}") from None
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be 1 or more")
    return number
