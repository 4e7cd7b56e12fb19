"""How long a run takes on GPUs, roughly: its tokens over the rates of a measured step. No torch.

The only measured step is that of two roles with 1.7 billion parameters on one H100 (docs/operate/gpu.md): its first iteration, with
compilation, so that the rates are low. Times of other sizes are in proportion to the parameters. Other cards are not measured.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from training_core.config.models import Policy
from training_core.config.run import RunConfig

CARD, MEASURED = "H100", "2026-11-27, commit 719057fa"
PARAMETERS = 1.72e9
"""Of the measured model."""
AT_ONCE, GENERATED = 256, 11_250
"""Answers that were generated at once, and sampled tokens per second: 262,144 tokens in 23.3 s."""
EXPONENT = 0.78
"""Tokens per second grow with this power of the answers at once: 6,500 at 64 and 19,100 at 256 without the rest of a step."""
UPDATED = 10_000
"""Tokens of answers and prompts that an update computes per second: about 290,000 in 28.7 s."""
RECOMPUTED = REFERENCE = 1 / 3
"""A further forward pass, as a share of forward and backward pass: by activation checkpointing, and by the model of the KL penalty."""


@dataclass(frozen=True)
class Duration:
    """Estimated times in seconds, if every answer and episode has its maximum length."""

    card: str
    measured: str
    """Date and commit of the measurement."""
    rollout: float
    """Per iteration."""
    update: float
    """Per iteration."""
    evaluation: float
    """Per evaluation."""
    total: float
    """Of all iterations and evaluations of the run."""


def duration(
    config: RunConfig, parameters: Mapping[str, int], prompt: int, rounds: tuple[int, int], episodes: int
) -> Duration | None:
    """The times of a run; None if a policy computes on a CPU or outside, or its number of parameters is unknown.

    `rounds` are the numbers of iterations and of evaluations, `episodes` those of each evaluation.
    Policies generate one after another, and update side by side, as they do in a synchronous run.
    """
    used = [config.policies[name] for name in config.used_policies]
    if set(parameters) != set(config.used_policies) or not all(map(_on_gpus, used)):
        return None
    tree = config.rollout.tasks * config.rollout.group_size
    continued = _continued(config)
    rollout = sum(_generation(config, name, tree, parameters[name], continued[name]) for name in parameters)
    evaluation = sum(_generation(config, name, episodes, parameters[name]) for name in parameters)
    trained = [name for name in parameters if name in config.trained_policies]
    update = max((_update(config, name, parameters[name], prompt) for name in trained), default=0.0)
    total = rounds[0] * (rollout + update) + rounds[1] * evaluation
    return Duration(CARD, MEASURED, rollout, update, evaluation, total)


def _on_gpus(policy: Policy) -> bool:
    devices, engine = policy.devices, policy.engine
    updates = devices.update_gpus if devices.placement == "apart" else devices.rollout_gpus
    return bool(devices.rollout_gpus and updates) and engine.weights != "remote"


def _tokens(config: RunConfig, policy: str, episodes: int, *, trained: bool = False) -> int:
    """Sampled tokens of a policy's roles in this many episodes."""
    roles = [config.team.roles[name] for name in config.team.order]
    longest = [
        role.sampling.max_tokens for role in roles if role.policy == policy and (role.trained or not trained)
    ]
    return episodes * config.max_turns * sum(longest)


def _continued(config: RunConfig) -> Counter[str]:
    """Sampled tokens of an iteration's continuations by policy."""
    tokens: Counter[str] = Counter()
    for name, answers in config.continued_answers.items():
        tokens[config.team.roles[name].policy] += answers * config.team.roles[name].sampling.max_tokens
    return tokens


def _generation(config: RunConfig, policy: str, episodes: int, parameters: int, continued: int = 0) -> float:
    section = config.policies[policy]
    workers = section.devices.rollout_workers
    at_once = min(section.engine.sequences, -(-episodes // workers), AT_ONCE)
    rate: float = GENERATED * (max(at_once, 1) / AT_ONCE) ** EXPONENT * PARAMETERS / parameters
    return (_tokens(config, policy, episodes) + continued) / (rate * workers)


def _update(config: RunConfig, policy: str, parameters: int, prompt: int) -> float:
    section, tree = config.policies[policy], config.rollout.tasks * config.rollout.group_size
    devices = section.devices
    gpus = (
        devices.update_workers * devices.update_gpus if devices.placement == "apart" else devices.rollout_gpus
    )
    speakers = sum(role.policy == policy and role.trained for role in config.team.roles.values())
    tokens = _tokens(config, policy, tree, trained=True)
    tokens += config.rollout.tasks * config.max_turns * speakers * prompt
    passes = 1 + RECOMPUTED * section.learner.activation_checkpointing
    passes += REFERENCE * (config.algorithm.kl_coefficient > 0)
    return tokens * passes * parameters / PARAMETERS / (UPDATED * gpus)
