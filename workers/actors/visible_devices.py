"""Devices of short jobs: they are short enough for a CPU, so they use the GPUs that are visible and request none."""

from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig
from training_core.devices import cuda_is_visible


def rollout_gpus(config: RunConfig, policy: str) -> float:
    """GPUs of a policy that generates in this process; 0 without a visible one."""
    wanted = config.policies[policy].devices.rollout_gpus
    return wanted if wanted and cuda_is_visible() else 0.0


def on_visible_devices(config: MarlConfig) -> MarlConfig:
    """The config without GPUs where none is visible."""
    if not config.resources.gpus or cuda_is_visible():
        return config
    return config.model_copy(update={"resources": config.resources.model_copy(update={"gpus": 0.0})})
