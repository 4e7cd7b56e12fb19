"""The engine of `engine.type = "auto"`: vLLM where it is installed and the placement leaves it a GPU, torch otherwise.

`with_engines` decides once, when an attempt starts, before its workers; the estimate and the checks before a launch ask the same
function, on the machine where they run. What plays without an attempt, such as a conversation on a page, uses torch.
"""

from importlib.util import find_spec
from typing import TypeVar

from training_core.config.experiment import ExperimentConfig
from training_core.config.models import Policy
from training_core.llm.generation.engine_config import Auto, EngineSection, Torch, Vllm
from training_core.llm.models.adapter_config import Lora

VLLM_RANK = 512
"""Largest rank of an adapter that vLLM supports."""
C = TypeVar("C", bound=ExperimentConfig)


def vllm_is_installed() -> bool:
    """Whether this Python has vLLM; it is not imported."""
    return find_spec("vllm") is not None


def choose_engine(policy: Policy) -> tuple[EngineSection, str]:
    """The engine of a policy, and for "auto" the reason; otherwise the engine of the config and an empty text."""
    section = policy.engine
    if not isinstance(section, Auto):
        return section, ""
    if why := _why_not_vllm(policy):
        return Torch(max_batch=section.max_batch), why
    return Vllm(max_batch=section.max_batch), "vLLM is installed, and its workers have GPUs of their own"


def _why_not_vllm(policy: Policy) -> str:
    devices, adapter = policy.devices, policy.adapter
    if not devices.rollout_gpus:
        return "it generates on the CPU"
    if devices.placement == "colocated":
        return 'it shares its GPU with the update (devices.placement = "colocated")'
    if devices.rollout_gpus < 1:
        return f"its workers have only {devices.rollout_gpus:g} of a GPU (devices.rollout_gpus)"
    if isinstance(adapter, Lora) and adapter.rank > VLLM_RANK:
        return f"vLLM supports adapters up to rank {VLLM_RANK}"
    return "" if vllm_is_installed() else 'vLLM is not installed (pip install "troupe[gpu]")'


def with_engines(config: C) -> tuple[C, dict[str, str]]:
    """The config with an engine in place of each "auto", and by policy which one and why; the same config if there is none."""
    chosen = {name: choose_engine(config.policies[name]) for name in config.models}
    reasons = {name: f"{engine.type}: {why}" for name, (engine, why) in chosen.items() if why}
    if not reasons:
        return config, {}
    policies = {
        name: policy.model_copy(update={"engine": chosen[name][0]}) if name in chosen else policy
        for name, policy in config.policies.items()
    }
    return config.model_copy(update={"policies": policies}), reasons
