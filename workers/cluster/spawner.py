"""Makes a run's actors, each in its place; also used to replace one that died."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from training_core.config.run import RunConfig
from workers.actors.env_worker import EnvWorker
from workers.actors.marl_worker import MarlWorker
from workers.actors.policy_worker import PolicyWorker
from workers.actors.rollout_worker import RolloutWorker
from workers.actors.router import Router
from workers.actors.update_worker import UpdateWorker
from workers.protocol.spec import WorkerSpec
from workers.sizing.placement import Seat

Handle = Any
"""An actor's handle: its methods are known at run time only."""

CONTROL = "control"
"""Calls of this group are answered while another call is under way; all others one after the other, in order."""
CONTROLLED = (RolloutWorker, Router, MarlWorker)
"""Actors with such calls: weights that arrive while a rollout worker generates, a checkpoint while tasks are played."""

WORKER_CLASSES: dict[str, type] = {"policy": PolicyWorker, "rollout": RolloutWorker, "update": UpdateWorker}


@dataclass(frozen=True)
class Spawner:
    """What every actor of one attempt needs to know. Travels to the router, which replaces workers."""

    config: RunConfig
    home: Path
    label: str
    """Prefix of actor names: run and attempt."""
    group: PlacementGroup | None
    """None when no worker asks for anything."""

    def policy_worker(self, seat: Seat, life: int = 0, rank: int = 0) -> Handle:
        """A worker of one policy; `life` counts replacements, `rank` the policy's workers of its kind."""
        spec = WorkerSpec(seat.name, seat.policy, self.config, self.home, seat.gpus, rank)
        return self.actor(WORKER_CLASSES[seat.kind], seat, spec, life=life)

    def env_worker(self, seat: Seat, life: int = 0) -> Handle:
        """A worker that hosts environments."""
        return self.actor(EnvWorker, seat, self.config.environment, self.config.run.seed, life=life)

    def actor(self, cls: type, seat: Seat, *arguments: Any, life: int = 0) -> Handle:
        """An actor of `cls` in the seat's bundle. Returns at once; the process starts meanwhile."""
        return start_actor(cls, seat, self.label, self.group, *arguments, life=life)


def start_actor(
    cls: type, seat: Seat, label: str, group: PlacementGroup | None, *arguments: Any, life: int = 0
) -> Handle:
    """An actor of `cls` in the seat's bundle, by a name that begins with `label`. Returns at once; the process starts meanwhile."""
    name = f"{label}-{seat.name}" + (f"-life-{life}" if life else "")
    options: dict[str, Any] = {"name": name, "num_cpus": seat.cpus, "num_gpus": seat.gpus}
    if group is not None and seat.bundle is not None:
        options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=seat.bundle
        )
    remote: Any = ray.remote(cls)
    if cls in CONTROLLED:
        remote = ray.remote(concurrency_groups={CONTROL: 2})(cls)  # type: ignore[call-overload]
    return remote.options(**options).remote(*arguments)
