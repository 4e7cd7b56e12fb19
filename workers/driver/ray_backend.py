"""RayBackend: a run on Ray. Connects to Ray, waits for devices, starts the actors, sends each call to the lead actor, and polls for stop
requests while it waits.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from training_core.config.kinds import AnyConfig
from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig
from training_core.errors import StopRequested, TroupeError
from training_core.importing import resolve
from training_core.llm.base_models.folder_creation import Progress, creation_progress, silent
from training_core.llm.base_models.registry import created_folder
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.environment_workers import MarlEnvWorker
from workers.actors.evaluators import NetworksEvaluator, PolicyEvaluator
from workers.actors.marl_worker import MarlWorker
from workers.actors.members import CONTROL, LOST_REMEDY, Handle, Member, Spawner, answer, exit_of, start_actor
from workers.actors.remote_environments import Host, RemoteMaker, RemotePool
from workers.actors.remote_policy import RemotePolicy
from workers.driver.worker_output import Heard, WorkerOutput
from workers.gateway.gateway import announce, retract
from workers.kinds import WORKER_KINDS
from workers.protocol import (
    Attempt,
    Collected,
    EpisodeKind,
    Span,
    Started,
    StopCheck,
    StopChecks,
    System,
    TrainingBackend,
    Updated,
    WorkerLost,
)
from workers.sizing.placement import Demand, Placement, SlotKind, demand, place, refuse_gpus
from workers.storage.folders import check_mark, marked

MESSAGE_SECONDS = 10.0
"""Seconds between messages about missing devices."""
CLOSE_SECONDS = 15.0
"""Maximum seconds for the lead actor to end external rollouts."""
RAY_ENDS_SECONDS = 3.0
"""Seconds in which the other processes of a stopped Ray end after an actor."""
POLL_SECONDS = 0.5
ASK_SECONDS = 2.0
"""Seconds between questions what a run waits for that outside programs do."""
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class RayBackend(TrainingBackend):
    """A typed stub of the lead actor: the coordinator, or the trainer of small networks. Imports no torch."""

    def __init__(
        self,
        attempt: Attempt,
        stop_checks: StopChecks,
        log_line: Callable[[str], None],
        waiting: Progress = silent,
        heard: Heard | None = None,
    ) -> None:
        """`log_line` gets messages about missing devices, `waiting` the progress of a base model, `heard` the workers' output."""
        self._attempt = attempt
        self._stop_checks = stop_checks
        self._log_line = log_line
        self._waiting = waiting
        self._reported: tuple[float, str] | None = None
        self._session: Session | None = None
        self._at_start: Started | None = None
        self._evaluation: Any = None
        """Reference to the results of the evaluator."""
        self._first_calls: list[Any] = []
        """Calls that end when a worker has been constructed and has read the run's folder, or when it has failed to."""
        self._asked = 0.0
        """When the lead actor was last asked what it waits for, in seconds of the monotonic clock."""
        connect(attempt.config)
        self._output = WorkerOutput(f"{attempt.run}-{attempt.number}", heard) if heard else None
        if self._output:
            self._output.open()

    def start(self, resume_from: Path | None) -> Started:
        """Wait for devices, then start all workers.

        Raises StoppedBeforeStart, Superseded, WorkerLost, and FolderNotShared if a worker does not see the run's folder.
        """
        self._session = open_session(self._attempt, self._stop_checks.starting, self._log_line)
        with marked(self._attempt.folder) as mark:
            self._first_calls = [
                worker.__ray_call__.remote(check_mark, mark) for worker in self._session.actors
            ]
            try:
                evaluator = self._session.evaluator
                loaded = evaluator.start.remote(resume_from) if evaluator is not None else None
                self._at_start = self._call(self._check_starting, TrainingBackend.start, resume_from)
                if loaded is not None:
                    self._wait(loaded, self._check_starting)
            except (TroupeError, OSError):
                self._check_first_calls()  # a node without the folder does not have its models either
                raise
            while self._first_calls:
                self._stop_checks.starting()
                self._check_first_calls(POLL_SECONDS)
        announce(self._at_start, self._attempt.folder)
        return replace(self._at_start, machines=cluster_machines())

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        self._call(self._stop_checks.running, TrainingBackend.play_ahead, completed, admission)

    def collect(self, iteration: int) -> Collected:
        try:
            return self._call(self._check_collecting, TrainingBackend.collect, iteration)
        finally:
            self._stop_checks.waiting("")

    def update(self, iteration: int) -> Updated:
        return self._call(self._stop_checks.running, TrainingBackend.update, iteration)

    def publish(self, iteration: int) -> list[Span]:
        return self._call(self._stop_checks.running, TrainingBackend.publish, iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        try:
            return self._call(self._check_evaluating, TrainingBackend.evaluate, iteration, kind, episodes)
        finally:
            self._stop_checks.waiting("")

    def begin_evaluation(self, iteration: int, plays: Sequence[tuple[EpisodeKind, int]]) -> None:
        assert self._session is not None and self._session.evaluator is not None, "start comes first"
        snapshot = self._call(self._stop_checks.running, TrainingBackend.snapshot)
        self._evaluation = self._session.evaluator.evaluate_snapshot.remote(snapshot, iteration, list(plays))

    def evaluated(self, *, wait: bool) -> list[Collected] | None:
        """Raises WorkerLost, Superseded, and what the evaluator raises."""
        while not ray.wait([self._evaluation], timeout=POLL_SECONDS if wait else 0.0)[0]:
            self._check_evaluating()
            if not wait or self._stop_checks.stop_requested():
                return None
        try:
            collected: list[Collected] = answer(self._evaluation)
        except RayActorError as error:
            raise _lost("the evaluator", error) from error
        return collected

    def system(self) -> System:
        return self._call(self._stop_checks.running, TrainingBackend.system)

    def save(self, folder: Path) -> None:
        """Write a checkpoint, possibly while another call is running."""
        assert self._session is not None, "start comes first"
        self._wait(self._session.control("save", folder), self._stop_checks.running)

    def close(self) -> None:
        """End all workers and free the devices."""
        retract(self._at_start, self._attempt.folder)
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._output is not None:
            self._output.close()
            self._output = None

    def _call(
        self,
        stop_check: StopCheck,
        method: Callable[Concatenate[TrainingBackend, Parameters], Result],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Result:
        """Call a method of the lead actor. Raises WorkerLost, and what the method or `stop_check` raises."""
        assert self._session is not None, "start comes first"
        remote = getattr(self._session.lead, method.__name__).remote
        result: Result = self._wait(remote(*arguments, **options), stop_check)
        return result

    def _wait(self, reference: Any, stop_check: StopCheck) -> Any:
        """The result of a call; `stop_check` is called every POLL_SECONDS until it is available."""
        while not ray.wait([reference], timeout=POLL_SECONDS)[0]:
            stop_check()
        try:
            return answer(reference)
        except RayActorError as error:
            raise _lost("the process that leads the run", error) from error

    def _check_starting(self) -> None:
        """Report the progress of base models, if the data folder is on this machine.

        Raises Superseded, StoppedBeforeStart, and what the first calls raised: before large models are loaded.
        """
        self._stop_checks.starting()
        self._check_first_calls()
        config = self._attempt.config
        for name in dict.fromkeys(config.models.values()):
            folder = created_folder(name, config.environment, self._attempt.home)
            progress = creation_progress(folder) if folder else None
            if progress and progress != self._reported:
                self._reported = progress
                self._waiting(*progress)

    def _check_first_calls(self, seconds: float = 0.0) -> None:
        """Wait for the first calls. Raises FolderNotShared, and what a worker's constructor raised."""
        if not self._first_calls:
            return
        ended, self._first_calls = ray.wait(
            self._first_calls, num_returns=len(self._first_calls), timeout=seconds
        )
        for reference in ended:
            with suppress(RayActorError):  # a worker that died is replaced when it is called
                answer(reference)

    def _check_collecting(self) -> None:
        """Raises Superseded, StopRequested."""
        self._stop_checks.running()
        self._stop_checks.collecting()
        if self._stop_checks.must_end_now():
            raise StopRequested("asked to end at once")
        self._watch_external()

    def _check_evaluating(self) -> None:
        """Raises Superseded."""
        self._stop_checks.running()
        self._stop_checks.evaluating()
        self._watch_external()

    def _watch_external(self) -> None:
        """Tell what the lead actor waits for that outside programs do, and end that waiting once a stop is requested."""
        if not self._attempt.config.waits_for_external:
            return
        end = self._stop_checks.stop_requested()
        if not end and time.monotonic() - self._asked < ASK_SECONDS:
            return
        assert self._session is not None
        self._asked = time.monotonic()
        with suppress(RayError):  # the lead actor has died, which the call in progress reports
            self._stop_checks.waiting(
                ray.get(self._session.control("external_wait", end), timeout=ASK_SECONDS)
            )


@dataclass
class Session:
    """The actors of one attempt."""

    lead: Handle
    """The actor that the driver calls: the coordinator, or the trainer of small networks."""
    workers: Mapping[str, Member]
    """By name of the actor slot, as first started; the coordinator starts replacements."""
    group: PlacementGroup | None
    evaluator: Handle | None = None
    """The actor that plays evaluations during training, if the config requests one."""

    @property
    def actors(self) -> list[Handle]:
        """All actors, as first started."""
        evaluators = [self.evaluator] if self.evaluator is not None else []
        return [self.lead, *evaluators, *(member.handle for member in self.workers.values())]

    def control(self, method: str, *arguments: Any) -> Any:
        """Call the lead actor while another call may be running. Returns a reference to the result."""
        return getattr(self.lead, method).options(concurrency_group=CONTROL).remote(*arguments)

    def close(self) -> None:
        """End external rollouts, then all actors, and free the devices."""
        with suppress(RayError):  # the lead actor has died or is busy: what it holds ends with its process
            ray.get(self.control("close"), timeout=CLOSE_SECONDS)
        for handle in self.actors:
            ray.kill(handle)
        if self.group is not None:  # also ends replacements, which are in its bundles
            remove_placement_group(self.group)


def connect(config: AnyConfig) -> None:
    """Connect to the cluster that RAY_ADDRESS names (in a job: the job's own), or start a private one of this machine.

    Raises ConfigError if the config requests GPUs of a private one that has none: it gets no other machines.
    """
    if not ray.is_initialized():
        ray.init(logging_level=logging.WARNING, log_to_driver=True, include_dashboard=False)
    if not os.environ.get("RAY_ADDRESS") and not ray.cluster_resources().get("GPU"):  # type: ignore[no-untyped-call]
        refuse_gpus(config, "this machine")


def open_session(attempt: Attempt, stop_check: StopCheck, log_line: Callable[[str], None]) -> Session:
    """Wait for devices, then start all actors, slow ones first. Returns before their processes have started."""
    config, label = attempt.config, f"{attempt.run}-{attempt.number}"
    placement = place(config)
    group = _reserve(placement, demand(config), label, stop_check, log_line)
    start = resolve(WORKER_KINDS[config.agents].actors)
    session: Session = start(attempt, config, placement, label, group)
    return session


def start_trainer(
    attempt: Attempt, config: MarlConfig, placement: Placement, label: str, group: PlacementGroup | None
) -> Session:
    """Start the actors of small networks."""
    hosts = [
        Host(slot.name, partial(start_actor, MarlEnvWorker, slot, label, group, config.environment))
        for slot in placement.of("environment")
    ]
    make = RemoteMaker(hosts) if hosts else None
    trainer = start_actor(MarlWorker, placement.of("trainer")[0], label, group, config, make, attempt.number)
    evaluators = [
        start_actor(NetworksEvaluator, slot, label, group, config, attempt.number)
        for slot in placement.of("evaluator")
    ]
    return Session(trainer, {host.name: host for host in hosts}, group, *evaluators)


def start_policies(
    attempt: Attempt, config: RunConfig, placement: Placement, label: str, group: PlacementGroup | None
) -> Session:
    """Start the actors of language models."""
    spawner = Spawner(config, attempt.home, label, group)
    members: dict[str, Member] = {}
    for slot in placement.actor_slots:
        if slot.kind not in ("coordinator", "evaluator"):
            rank = placement.of(slot.kind, slot.policy).index(slot)
            members[slot.name] = spawner.member(slot, rank)

    def of(kind: SlotKind, policy: str = "") -> list[Member]:
        return [members[slot.name] for slot in placement.of(kind, policy)]

    policies = {}
    for name in config.used_policies:
        colocated, devices = of("policy", name), config.policies[name].devices
        policies[name] = RemotePolicy(
            colocated or of("rollout", name),
            colocated or of("update", name),
            collective=devices.weight_transfer == "collective",
        )
    slot = placement.of("coordinator")[0]
    pool = RemotePool(of("environment"))
    coordinator = spawner.actor(RolloutCoordinator, slot, config, policies, pool, attempt.number)
    evaluators = [
        start_actor(PolicyEvaluator, slot, label, group, config, attempt.number, attempt.home)
        for slot in placement.of("evaluator")
    ]
    return Session(coordinator, members, group, *evaluators)


def _lost(process: str, error: RayActorError) -> WorkerLost:
    """The failure of an attempt whose process died: by itself, or with all of Ray."""
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    deadline = time.monotonic() + RAY_ENDS_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
        except OSError:
            return WorkerLost("Ray was stopped or restarted, which ended the run's processes.")
        time.sleep(0.2)
    return WorkerLost(f"{process} died: {exit_of(error)}.", remedy=LOST_REMEDY)


def _reserve(
    placement: Placement, wanted: Demand, label: str, stop_check: StopCheck, log_line: Callable[[str], None]
) -> PlacementGroup | None:
    """Reserve all bundles in one placement group. While others occupy the devices, report what the run waits for."""
    if not placement.bundles:
        return None
    group: PlacementGroup = placement_group(placement.bundles, strategy="PACK", name=label)
    last_message = time.monotonic() - MESSAGE_SECONDS + 1.0
    try:
        while not group.wait(timeout_seconds=0.5):
            stop_check()
            if time.monotonic() - last_message >= MESSAGE_SECONDS:
                last_message = time.monotonic()
                log_line(_missing_devices(wanted))
    except BaseException:
        remove_placement_group(group)
        raise
    return group


def _missing_devices(wanted: Demand) -> str:
    free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    available = f"free are {free.get('CPU', 0):g} of {total.get('CPU', 0):g} CPU cores and "
    available += f"{free.get('GPU', 0):g} of {total.get('GPU', 0):g} GPUs"
    short = wanted.cpus > total.get("CPU", 0) or wanted.gpus > total.get("GPU", 0)
    remedy = (
        "; the cluster is too small: add nodes, or lower policies.*.devices and resources" if short else ""
    )
    return f"waiting for {wanted}: {available}{remedy}"


def cluster_machines() -> list[dict[str, Any]]:
    """Return the machines of the cluster that can run workers: {"host", "cores", "memory" (bytes), "gpus": [{"name"}]}."""
    machines = []
    for node in ray.nodes():  # type: ignore[no-untyped-call]
        resources = node.get("Resources") or {}
        if node.get("Alive") and (resources.get("CPU") or resources.get("GPU")):
            model = next(
                (name.partition(":")[2] for name in resources if name.startswith("accelerator_type:")), ""
            )
            machines.append({
                "host": str(node.get("NodeManagerHostname", "")),
                "cores": int(resources.get("CPU", 0)),
                "memory": int(resources.get("memory", 0) + resources.get("object_store_memory", 0)),
                "gpus": [{"name": model}] * int(resources.get("GPU", 0)),
            })  # fmt: skip
    return machines
