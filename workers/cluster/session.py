"""Connect to Ray, take the run's devices at once or wait for them, start every worker, give everything back."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from training_core.config.kinds import AnyConfig
from training_core.config.marl.run import MarlConfig
from training_core.config.run import RunConfig
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.marl_env_worker import MarlEnvWorker
from workers.actors.marl_worker import MarlWorker
from workers.cluster.pool import RemotePool
from workers.cluster.proxies import ColocatedProxy, SeparateProxy
from workers.cluster.remote_environments import Host, RemoteMaker
from workers.cluster.spawner import CONTROL, Handle, Spawner, start_actor
from workers.cluster.updaters import Updaters
from workers.protocol.records import StopCheck
from workers.protocol.spec import PolicyProxy
from workers.sizing.demand import Demand, demand
from workers.sizing.placement import ActorSlot, Placement, place

log = logging.getLogger(__name__)
SAY_EVERY = 10.0
"""Seconds between lines that say what a waiting run waits for."""


CLOSE_SECONDS = 5.0
"""How long a coordinator may take to end what it began outside."""


@dataclass
class Session:
    """The actors of one attempt."""

    lead: Handle
    """Whom the driver asks: the coordinator, or the trainer of small networks."""
    workers: dict[str, Handle]
    """By name of the actor slot, as first started (replacements are the coordinator's)."""
    group: PlacementGroup | None

    def control(self, method: str, *arguments: Any) -> Any:
        """Call who leads while another call is under way; a reference to the answer."""
        return getattr(self.lead, method).options(concurrency_group=CONTROL).remote(*arguments)

    def close(self) -> None:
        """End what was begun outside, then every worker, and give the devices back."""
        with suppress(RayError):  # it has died, or does not come to it: what it holds then ends with it
            ray.get(self.control("close"), timeout=CLOSE_SECONDS)
        for handle in (self.lead, *self.workers.values()):
            ray.kill(handle)
        if self.group is not None:  # also ends replacements, which live in its bundles
            remove_placement_group(self.group)


def connect() -> None:
    """Join the cluster that RAY_ADDRESS names (in a job: the job's own), or start a private one."""
    if not ray.is_initialized():
        ray.init(logging_level=logging.WARNING, log_to_driver=True, include_dashboard=False)


def open_session(
    config: AnyConfig, home: Path, label: str, stop_check: StopCheck, say: Callable[[str], None]
) -> Session:
    """Start all workers at once; slow ones first. Returns before they are ready: who leads waits for them."""
    placement = place(config)
    group = _take(placement, demand(config), label, stop_check, say)
    if isinstance(config, MarlConfig):
        return _with_trainer(config, placement, label, group)
    return _with_router(config, placement, Spawner(config, home, label, group), group)


def _with_trainer(
    config: MarlConfig, placement: Placement, label: str, group: PlacementGroup | None
) -> Session:
    hosts = [
        Host(
            actor_slot.name, partial(start_actor, MarlEnvWorker, actor_slot, label, group, config.environment)
        )
        for actor_slot in placement.of("environment")
    ]
    workers = {host.name: host.worker for host in hosts}
    make = RemoteMaker(hosts) if hosts else None
    trainer = start_actor(MarlWorker, placement.of("trainer")[0], label, group, config, make)
    return Session(trainer, workers, group)


def _with_router(
    config: RunConfig, placement: Placement, spawner: Spawner, group: PlacementGroup | None
) -> Session:
    workers: dict[str, Handle] = {}
    for actor_slot in placement.actor_slots:
        if actor_slot.policy:
            rank = placement.of(actor_slot.kind, actor_slot.policy).index(actor_slot)
            workers[actor_slot.name] = spawner.policy_worker(actor_slot, rank=rank)
    environments = placement.of("environment")
    for actor_slot in environments:
        workers[actor_slot.name] = spawner.env_worker(actor_slot)
    pool = RemotePool(spawner, environments, [workers[actor_slot.name] for actor_slot in environments])
    proxies = {policy: _port(policy, placement, spawner, workers) for policy in config.used_policies}
    coordinator = spawner.actor(RolloutCoordinator, placement.of("coordinator")[0], config, proxies, pool)
    return Session(coordinator, workers, group)


def _port(policy: str, placement: Placement, spawner: Spawner, workers: dict[str, Handle]) -> PolicyProxy:
    colocated = placement.of("policy", policy)
    if colocated:
        return ColocatedProxy(colocated[0], workers[colocated[0].name])
    actor_slots = placement.of("rollout", policy)
    updates: list[ActorSlot] = placement.of("update", policy)
    updater = Updaters(updates, [workers[actor_slot.name] for actor_slot in updates]) if updates else None
    return SeparateProxy(
        spawner, actor_slots, [workers[actor_slot.name] for actor_slot in actor_slots], updater
    )


def _take(
    placement: Placement, wanted: Demand, label: str, stop_check: StopCheck, say: Callable[[str], None]
) -> PlacementGroup | None:
    """All bundles in one placement group; while others hold the devices, says what the run waits for."""
    if not placement.bundles:
        return None
    group: PlacementGroup = placement_group(placement.bundles, strategy="PACK", name=label)
    said = time.monotonic() - SAY_EVERY + 1.0
    try:
        while not group.wait(timeout_seconds=0.5):
            stop_check()
            if time.monotonic() - said >= SAY_EVERY:
                said = time.monotonic()
                say(_waiting(wanted))
    except BaseException:
        remove_placement_group(group)  # nobody waits for it any more
        raise
    return group


def _waiting(wanted: Demand) -> str:
    free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    have = f"free are {free.get('CPU', 0):g} of {total.get('CPU', 0):g} CPU cores and "
    have += f"{free.get('GPU', 0):g} of {total.get('GPU', 0):g} GPUs"
    short = wanted.cpus > total.get("CPU", 0) or wanted.gpus > total.get("GPU", 0)
    remedy = (
        "; the cluster is too small: add nodes, or lower policies.*.devices and resources" if short else ""
    )
    return f"waiting for {wanted}: {have}{remedy}"
