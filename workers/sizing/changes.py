"""The smallest change of a config with which its workers fit the memory of the machines, computed by the estimate itself.

Changes are tried in an order: first those that keep the numbers of a run and cost time, then those that change what is trained,
then more cards. Changes that turn out to be unnecessary are dropped, and of the rest the mildest values that suffice are taken.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from training_core.config.files import apply_overrides, parse_config
from training_core.config.kinds import AnyConfig
from training_core.config.run import RunConfig
from training_core.errors import Advice, ConfigError
from workers.sizing.estimates import Estimate, NodeMemory, estimate, largest_card, memory_shortages
from workers.sizing.placement import demand

Overrides = Mapping[str, Any]
Levels = Sequence[Overrides]
"""Changes of one kind for one policy, from the mildest to the strongest."""
LEAST_TOKENS, LEAST_BATCH = 512, 8
"""Smallest values that are suggested of learner.micro_batch_tokens and engine.max_batch."""


def smallest_change(
    config: AnyConfig,
    home: Path,
    nodes: Sequence[NodeMemory],
    cards: float = math.inf,
    prompt: int | None = None,
) -> dict[str, Any]:
    """Overrides with which every worker fits; empty if no tried change suffices. `cards`: GPUs of all nodes together."""
    trial = _Trial(config, home, nodes, cards, prompt)
    chosen: list[Levels] = []
    for levels in trial.candidates():
        if not trial.permitted(_strongest([*chosen, levels])):
            continue
        chosen.append(levels)
        if trial.fits(_strongest(chosen)):
            return trial.milder(trial.needed(chosen))
    return {}


def with_change(shortages: Sequence[Advice], change: Overrides) -> list[str]:
    """The shortages, followed by the change that ends all of them; each with its own remedy if there is none."""
    if not shortages or not change:
        return list(shortages)
    return [
        *(item.cause.removesuffix(":") + "." for item in shortages),
        f"The memory suffices with {change_text(change)}.",
    ]


def change_text(change: Overrides) -> str:
    """The change as words of the command line."""
    return " ".join(f"{path}={_spelled(value)}" for path, value in change.items())


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class _Trial:
    """A config that does not fit, and where it should."""

    def __init__(
        self, config: AnyConfig, home: Path, nodes: Sequence[NodeMemory], cards: float, prompt: int | None
    ) -> None:
        self.config = cast(RunConfig, config)
        self._tree = config.model_dump(mode="json", exclude_none=True)
        self._home, self._nodes, self._prompt = home, nodes, prompt
        self._cards = max(cards, demand(config).gpus)

    def fits(self, change: Overrides) -> bool:
        """Whether the changed config is permitted and fits."""
        changed = self.permitted(change)
        return changed is not None and not memory_shortages(self._estimate(changed), self._nodes)

    def permitted(self, change: Overrides) -> AnyConfig | None:
        """The changed config, if it is valid and there are so many cards."""
        try:
            changed = parse_config(apply_overrides(self._tree, change))
        except ConfigError:
            return None
        return changed if demand(changed).gpus <= self._cards else None

    def candidates(self) -> Iterator[Levels]:
        """Changes in the order in which they are added: kind by kind, those of the largest policy first."""
        estimated = self._estimate(self.config)
        sizes = {
            policy.policy: max((worker.peak for worker in policy.workers), default=0)
            for policy in estimated.policies
            if self._is_short(estimated, policy.policy)
        }
        for kind in KINDS_OF_CHANGES:
            for policy in sorted(sizes, key=lambda name: -sizes[name]):
                fields = kind(self.config, policy)
                levels = [
                    {f"policies.{policy}.{name}": value for name, value in one.items()} for one in fields
                ]
                if levels := [level for level in levels if self.permitted(level)]:
                    yield levels

    def needed(self, chosen: list[Levels]) -> list[Levels]:
        """The chosen ones without those that are not needed; the last is."""
        for levels in chosen[:-1]:
            rest = [other for other in chosen if other is not levels]
            if self.fits(_strongest(rest)):
                chosen = rest
        return chosen

    def milder(self, chosen: list[Levels]) -> dict[str, Any]:
        """One level of each: the mildest with which the others still suffice."""
        for index, levels in enumerate(chosen):
            for level in levels:
                milder = [*chosen[:index], [level], *chosen[index + 1 :]]
                if self.fits(_strongest(milder)):
                    chosen = milder
                    break
        return _strongest(chosen)

    def _is_short(self, estimated: Estimate, policy: str) -> bool:
        """Whether this policy's workers alone, or the workers on CPUs together, do not fit."""
        alone = [item for item in estimated.policies if item.policy == policy]
        on_cpu = any(not worker.gpus for item in alone for worker in item.workers)
        others = estimated.policies if on_cpu else alone
        return bool(memory_shortages(replace(estimated, policies=others), self._nodes))

    def _estimate(self, config: AnyConfig) -> Estimate:
        return estimate(config, self._home, self._prompt, card=largest_card(self._nodes))


def _strongest(chosen: Sequence[Levels]) -> dict[str, Any]:
    """The strongest level of each, together."""
    return {path: value for levels in chosen for path, value in levels[-1].items()}


def _halves(start: int, least: int) -> Iterator[int]:
    """Powers of two below `start` down to `least`."""
    power = 1 << (start - 1).bit_length() - 1 if start > 1 else 0
    while power >= least:
        yield power
        power //= 2


def _fewer_tokens(config: RunConfig, policy: str) -> Levels:
    if policy not in config.trained_policies:
        return []
    learner, devices = config.policies[policy].learner, config.policies[policy].devices
    if learner.micro_batch_tokens == "auto" and (devices.rollout_gpus or devices.update_gpus):
        return []  # the estimate has lowered it already
    limit = learner.pass_tokens
    return [{"learner.micro_batch_tokens": tokens} for tokens in _halves(limit, LEAST_TOKENS)]


def _fewer_sequences(config: RunConfig, policy: str) -> Levels:
    section = config.policies[policy]
    if section.engine.weights == "remote":
        return []
    return [{"engine.max_batch": count} for count in _halves(section.engine.sequences, LEAST_BATCH)]


def _recomputation(config: RunConfig, policy: str) -> Levels:
    done = policy not in config.trained_policies or config.policies[policy].learner.activation_checkpointing
    return [] if done else [{"learner.activation_checkpointing": True}]


def _offload(config: RunConfig, policy: str) -> Levels:
    section = config.policies[policy]
    generates_too = section.devices.placement == "colocated" and section.devices.rollout_gpus > 0
    possible = section.learner.can_offload and generates_too and policy in config.trained_policies
    return [{"learner.offload": "on"}] if possible and section.learner.offload == "off" else []


def _half_precision(config: RunConfig, policy: str) -> Levels:
    section = config.policies[policy]
    on_gpu = section.devices.rollout_gpus or section.devices.update_gpus
    return [{"learner.precision": "bf16"}] if on_gpu and section.learner.precision == "fp32" else []


def _adapter(config: RunConfig, policy: str) -> Levels:
    whole = config.policies[policy].adapter.type == "none" and policy in config.trained_policies
    return [{"adapter.type": "lora"}] if whole else []


def _whole_cards(config: RunConfig, policy: str) -> Levels:
    devices = config.policies[policy].devices
    names = ["rollout_gpus"] + ["update_gpus"] * (devices.placement == "apart")
    level = {f"devices.{name}": 1.0 for name in names if 0 < getattr(devices, name) < 1}
    return [level] if level else []


def _two_cards(config: RunConfig, policy: str) -> Levels:
    """One card for generation, one for updates."""
    devices = config.policies[policy].devices
    if not devices.rollout_gpus or devices.placement == "apart" or policy not in config.trained_policies:
        return []
    return [{"devices.placement": "apart", "devices.rollout_gpus": 1.0, "devices.update_gpus": 1.0}]


KINDS_OF_CHANGES: tuple[Callable[[RunConfig, str], Levels], ...] = (
    _fewer_tokens,
    _fewer_sequences,
    _recomputation,
    _offload,
    _half_precision,
    _adapter,
    _whole_cards,
    _two_cards,
)
"""In the order in which they are tried; fields relative to the policy."""
