"""Actors in their slots: how they start, how calls to them end, why they died, and how they are replaced."""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import ray
from ray.exceptions import RayActorError, RayTaskError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from training_core.config.run import RunConfig
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.environment_workers import EnvWorker
from workers.actors.marl_worker import MarlWorker
from workers.actors.policy_workers import PolicyWorker, RolloutWorker, UpdateWorker
from workers.protocol import WorkerLost, WorkerSpec
from workers.sizing.placement import ActorSlot
from workers.telemetry.faults import plain

log = logging.getLogger(__name__)
Result = TypeVar("Result")

Handle = Any
"""An actor's handle; its methods are known only at run time."""

CONTROL = "control"
"""Concurrency group of calls that run while another call is running; all other calls run one after another."""
CONTROLLED = (RolloutWorker, RolloutCoordinator, MarlWorker)
"""Actors with such calls: `load_weights` during generation, `save` while tasks are played."""

WORKER_CLASSES: dict[str, type] = {"policy": PolicyWorker, "rollout": RolloutWorker, "update": UpdateWorker}
MAX_LIVES = 5
"""Replacements of one worker before the run fails."""
DEATH_SECONDS = 30.0
"""Maximum seconds after a failed call within which a dead member is identified."""
LONGEST_MESSAGE = 300
"""Maximum characters of Ray's message if no known ending matches."""
ENDINGS = (
    (r"low on memory|memory monitor|OutOfMemory", "its machine ran out of memory"),
    (r"node (of|on|where|that).{0,80}(died|dead|fail)|node was (terminated|dead)", "its machine is gone"),
    (r"ray\.kill|INTENDED_USER_EXIT|INTENDED_SYSTEM_EXIT", "it was ended by its run"),
    (r"temporarily unavailable", "the connection to its process was lost"),
    (r"connection error|End of file|SYSTEM_ERROR", "its process was killed or crashed (often out of memory)"),
)
"""Pattern in Ray's message -> reason for people; the first match counts."""


LOST_REMEDY = (
    "Lower rollout.tasks, resources.environments_per_worker or policies.*.learner.micro_batch_tokens if memory is short, and "
    "check the machine of this worker"
)
"""Remedy for a worker that died and cannot be replaced."""


def answer(reference: Any) -> Any:
    """The result of an actor's call. Raises what the actor raised, and RayActorError if it died.

    Ray wraps the actor's error in one whose text is a traceback with terminal codes; that one becomes the cause. An error of
    the actor's constructor is raised too: a replacement would raise it again.
    """
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise original(error) from error
    except RayActorError as error:
        if (raised := _of_constructor(error)) is None:
            raise
        raise raised from error


def original(error: BaseException) -> BaseException:
    """The original error, which is wrapped several times if actors call actors."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def _of_constructor(error: RayActorError) -> BaseException | None:
    """What the actor's constructor raised; None if the actor died in another way."""
    wrapped = error.args[0] if error.actor_init_failed and error.args else None
    raised = original(wrapped) if isinstance(wrapped, RayTaskError) else None
    return None if isinstance(raised, RayTaskError | RayActorError) else raised


def exit_of(error: RayActorError) -> str:
    """Short reason for the actor's death, without Ray's paragraph of possible causes."""
    if error.preempted:
        return "its machine was taken away (preempted)"
    message = plain(str(error))
    for pattern, ending in ENDINGS:
        if re.search(pattern, message, re.IGNORECASE | re.DOTALL):
            return ending
    return " ".join(message.split())[:LONGEST_MESSAGE]


@dataclass(frozen=True)
class Call:
    """A call to a member, sent to the process that it had then."""

    member: "Member"
    life: int
    """Number of processes that had died in the slot before."""
    method: str
    arguments: tuple[Any, ...]
    reference: Any = field(repr=False)

    def result(self) -> Any:
        """What it returned. Raises what it raised, RayActorError if the process died."""
        return answer(self.reference)

    def wait(self) -> Any:
        """The same for a member that cannot be replaced: raises WorkerLost if it died."""
        try:
            return self.result()
        except RayActorError as error:
            raise self.member.lost(error) from error

    def again(self) -> "Call":
        """The same call to the process that the member has now."""
        return self.member.send(self.method, *self.arguments)


class Member:
    """An actor in its slot, in which another one may replace it. Threads may call it at the same time."""

    def __init__(self, name: str, spawn: Callable[..., Handle], policy: str = "") -> None:
        """`spawn(life=...)` starts the process; lives count from 0. `policy` is empty for a process that serves all policies."""
        self.name, self.policy = name, policy
        self._spawn = spawn
        self._current: tuple[int, Handle] = 0, spawn(life=0)

    @property
    def life(self) -> int:
        """Number of processes that died in this slot."""
        return self._current[0]

    @property
    def handle(self) -> Handle:
        """Its current process."""
        return self._current[1]

    def send(self, method: str, *arguments: Any, control: bool = False) -> Call:
        """Call a method, with `control` also while another call is running."""
        life, handle = self._current
        remote = getattr(handle, method)
        if control:
            remote = remote.options(concurrency_group=CONTROL)
        return Call(self, life, method, arguments, remote.remote(*arguments))

    def revive(self, error: RayActorError, restore: Callable[[], Result]) -> Result:
        """Replace the process, which died of `error`, and restore its state; again if the new one dies while `restore` waits for it.

        Raises WorkerLost after MAX_LIVES replacements. One thread at a time may call it.
        """
        while self.life < MAX_LIVES:
            log.warning("%s died: %s; it is replaced", self.name, exit_of(error))
            ray.kill(self.handle)
            life = self.life + 1
            self._current = life, self._spawn(life=life)
            try:
                return restore()
            except RayActorError as another:
                error = another
        raise WorkerLost(
            f"{self.name} died {MAX_LIVES + 1} times, the last time because {exit_of(error)}; the run's log has each of them.",
            remedy=LOST_REMEDY,
        ) from error

    def lost(self, error: RayActorError) -> WorkerLost:
        """The error for the death of a member that holds the only copy of what its policy has learnt."""
        return WorkerLost(
            f"{self.name} died, and with it what policy {self.policy!r} had learnt since the last checkpoint: {exit_of(error)}.",
            remedy=LOST_REMEDY,
        )


def call_all(members: Sequence[Member], method: str, *arguments: Any) -> list[Any]:
    """Call a method of all members, which may communicate with each other and cannot be replaced. Returns the results in order.

    Raises the first failure immediately, because the other calls may never return.
    """
    calls = [member.send(method, *arguments) for member in members]
    waiting = {call.reference: call for call in calls}
    while waiting:
        (reference, *_), _ = ray.wait(list(waiting), num_returns=1)
        try:
            waiting.pop(reference).wait()
        except WorkerLost:
            raise
        except Exception:  # for example gloo's or NCCL's error in communication with a dead member
            if len(members) > 1:
                _find_dead(members)
            raise
    return [call.result() for call in calls]


def _find_dead(members: Sequence[Member]) -> None:
    """Raise WorkerLost, which names the dead member, if one has died."""
    pings = {call.reference: call for call in [member.send("ping") for member in members]}
    deadline = time.monotonic() + DEATH_SECONDS
    while pings and time.monotonic() < deadline:
        done, _ = ray.wait(list(pings), num_returns=1, timeout=1.0)
        for reference in done:
            pings.pop(reference).wait()


@dataclass(frozen=True)
class Spawner:
    """Parameters of all actors of one attempt. It is pickled to the coordinator, which replaces workers."""

    config: RunConfig
    home: Path
    label: str
    """Prefix of actor names: run and attempt."""
    group: PlacementGroup | None
    """None if no worker requests devices."""

    def member(self, actor_slot: ActorSlot, rank: int = 0) -> Member:
        """Start a policy's worker, or one that hosts environments. `rank` counts the policy's workers of its kind."""
        if not actor_slot.policy:
            environments = self.config.environment, self.config.run.seed
            return Member(actor_slot.name, partial(self.actor, EnvWorker, actor_slot, *environments))
        spec = WorkerSpec(actor_slot.name, actor_slot.policy, self.config, self.home, actor_slot.gpus, rank)
        spawn = partial(self.actor, WORKER_CLASSES[actor_slot.kind], actor_slot, spec)
        return Member(actor_slot.name, spawn, actor_slot.policy)

    def actor(self, cls: type, actor_slot: ActorSlot, *arguments: Any, life: int = 0) -> Handle:
        """Create an actor of `cls` in the slot's bundle. Returns before the process has started."""
        return start_actor(cls, actor_slot, self.label, self.group, *arguments, life=life)


def start_actor(
    cls: type, actor_slot: ActorSlot, label: str, group: PlacementGroup | None, *arguments: Any, life: int = 0
) -> Handle:
    """Create an actor of `cls` in the slot's bundle, with a name that begins with `label`. Returns before the process has started."""
    name = f"{label}-{actor_slot.name}" + (f"-life-{life}" if life else "")
    options: dict[str, Any] = {"name": name, "num_cpus": actor_slot.cpus, "num_gpus": actor_slot.gpus}
    if group is not None and actor_slot.bundle is not None:
        options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=actor_slot.bundle
        )
    remote: Any = ray.remote(cls)
    if cls in CONTROLLED:
        remote = ray.remote(concurrency_groups={CONTROL: 2})(cls)  # type: ignore[call-overload]
    return remote.options(**options).remote(*arguments)


class Mutex:
    """`threading.Lock` as a context manager, which may be pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Mutex"], tuple[()]]:
        return Mutex, ()
