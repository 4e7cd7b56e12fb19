"""The devices of a run's processes, to be compared with the cluster's before launch: a pure function of the config, without Ray.

All processes of a run are in one placement group: a run gets all of its devices at once or waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor
from typing import Literal

from training_core.config.kinds import AnyConfig
from training_core.config.marl import MarlConfig
from training_core.config.models import Devices
from training_core.config.rollout import Agent
from training_core.config.run import RunConfig
from training_core.devices import no_gpu
from training_core.errors import Advice, ConfigError
from training_core.importing import resolve
from training_core.llm.generation.engine_config import Torch
from workers.kinds import WORKER_KINDS

COORDINATOR_CPUS = 0.1
"""CPU cores that the coordinator requests; it is idle most of the time."""

SLACK = 1e-6
"""Difference of sums of devices that is rounding."""

SlotKind = Literal["policy", "rollout", "update", "coordinator", "trainer", "environment", "evaluator"]
Process = tuple[str, SlotKind, str, float, float]
"""Name, kind, policy, CPU cores, GPUs."""


@dataclass(frozen=True)
class ActorSlot:
    """One process of the run and its devices."""

    name: str
    """Readable and unique within the run, e.g. "rollout-planner-0"."""
    kind: SlotKind
    policy: str
    """Empty for processes that serve all policies."""
    cpus: float
    gpus: float
    bundle: int | None
    """Index in the placement group; None for a slot that requests no resources."""

    @property
    def resources(self) -> dict[str, float]:
        """Resources that the slot requests, without zeros."""
        amounts = {"CPU": self.cpus, "GPU": self.gpus}
        return {name: amount for name, amount in amounts.items() if amount > 0}


@dataclass(frozen=True)
class Placement:
    """Every actor slot of a run; each slot that requests resources has a bundle."""

    actor_slots: tuple[ActorSlot, ...]

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The placement group's bundles, in order."""
        return [actor_slot.resources for actor_slot in self.actor_slots if actor_slot.bundle is not None]

    def of(self, kind: SlotKind, policy: str = "") -> list[ActorSlot]:
        """Slots of one kind (and of one policy, if the kind has policies), in order."""
        return [
            actor_slot
            for actor_slot in self.actor_slots
            if actor_slot.kind == kind and actor_slot.policy == policy
        ]


def place(config: AnyConfig) -> Placement:
    """Slots of all workers; workers that load models come first, because they start slowly."""
    actor_slots: list[ActorSlot] = []
    bundles = 0
    for name, kind, policy, cpus, gpus in resolve(WORKER_KINDS[config.agents].processes)(config):
        requests = cpus > 0 or gpus > 0
        actor_slots.append(ActorSlot(name, kind, policy, cpus, gpus, bundles if requests else None))
        bundles += requests
    return Placement(tuple(actor_slots))


def trainer_processes(config: MarlConfig) -> Iterator[Process]:
    """Processes of small networks."""
    yield "trainer", "trainer", "", config.resources.cpus, config.resources.gpus
    yield from _environments(config.resources.environment_workers, config.resources.environment_cpus)
    yield from _evaluator(config)


def policy_processes(config: RunConfig) -> Iterator[Process]:
    """Processes of language models."""
    for policy in config.used_policies:
        yield from _pool(policy, config.policies[policy].devices, trained=policy in config.trained_policies)
    yield "coordinator", "coordinator", "", COORDINATOR_CPUS, 0.0
    yield from _environments(config.resources.environment_workers, config.resources.environment_cpus)
    yield from _evaluator(config)


def _evaluator(config: AnyConfig) -> Iterator[Process]:
    if config.evaluates_beside:
        yield "evaluator", "evaluator", "", config.evaluation.cpus, config.evaluation.gpus


def _environments(count: int, cpus: float) -> Iterator[Process]:
    for index in range(count):
        yield f"environment-{index}", "environment", "", cpus, 0.0


def _pool(policy: str, devices: Devices, *, trained: bool) -> Iterator[Process]:
    """One policy's devices: a single slot if colocated, else rollout slots and, if trained, update slots."""
    if devices.placement == "colocated":
        yield f"policy-{policy}", "policy", policy, devices.rollout_cpus, devices.rollout_gpus
        return
    if trained:
        for rank in range(devices.update_workers):
            name = f"update-{policy}-{rank}" if devices.update_workers > 1 else f"update-{policy}"
            yield name, "update", policy, devices.update_cpus, devices.update_gpus
    for index in range(devices.rollout_workers):
        yield f"rollout-{policy}-{index}", "rollout", policy, devices.rollout_cpus, devices.rollout_gpus


def amount(number: float, devices: str) -> str:
    """A number of devices in words: "1 GPU", "0.5 GPUs", "2 GPUs on one node"."""
    return f"{number:g} {devices.replace('s', '', 1) if number == 1 else devices}"


@dataclass(frozen=True)
class Demand:
    """Devices that a run occupies."""

    cpus: float
    gpus: float
    bundles: tuple[dict[str, float], ...]
    """Bundles, each of which must fit on one node, e.g. {"CPU": 0.5, "GPU": 1.0}."""

    def __str__(self) -> str:
        words = [amount(self.cpus, "CPU cores")] if self.cpus else []
        words += [amount(self.gpus, "GPUs")] if self.gpus else []
        return " and ".join(words) or "nothing"


def demand(config: AnyConfig) -> Demand:
    """The sum over all workers of the run, and the bundles of its placement group."""
    bundles = place(config).bundles
    cpus = sum(bundle.get("CPU", 0.0) for bundle in bundles)
    gpus = sum(bundle.get("GPU", 0.0) for bundle in bundles)
    return Demand(round(cpus, 4), round(gpus, 4), tuple(bundles))


@dataclass(frozen=True)
class Pool:
    """Processes of one policy, or shared ones (environments, coordinator), and their total devices."""

    name: str
    """A policy's name; "environments", "coordinator", "trainer" and "evaluator" for shared processes."""
    kind: str
    """policy, environments, coordinator, evaluator or trainer (of small networks: acts and learns for all policies)."""
    workers: int
    cpus: float
    gpus: float


def pools(config: AnyConfig) -> list[Pool]:
    """Devices by pool of processes, policies first."""
    slots: dict[tuple[str, str], list[ActorSlot]] = {}
    for actor_slot in place(config).actor_slots:
        shared = "environments" if actor_slot.kind == "environment" else actor_slot.kind
        key = ("policy", actor_slot.policy) if actor_slot.policy else (shared, shared)
        slots.setdefault(key, []).append(actor_slot)
    return [
        Pool(
            name,
            kind,
            len(actor_slots),
            round(sum(actor_slot.cpus for actor_slot in actor_slots), 4),
            round(sum(actor_slot.gpus for actor_slot in actor_slots), 4),
        )
        for (kind, name), actor_slots in slots.items()
    ]


def requested_gpus(config: AnyConfig) -> dict[str, float]:
    """GPUs of one process by config field, without zeros."""
    return {_field(slot): slot.gpus for slot in place(config).actor_slots if slot.gpus > 0}


def requested_cpus(config: AnyConfig) -> dict[str, float]:
    """CPU cores of one process by config field, without zeros and without the coordinator, whose cores no field sets."""
    slots = [slot for slot in place(config).actor_slots if slot.cpus > 0 and slot.kind != "coordinator"]
    return {_field(slot, "cpus"): slot.cpus for slot in slots}


def fewer_cpus(config: AnyConfig, cpus: float) -> dict[str, float]:
    """Overrides with which all processes of a run fit `cpus` cores: each field in proportion; empty if nothing is left for them."""
    slots = place(config).actor_slots
    fixed = sum(slot.cpus for slot in slots if slot.kind == "coordinator")
    wanted = sum(slot.cpus for slot in slots) - fixed
    if cpus <= fixed or not wanted:
        return {}
    part = min((cpus - fixed) / wanted, 1.0)
    return {field: floor(cores * part * 100 + 1e-6) / 100 for field, cores in requested_cpus(config).items()}


def refuse_excess(config: AnyConfig, cpus: float, gpus: float, where: str) -> None:
    """Raises ConfigError, with a message per field and the values that fit, if the config requests more than `where` has."""
    if not gpus:
        refuse_gpus(config, where)
    wanted = demand(config)
    wrong: dict[str, str] = {}
    if wanted.gpus > gpus + SLACK:
        text = f"the run needs {amount(wanted.gpus, 'GPUs')} in total; {where} has {gpus:g}"
        wrong = dict.fromkeys(requested_gpus(config), Advice(text, "lower the fields of policies.*.devices"))
    if wanted.cpus > cpus + SLACK:
        text = f"the run needs {amount(wanted.cpus, 'CPU cores')} in total; {where} has {cpus:g}"
        wrong |= {
            field: Advice(text, f"set {field} = {fits:g}") for field, fits in fewer_cpus(config, cpus).items()
        } or {"": Advice(text, "use a machine with more cores")}
    if wrong:
        raise ConfigError(wrong)


def refuse_gpus(config: AnyConfig, where: str) -> None:
    """Raises ConfigError, with a message per field, if the config requests GPUs of `where`, which has none."""
    wrong = {field: no_gpu(gpus, where) for field, gpus in requested_gpus(config).items()}
    if wrong:
        raise ConfigError(wrong)


def on_evaluator(config: RunConfig) -> RunConfig:
    """The config with the evaluator's devices: one process, whose policies share its GPUs, and whose gateway selects its own port.

    vLLM needs as much of a GPU as in a rollout worker; with less, torch generates.
    """
    used = len(config.used_policies)
    cpus, gpus = config.evaluation.cpus / used, config.evaluation.gpus / used
    policies = dict(config.policies)
    for name in config.used_policies:
        policy = policies[name]
        devices, engine = policy.devices, policy.engine
        if engine.weights == "copied" and gpus < devices.rollout_gpus:
            engine = Torch(max_batch=engine.max_batch)
        placed = {"placement": "apart", "rollout_workers": 1, "rollout_cpus": cpus, "rollout_gpus": gpus}
        update = {"devices": devices.model_copy(update=placed), "engine": engine}
        policies[name] = policy.model_copy(update=update)
    workflow = config.workflow
    if isinstance(workflow, Agent):
        workflow = workflow.model_copy(update={"port": 0})
    return config.model_copy(update={"policies": policies, "workflow": workflow})


def refuse_evaluator(config: AnyConfig) -> str:
    """Raises ConfigError if the config requests an evaluator of a run in one process."""
    if config.evaluates_beside:
        text = '"beside" needs a process for the evaluator, and a run in this process has none'
        remedy = 'set evaluation.mode = "inline", or launch the run on Ray'
        raise ConfigError({"evaluation.mode": text}, remedy=remedy)
    return "training waits for evaluations"


def _field(slot: ActorSlot, devices: str = "gpus") -> str:
    if not slot.policy:
        section = "evaluation" if slot.kind == "evaluator" else "resources"
        return f"{section}.{'environment_' if slot.kind == 'environment' else ''}{devices}"
    return f"policies.{slot.policy}.devices.{'update' if slot.kind == 'update' else 'rollout'}_{devices}"
