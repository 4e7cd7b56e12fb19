"""Training of several seeds of one config at once, for worlds on a device.

Networks, optimisers and worlds of all seeds are stacked: a step launches as many kernels as that of one seed, so that small networks
use a large device. The numbers of every seed are those of a MarlTrainer with that seed.

Letters: S seeds, T steps, B environments of a seed, N agents, K columns of values (see learning/critics.py), P weights of a network,
D inputs, O outputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from training_core.algorithms.gae import explained_variance, generalised_advantages
from training_core.algorithms.losses import clipped_policy_loss, value_loss
from training_core.config.marl import MarlConfig, MarlLearner
from training_core.errors import ConfigError, LearnerFailure
from training_core.marl.agent_slots import slots_by_policy
from training_core.marl.environments.config import SimpleSpread
from training_core.marl.environments.mpe.torch_spread import TorchSpreadEnvironment
from training_core.marl.learning.critics import SLOWEST, SMALLEST
from training_core.marl.learning.learner import (
    SHUFFLES,
    PolicyLearner,
    UpdateStatistics,
    ratio_statistics,
    training_rewards,
)
from training_core.marl.networks.agents import Networks, SharedNetwork
from training_core.marl.trainer import COLLECTION, WEIGHTS, device_of
from training_core.marl.vector_runner import generator_for
from training_core.seeding import keyed_seed


class StackedNetworks:
    """S networks of one form, and their Adam; every seed's gradients are clipped to its own norm."""

    def __init__(self, networks: Sequence[Networks], settings: MarlLearner) -> None:
        self._form: Any = networks[0]
        self._shapes = {name: weight.shape for name, weight in self._form.named_parameters()}
        flat = [
            torch.cat([weight.detach().flatten() for weight in network.parameters()]) for network in networks
        ]
        self.weights = nn.Parameter(torch.stack(flat))
        """(S, P)"""
        self._max_norm = settings.max_grad_norm
        self.adam = torch.optim.AdamW(
            [self.weights], lr=0.0, eps=1e-5, weight_decay=settings.weight_decay, fused=True
        )

    def __call__(self, x: Tensor) -> Tensor:
        """(S, ..., N, D) -> (S, ..., N, O)."""
        named = self.named()
        if self._form.identity is not None:
            identity = named["identity.weight"].view(len(x), *[1] * (x.dim() - 3), *x.shape[-2:-1], -1)
            x = torch.cat([x, identity.expand(*x.shape[:-1], -1)], dim=-1)
        hidden = x.flatten(1, -2)
        for path, layer in self._form.backbone.layers.named_children():
            hidden = layer.activate(_linear(hidden, named, f"backbone.layers.{path}"))
        out: Tensor = _linear(hidden, named, "head").unflatten(1, x.shape[1:-1])
        return out

    def named(self) -> dict[str, Tensor]:
        """Views of the weights by name: (S, ...)."""
        parts = self.weights.split([shape.numel() for shape in self._shapes.values()], dim=1)
        return {
            name: part.view(len(self.weights), *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the following steps."""
        self.adam.param_groups[0]["lr"] = rate

    def zero_gradients(self) -> None:
        """Discard the gradients."""
        self.weights.grad = None

    def step(self) -> Tensor:
        """Apply the gradients; return every seed's norm (S,) before clipping."""
        assert self.weights.grad is not None, "call backward() first"
        norms: Tensor = torch.linalg.vector_norm(self.weights.grad, dim=1)
        if self._max_norm:
            self.weights.grad.mul_((self._max_norm / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))
        self.adam.step()
        return norms


class StackedScale:
    """The value scales (PopArt) of S seeds; see ValueScale."""

    def __init__(self, seeds: int, device: torch.device) -> None:
        self._mean = torch.zeros(seeds, dtype=torch.float64, device=device)
        self._variance = torch.ones(seeds, dtype=torch.float64, device=device)
        self._updates = 0

    def normalise(self, values: Tensor) -> Tensor:
        """Values (S, ...) on the critic's scale."""
        return ((values - _of_seeds(self._mean, values)) / _of_seeds(self._std, values)).float()

    def denormalise(self, values: Tensor) -> Tensor:
        """Values (S, ...) on the rewards' scale."""
        return (values * _of_seeds(self._std, values) + _of_seeds(self._mean, values)).float()

    @torch.no_grad()
    def update(self, returns: Tensor, critics: StackedNetworks) -> None:
        """Add another iteration's returns (S, ...), and preserve each critic's value of each state."""
        mean, std = self._mean, self._std
        self._updates += 1
        weight = max(1 / self._updates, SLOWEST)
        rows = returns.flatten(1).double()
        shift = rows.mean(1) - mean
        self._mean = mean + weight * shift
        spread = rows.var(1, correction=0) + (1 - weight) * shift.square()
        self._variance = self._variance + weight * (spread - self._variance)
        named = critics.named()
        matrix, bias = named["head.weight"], named["head.bias"]
        matrix.mul_(_of_seeds(std / self._std, matrix))
        bias.mul_(_of_seeds(std, bias)).add_(_of_seeds(mean - self._mean, bias)).div_(
            _of_seeds(self._std, bias)
        )

    @property
    def _std(self) -> Tensor:
        return self._variance.clamp_min(SMALLEST).sqrt()


def _linear(x: Tensor, named: dict[str, Tensor], path: str) -> Tensor:
    """(S, M, D) -> (S, M, O) by every seed's own layer."""
    return torch.baddbmm(named[f"{path}.bias"].unsqueeze(1), x, named[f"{path}.weight"].transpose(1, 2))


def _of_seeds(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers (S,) in fp32 for tensors (S, ...)."""
    return numbers.to(torch.float32).view(-1, *[1] * (like.dim() - 1))


@dataclass
class SeedRollouts:
    """The steps of one iteration of all seeds."""

    observations: Tensor
    """(S, T + 1, B, N, D)."""
    outs: Tensor
    """(S, T, B, N, O)."""
    raw: Tensor
    """(S, T, B, N) or (S, T, B, N, A)."""
    rewards: Tensor
    """(S, T, B, N)."""
    finals: dict[int, Tensor]
    """Final observations (S, B, N, D) by the step in which all episodes were truncated."""


@dataclass
class _Samples:
    """The samples of a minibatch: (S, G, ...), with G steps of environments."""

    observations: Tensor
    raw: Tensor
    log_probs: Tensor
    advantages: Tensor
    critic_inputs: Tensor
    returns: Tensor
    old_values: Tensor

    def part(self, rows: Tensor) -> "_Samples":
        """The rows (S, g) of every seed."""
        seeds = torch.arange(len(rows), device=rows.device).unsqueeze(1)
        return _Samples(*(tensor[seeds, rows] for tensor in vars(self).values()))


class ManySeeds:
    """S seeds of one config with one MLP policy on worlds of simple_spread with backend "torch"."""

    def __init__(self, config: MarlConfig, seeds: Sequence[int]) -> None:
        """Raises ConfigError if the config has what cannot be stacked."""
        _check(config)
        self.config, self.seeds, self.device = config, tuple(seeds), device_of(config)
        worlds = config.rollout.environments
        self.environment = TorchSpreadEnvironment(_section(config), len(self.seeds) * worlds)
        if self.environment.device != self.device:
            self.environment.move(self.device)
        (name,) = config.used_policies
        slots, spec = slots_by_policy(config, self.environment.spec), self.environment.spec
        learners = [
            PolicyLearner(
                config.policies[name],
                config.algorithm,
                slots,
                name,
                spec,
                config.environment.reward,
                keyed_seed(seed, WEIGHTS, 0),
                self.device,
            )
            for seed in self.seeds
        ]
        first = learners[0]
        if not (isinstance(first.actor, SharedNetwork) and isinstance(first.critic, SharedNetwork)):
            raise ConfigError(
                {f"policies.{name}.network.share_parameters": "several seeds need shared weights"}
            )
        self.slots, self.head, self.critic_inputs = first.slots, first.head, first.critic_inputs
        self.settings, self.algorithm = first.settings, config.algorithm
        self._learner_seeds = [learner.seed for learner in learners]
        self.actor = StackedNetworks([learner.actor for learner in learners], self.settings)
        self.critic = StackedNetworks([learner.critic for learner in learners], self.settings)
        self.scale = StackedScale(len(self.seeds), self.device)

    def iterate(self, iteration: int) -> list[dict[str, float]]:
        """Collect and update; return the metrics of every seed, with its mean return. Iterations count from 1."""
        rollouts = self.collect(iteration)
        returns = self._returns(rollouts)
        return [
            metrics | {"return": value}
            for metrics, value in zip(self.update(rollouts, iteration), returns, strict=True)
        ]

    @torch.no_grad()
    def collect(self, iteration: int) -> SeedRollouts:
        """Play whole episodes with all seeds' policies."""
        steps, worlds = self.config.rollout.steps, self.config.rollout.environments
        starts = [keyed_seed(seed, COLLECTION, iteration, 0) % 2**31 for seed in self.seeds]
        view = self.environment.reset_seeds(starts, worlds)
        noise = self._noise(iteration, (steps, worlds, self.slots.count))
        rows: dict[str, list[Tensor]] = {"observations": [], "outs": [], "raw": [], "rewards": []}
        finals: dict[int, Tensor] = {}
        for t in range(steps):
            seen = self._by_seed(self.slots.observations(view))
            out = self.actor(seen)
            raw = self.head.act(out, noise[:, t])
            actions: Any = self.head.actions(raw).flatten(0, 1)
            transition = self.environment.step(dict.fromkeys(self.slots.roles, actions))
            view = transition.view
            rows["observations"].append(seen)
            rows["outs"].append(out)
            rows["raw"].append(raw)
            rows["rewards"].append(self._by_seed(self.slots.rewards(transition.rewards)))
            if transition.final is not None:
                finals[t] = self._by_seed(self.slots.observations(transition.final))
        rows["observations"].append(self._by_seed(self.slots.observations(view)))
        stacked = {name: torch.stack(parts, dim=1) for name, parts in rows.items()}
        return SeedRollouts(**stacked, finals=finals)

    def update(self, rollouts: SeedRollouts, iteration: int) -> list[dict[str, float]]:
        """PPO of all seeds; return their metrics. Raises LearnerFailure if a loss is not finite."""
        share = (
            1 - (iteration - 1) / self.config.run.iterations if self.settings.schedule == "linear" else 1.0
        )
        self.actor.set_learning_rate(self.settings.actor_learning_rate * share)
        self.critic.set_learning_rate(self.settings.critic_learning_rate * share)
        samples, explained = self._prepare(rollouts)
        count = samples.raw.shape[1]
        size = max(1, self.settings.minibatch_size // self.slots.count)
        generators = [
            torch.Generator().manual_seed(keyed_seed(seed, SHUFFLES, iteration))
            for seed in self._learner_seeds
        ]
        rows: list[Tensor] = []
        for _ in range(self.settings.epochs):
            order = torch.stack([torch.randperm(count, generator=own) for own in generators]).to(self.device)
            rows += [
                self._optimise(samples.part(part)) for part in order.tensor_split(-(-count // size), dim=1)
            ]
        table = torch.stack(rows, dim=1).cpu()
        metrics = [
            UpdateStatistics(list(table[index]), self.settings.epochs).metrics()
            | {"explained_variance": value}
            for index, value in enumerate(explained)
        ]
        if not all(math.isfinite(number) for part in metrics for number in part.values()):
            raise LearnerFailure(
                f"losses of iteration {iteration} are not finite", remedy="lower the learning rates"
            )
        return metrics

    def _prepare(self, rollouts: SeedRollouts) -> tuple[_Samples, list[float]]:
        """Advantages and returns, as PolicyLearner computes them, and the explained variance of each seed."""
        with torch.no_grad():
            inputs = self._critic_inputs(rollouts.observations)
            values = self.critic_inputs.columns(self.critic(inputs))
            next_values = values[:, 1:].clone()
            for t, final in rollouts.finals.items():
                next_values[:, t] = self.critic_inputs.columns(self.critic(self._critic_inputs(final)))
            values = self.scale.denormalise(values[:, :-1])
            by_agent = self.critic_inputs.by_agent(values)
            advantages = self._advantages(rollouts, by_agent, self.scale.denormalise(next_values))
            returns = self.critic_inputs.by_column(advantages + by_agent)
            explained = [explained_variance(*pair) for pair in zip(values, returns, strict=True)]
            if self.algorithm.normalise_values:
                self.scale.update(returns, self.critic)
            log_probs, _ = self.head.log_prob(rollouts.outs, rollouts.raw)
            if self.algorithm.normalise_advantages:
                spread = advantages.std(dim=(1, 2, 3), correction=0, keepdim=True)
                advantages = (advantages - advantages.mean(dim=(1, 2, 3), keepdim=True)) / (spread + 1e-8)
        parts = (
            rollouts.observations[:, :-1],
            rollouts.raw,
            log_probs,
            advantages,
            inputs[:, :-1],
            self.scale.normalise(returns),
            self.scale.normalise(values),
        )
        return _Samples(*(part.flatten(1, 2) for part in parts)), explained

    def _advantages(self, rollouts: SeedRollouts, values: Tensor, next_values: Tensor) -> Tensor:
        """(S, T, B, N)."""
        ends = torch.zeros(values.shape[1], 1, 1, 1, dtype=torch.bool, device=self.device)
        ends[list(rollouts.finals)] = True
        never = torch.zeros_like(ends)
        bootstrapped = self.algorithm.bootstrap_truncated
        advantages = generalised_advantages(
            training_rewards(rollouts.rewards, self.slots, self.config.environment.reward).transpose(0, 1),
            values.transpose(0, 1),
            self.critic_inputs.by_agent(next_values).transpose(0, 1),
            never if bootstrapped else ends,
            ends,
            self.algorithm.discount,
            self.algorithm.gae_lambda,
        )
        return advantages.transpose(0, 1)

    def _optimise(self, part: _Samples) -> Tensor:
        """One optimiser step of all seeds' networks; return rows (S, 11) of UpdateStatistics."""
        self.actor.zero_gradients()
        self.critic.zero_gradients()
        bf16 = self.settings.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            loss, rows = self._losses(part)
        loss.backward()
        norms = torch.stack([self.actor.step(), self.critic.step()], dim=1)
        return torch.cat([rows, norms], dim=1)

    def _losses(self, part: _Samples) -> tuple[Tensor, Tensor]:
        """The sum () of all seeds' losses, which share no weights; and rows (S, 9)."""
        algorithm = self.algorithm
        log_probs, entropies = self.head.log_prob(self.actor(part.observations), part.raw)
        log_ratio = log_probs - part.log_probs
        policy_losses, _ = clipped_policy_loss(log_ratio, part.advantages, algorithm.clip, algorithm.clip)
        values = self.critic_inputs.columns(self.critic(part.critic_inputs)).float()
        clip = algorithm.value_clip if algorithm.clip_value else None
        value_losses = value_loss(values, part.old_values, part.returns, clip)
        actor, entropy, critic = (
            tensor.flatten(1).mean(1) for tensor in (policy_losses, entropies, value_losses)
        )
        total = actor - algorithm.entropy_coefficient * entropy + algorithm.value_coefficient * critic
        statistics = torch.stack([ratio_statistics(own, algorithm.clip, None) for own in log_ratio])
        own_losses = torch.stack([actor, critic, entropy], dim=1).detach()
        return total.sum(), torch.cat(
            [own_losses, statistics, own_losses.new_ones(len(own_losses), 1)], dim=1
        )

    def _critic_inputs(self, observations: Tensor) -> Tensor:
        return self.critic_inputs.inputs_of({self.slots.policy: observations}, None)

    def _noise(self, iteration: int, shape: tuple[int, ...]) -> Tensor:
        """(S, T, B, N, A), drawn for every seed as MarlTrainer draws it."""
        drawn = []
        for seed in self.seeds:
            generator = generator_for(self.environment)
            generator.manual_seed(keyed_seed(seed, COLLECTION, iteration, 1))
            drawn.append(self.head.noise(shape, generator))
        return torch.stack(drawn)

    def _returns(self, rollouts: SeedRollouts) -> list[float]:
        """Mean return of each seed's episodes, summed over agents."""
        episodes = max(len(rollouts.finals), 1)
        returns: list[float] = (rollouts.rewards.sum(dim=(1, 3)).mean(1) / episodes).tolist()
        return returns

    def _by_seed(self, part: Any) -> Tensor:
        """(S * B, ...) -> (S, B, ...)."""
        tensor: Tensor = part
        by_seed: Tensor = tensor.unflatten(0, (len(self.seeds), -1))
        return by_seed


def _section(config: MarlConfig) -> SimpleSpread:
    section = config.environment
    assert isinstance(section, SimpleSpread)
    return section


def _check(config: MarlConfig) -> None:
    """Raises ConfigError for what cannot be stacked."""
    section, names = config.environment, config.used_policies
    if not (isinstance(section, SimpleSpread) and section.backend == "torch"):
        raise ConfigError(
            {
                "environment": 'several seeds need environment.type = "mpe_simple_spread" with backend = "torch"'
            }
        )
    policy = config.policies[next(iter(names))]
    reasons = {
        "policies": len(names) > 1 and "several seeds need one policy",
        "network.type": policy.network.type != "mlp" and 'several seeds need network.type = "mlp"',
        "learner.compile": policy.learner.compile and "several seeds need compile = false",
        "algorithm.target_kl": config.algorithm.target_kl and "several seeds need target_kl = 0",
        "run.early_stopping": config.run.early_stopping and "several seeds need early_stopping = 0",
        "rollout.steps": config.rollout.steps % section.max_cycles and "several seeds need whole episodes",
    }
    if broken := {field: str(reason) for field, reason in reasons.items() if reason}:
        raise ConfigError(broken)
