"""Session: the actors of one attempt on Ray. Connects to Ray, waits for devices, starts the actors, and ends them."""

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from training_core.config.kinds import AnyConfig
from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig
from training_core.importing import resolve
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.marl_env_worker import MarlEnvWorker
from workers.actors.marl_worker import MarlWorker
from workers.cluster.members import Member
from workers.cluster.pool import RemotePool
from workers.cluster.remote_environments import Host, RemoteMaker
from workers.cluster.remote_policy import RemotePolicy
from workers.cluster.spawner import CONTROL, Handle, Spawner, start_actor
from workers.kinds import WORKER_KINDS
from workers.protocol.records import Attempt, StopCheck
from workers.sizing.demand import Demand, demand
from workers.sizing.gpus import refuse_gpus
from workers.sizing.placement import Placement, SlotKind, place

MESSAGE_SECONDS = 10.0
"""Seconds between messages about missing devices."""
CLOSE_SECONDS = 15.0
"""Maximum seconds for the lead actor to end external rollouts."""


@dataclass
class Session:
    """The actors of one attempt."""

    lead: Handle
    """The actor that the driver calls: the coordinator, or the trainer of small networks."""
    workers: dict[str, Handle]
    """By name of the actor slot, as first started; the coordinator starts replacements."""
    group: PlacementGroup | None

    @property
    def actors(self) -> list[Handle]:
        """All actors, as first started."""
        return [self.lead, *self.workers.values()]

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
        Host(
            actor_slot.name, partial(start_actor, MarlEnvWorker, actor_slot, label, group, config.environment)
        )
        for actor_slot in placement.of("environment")
    ]
    workers = {host.name: host.worker for host in hosts}
    make = RemoteMaker(hosts) if hosts else None
    trainer = start_actor(MarlWorker, placement.of("trainer")[0], label, group, config, make, attempt.number)
    return Session(trainer, workers, group)


def start_policies(
    attempt: Attempt, config: RunConfig, placement: Placement, label: str, group: PlacementGroup | None
) -> Session:
    """Start the actors of language models."""
    spawner = Spawner(config, attempt.home, label, group)
    workers: dict[str, Handle] = {}
    for actor_slot in placement.actor_slots:
        if actor_slot.policy:
            rank = placement.of(actor_slot.kind, actor_slot.policy).index(actor_slot)
            workers[actor_slot.name] = spawner.policy_worker(actor_slot, rank=rank)
    environments = placement.of("environment")
    for actor_slot in environments:
        workers[actor_slot.name] = spawner.env_worker(actor_slot)
    pool = RemotePool(spawner, environments, [workers[actor_slot.name] for actor_slot in environments])
    policies = {name: _remote_policy(name, placement, spawner, workers) for name in config.used_policies}
    slot = placement.of("coordinator")[0]
    coordinator = spawner.actor(RolloutCoordinator, slot, config, policies, pool, attempt.number)
    return Session(coordinator, workers, group)


def _remote_policy(
    policy: str, placement: Placement, spawner: Spawner, workers: dict[str, Handle]
) -> RemotePolicy:
    def members(kind: SlotKind) -> list[Member]:
        return [Member(slot, workers[slot.name]) for slot in placement.of(kind, policy)]

    colocated = members("policy")
    if colocated:
        return RemotePolicy(spawner, colocated, colocated)
    return RemotePolicy(spawner, members("rollout"), members("update"))


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
