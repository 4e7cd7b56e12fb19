"""Spawner: starts a run's actors in their slots, and replacements for dead ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from training_core.config.run import RunConfig
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.env_worker import EnvWorker
from workers.actors.marl_worker import MarlWorker
from workers.actors.policy_worker import PolicyWorker
from workers.actors.rollout_worker import RolloutWorker
from workers.actors.update_worker import UpdateWorker
from workers.protocol.spec import WorkerSpec
from workers.sizing.placement import ActorSlot

Handle = Any
"""An actor's handle; its methods are known only at run time."""

CONTROL = "control"
"""Concurrency group of calls that run while another call is running; all other calls run one after another."""
CONTROLLED = (RolloutWorker, RolloutCoordinator, MarlWorker)
"""Actors with such calls: `load_weights` during generation, `save` while tasks are played."""

WORKER_CLASSES: dict[str, type] = {"policy": PolicyWorker, "rollout": RolloutWorker, "update": UpdateWorker}


@dataclass(frozen=True)
class Spawner:
    """Parameters of all actors of one attempt. It is pickled to the coordinator, which replaces workers."""

    config: RunConfig
    home: Path
    label: str
    """Prefix of actor names: run and attempt."""
    group: PlacementGroup | None
    """None if no worker requests devices."""

    def policy_worker(self, actor_slot: ActorSlot, life: int = 0, rank: int = 0) -> Handle:
        """Start a worker of one policy; `life` counts replacements, `rank` the policy's workers of its kind."""
        spec = WorkerSpec(actor_slot.name, actor_slot.policy, self.config, self.home, actor_slot.gpus, rank)
        return self.actor(WORKER_CLASSES[actor_slot.kind], actor_slot, spec, life=life)

    def env_worker(self, actor_slot: ActorSlot, life: int = 0) -> Handle:
        """Start a worker that hosts environments."""
        return self.actor(EnvWorker, actor_slot, self.config.environment, self.config.run.seed, life=life)

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
