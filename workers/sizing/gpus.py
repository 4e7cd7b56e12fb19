"""GPUs that a config requests of a machine or cluster without any."""

from training_core.config.kinds import AnyConfig
from training_core.devices import no_gpu
from training_core.errors import ConfigError
from workers.sizing.placement import ActorSlot, place


def requested_gpus(config: AnyConfig) -> dict[str, float]:
    """GPUs of one process by config field, without zeros."""
    return {_field(slot): slot.gpus for slot in place(config).actor_slots if slot.gpus > 0}


def refuse_gpus(config: AnyConfig, where: str) -> None:
    """Raises ConfigError, with a message per field, if the config requests GPUs of `where`, which has none."""
    wrong = {field: no_gpu(gpus, where) for field, gpus in requested_gpus(config).items()}
    if wrong:
        raise ConfigError(wrong)


def _field(slot: ActorSlot) -> str:
    if not slot.policy:
        return "resources.gpus"
    return f"policies.{slot.policy}.devices.{'update' if slot.kind == 'update' else 'rollout'}_gpus"
