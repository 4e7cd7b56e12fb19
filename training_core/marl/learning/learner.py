"""The learner of one policy: its actor and critic, and PPO updates of both.

Subclasses are custom algorithms (`algorithm.type = "custom_ppo"`): they override `make_critic_inputs`, `policy_loss` or `losses`.

Multi-layer perceptrons with one set of choices have analytic gradients (AnalyticGradients) in place of autograd. They are those of
PolicyLearner.losses to fp32 rounding, in about half its CPU time: a layer and its activation are one call of oneDNN, and the losses'
gradients are computed with the choices as the first axis.

Letters: T steps, B environments, N agents, L steps of a chunk, K columns of values (see critics), G environment steps of a minibatch,
R rows of a network, D inputs, O outputs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from training_core.algorithms.gae import explained_variance, generalised_advantages
from training_core.algorithms.losses import clipped_policy_loss, value_loss
from training_core.config.marl import ACTIVATIONS, MarlLearner, MarlPolicy
from training_core.errors import ConfigError, LearnerFailure
from training_core.fast_linear import product
from training_core.marl.agent_slots import AgentSlots
from training_core.marl.algorithms.config import MarlPpo
from training_core.marl.environments.base import Spec
from training_core.marl.learning.batch import (
    Chunks,
    chunk_starts,
    fresh_steps,
    memories_at_starts,
    minibatch_rows,
    split_into_chunks,
)
from training_core.marl.learning.critics import (
    CriticInputs,
    Ends,
    RolloutValues,
    ValueScale,
    compute_values,
    ends_of,
    fill_departed_values,
)
from training_core.marl.learning.flat_adam import FlatAdam
from training_core.marl.networks.agents import Networks, SharedNetwork, make_network
from training_core.marl.networks.base import Memory
from training_core.marl.networks.config import Network
from training_core.marl.networks.heads import ChoiceHead, make_head, masked
from training_core.marl.networks.layers import MlpBackbone
from training_core.marl.rollouts import Rollout
from training_core.seeding import keyed_seed


class AnalyticMlp:
    """A network's outputs and the gradients of its weights, which `backward` writes to `.grad`."""

    def __init__(self, network: SharedNetwork, activation: str) -> None:
        self._activation = activation
        linear = [layer for layer in network.backbone.modules() if isinstance(layer, nn.Linear)]
        self._layers = [_Layer(layer) for layer in linear]
        self._head = _Layer(network.head)
        self._identity = None if network.identity is None else network.identity.weight
        self._values: list[Tensor] = []
        """The inputs (R, D) and each hidden layer's values."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., N, D) -> (O, R), with R the product of the other axes."""
        self._values = [self._inputs(x)]
        for layer in self._layers:
            self._values.append(layer.values(self._values[-1], self._activation))
        return torch.addmm(self._head.bias.unsqueeze(1), self._head.weight, self._values[-1].t())

    def outputs(self, x: Tensor) -> Tensor:
        """(..., N, D) -> (..., N, O), without gradients."""
        rows = self._inputs(x)
        for layer in self._layers:
            rows = layer.values(rows, self._activation)
        return self._head.values(rows, "none").view(*x.shape[:-1], -1)

    def backward(self, gradient: Tensor) -> None:
        """Set all weights' `.grad` from the gradient (O, R) of the last `forward`'s outputs."""
        last = self._values.pop()
        self._head.set_gradients(gradient, last)
        gradient = gradient.t() @ self._head.weight
        for layer in reversed(self._layers):
            gradient = self._through_activation(gradient, last)
            last = self._values.pop()
            layer.set_gradients(gradient.t(), last)
            if self._values:
                gradient = layer.to_inputs(gradient)
        if self._identity is not None:
            assert self._identity.grad is not None
            agents, width = self._identity.shape
            by_agent = gradient.unflatten(0, (-1, agents)).sum(0)
            torch.mm(by_agent, self._layers[0].weight[:, -width:], out=self._identity.grad)

    def _inputs(self, x: Tensor) -> Tensor:
        """(..., N, D) -> (R, D), with each agent's identity appended."""
        if self._identity is not None:
            x = torch.cat([x, self._identity.expand(*x.shape[:-1], -1)], dim=-1)
        return x.flatten(0, -2)

    def _through_activation(self, gradient: Tensor, values: Tensor) -> Tensor:
        backward: Any = torch.ops.aten.tanh_backward
        through: Tensor = (
            backward(gradient, values) if self._activation == "tanh" else gradient * (values > 0)
        )
        return through


class _Layer:
    """A linear layer with its gradients."""

    def __init__(self, layer: nn.Linear) -> None:
        self.weight, self.bias = layer.weight, layer.bias
        self._fused = layer.weight.device.type == "cpu" and torch.backends.mkldnn.is_available()

    def values(self, x: Tensor, activation: str) -> Tensor:
        """(R, D) -> (R, O)."""
        if self._fused:
            return product(x, self.weight, self.bias, activation)
        out = torch.addmm(self.bias, x, self.weight.t())
        return {"tanh": torch.tanh_, "relu": torch.relu_, "none": torch.Tensor.detach}[activation](out)

    def set_gradients(self, gradient: Tensor, values: Tensor) -> None:
        """From the gradient (O, R) of the outputs and the inputs (R, D)."""
        assert self.weight.grad is not None and self.bias.grad is not None
        torch.sum(gradient, 1, out=self.bias.grad)
        if not self._fused:
            torch.mm(gradient, values, out=self.weight.grad)
        elif gradient.is_contiguous() or len(gradient) == values.shape[1]:
            self.weight.grad.copy_(product(gradient, values.t()))
        else:
            self.weight.grad.copy_(product(values.t().contiguous(), gradient).t())

    def to_inputs(self, gradient: Tensor) -> Tensor:
        """(R, O) -> (R, D)."""
        return product(gradient, self.weight.t()) if self._fused else gradient @ self.weight


class AnalyticGradients:
    """The gradients of a learner's losses; of learners with `has_analytic_gradients`."""

    def __init__(self, learner: "PolicyLearner", activation: str) -> None:
        assert isinstance(learner.actor, SharedNetwork) and isinstance(learner.critic, SharedNetwork)
        self._algorithm = learner.algorithm
        self.actor, self._critic = (AnalyticMlp(part, activation) for part in (learner.actor, learner.critic))

    def __call__(self, chunks: Chunks) -> Callable[[Tensor], Tensor]:
        """Rows of a minibatch -> a row of UpdateStatistics without the norms; sets the gradients of both networks."""
        numbers = (chunks.log_probs, chunks.advantages, chunks.old_values, chunks.returns, chunks.raw)
        columns = torch.cat([part.flatten(1).float() for part in numbers], dim=1)
        widths = [part[0].numel() for part in numbers]
        observations, inputs = chunks.observations.squeeze(1), chunks.critic_inputs.squeeze(1)
        same = inputs[0].numel() == observations[0].numel() and bool(
            (inputs.flatten(1) == observations.flatten(1)).all()
        )

        @torch.no_grad()
        def gradients(rows: Tensor) -> Tensor:
            seen = observations.index_select(0, rows)
            central = seen.view(-1, *inputs.shape[1:]) if same else inputs.index_select(0, rows)
            old, advantages, old_values, returns, raw = columns.index_select(0, rows).split(widths, dim=1)
            policy_loss, entropy, statistics = self._policy(
                seen, raw.long().flatten(), old.flatten(), advantages.flatten()
            )
            loss = self._values(central, old_values, returns)
            return torch.stack([policy_loss, loss, entropy, *statistics, torch.ones_like(loss)])

        return gradients

    def _policy(
        self, observations: Tensor, raw: Tensor, old: Tensor, advantages: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Set the actor's gradients; return the mean loss, the mean entropy and ratio_statistics."""
        clip = self._algorithm.clip
        chosen = raw.unsqueeze(0)
        logs = torch.log_softmax(self.actor.forward(observations), 0)
        shares = logs.exp()
        entropies = -(shares * logs).sum(0)
        log_ratio = logs.gather(0, chosen).squeeze(0).sub_(old)
        ratio = log_ratio.exp()
        unclipped = (ratio * advantages).neg_()
        bounded = ratio.clamp(1.0 - clip, 1.0 + clip).mul_(advantages).neg_()
        # The derivative by the log-probability is the unclipped loss itself, and 0 where the bound is larger.
        slope = unclipped.masked_fill(bounded > unclipped, 0.0)
        gradient = (logs + entropies).mul_(self._algorithm.entropy_coefficient).sub_(slope).mul_(shares)
        gradient.scatter_add_(0, chosen, slope.unsqueeze(0))
        self.actor.backward(gradient.div_(raw.numel()))
        statistics = ratio_statistics(log_ratio, clip, None).unbind()
        return torch.maximum(unclipped, bounded).mean(), entropies.mean(), statistics

    def _values(self, inputs: Tensor, old: Tensor, returns: Tensor) -> Tensor:
        """Set the critic's gradients; return the mean loss."""
        values = self._critic.forward(inputs)
        old, returns = (part.reshape(-1, len(values)).t() for part in (old, returns))
        error = values - returns
        losses = error.square()
        if self._algorithm.clip_value:
            most = self._algorithm.value_clip
            change = values - old
            clipped = (old + change.clamp(-most, most) - returns).square()
            # Within the bounds both losses are equal, but for rounding: the gradient stays.
            error = error.masked_fill((clipped > losses) & (change.abs() > most), 0.0)
            losses = torch.maximum(losses, clipped)
        self._critic.backward(error.mul_(2 * self._algorithm.value_coefficient / error.numel()))
        return losses.mean()


def has_analytic_gradients(learner: "PolicyLearner", activation: str) -> bool:
    """Whether AnalyticGradients supports these networks: multi-layer perceptrons in fp32 on the CPU, whose agents share weights
    and make one choice each, and whose activation function has a derivative that follows from its values.
    """
    settings = learner.settings
    return (
        _is_mlp(learner.actor)
        and _is_mlp(learner.critic)
        and activation in ACTIVATIONS
        and type(learner.head) is ChoiceHead
        and settings.precision == "fp32"
        and not settings.compile
        and next(learner.actor.parameters()).device.type == "cpu"
    )


def _is_mlp(network: Networks) -> bool:
    return isinstance(network, SharedNetwork) and type(network.backbone) is MlpBackbone


def mean(x: Tensor, weights: Tensor | None) -> Tensor:
    """Weighted mean; None gives all the same weight."""
    return x.mean() if weights is None else (x * weights).sum() / weights.sum().clamp_min(1e-8)


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """(r - 1) - log r per sample: unbiased and never below 0 (Schulman, "Approximating KL divergence", 2020)."""
    return log_ratio.exp() - 1 - log_ratio


def ratio_statistics(log_ratio: Tensor, clip: float, weights: Tensor | None) -> Tensor:
    """KL, clipped share, mean of ratios, mean of their squares, largest ratio: (5,), without gradient."""
    log_ratio = log_ratio.detach()
    ratio = log_ratio.exp()
    counted = ratio if weights is None else torch.where(weights > 0, ratio, 0.0)
    return torch.stack(
        [
            mean(approximate_kl(log_ratio), weights),
            mean(((ratio - 1).abs() > clip).float(), weights),
            mean(ratio, weights),
            mean(ratio.square(), weights),
            counted.max(),
        ]
    )


SHUFFLES = 3
"""Random stream of the minibatches' order; see MarlTrainer."""
HISTOGRAM = 500
"""Maximum number of values that represent a layer's weights or gradients."""


@dataclass
class UpdateStatistics:
    """Sums over the minibatches of an update."""

    rows: list[Tensor] = field(default_factory=list)
    """actor loss, value loss, entropy, KL, clipped share, mean ratio, mean squared ratio, largest ratio, weight of the minibatch, both
    gradient norms."""
    epochs: int = 0

    def means(self, first: int = 0) -> Tensor:
        """Means over the minibatches from `first` on, weighted by their number of trained samples."""
        table = torch.stack(self.rows[first:]).double()
        shares = table[:, 8] / table[:, 8].mean().clamp_min(1e-8)
        return (table * shares.unsqueeze(-1)).mean(0)

    def metrics(self) -> dict[str, float]:
        means = self.means().tolist()
        largest = float(torch.stack(self.rows)[:, 7].max())
        return {
            "actor_loss": means[0],
            "value_loss": means[1],
            "entropy": means[2],
            "kl": means[3],
            "clip_fraction": means[4],
            "ratio_mean": means[5],
            "ratio_std": math.sqrt(max(means[6] - means[5] ** 2, 0.0)),
            "ratio_max": largest,
            "grad_norm": means[9],
            "critic_grad_norm": means[10],
            "epochs": float(self.epochs),
        }


class PolicyLearner:
    """Networks, optimisers and value scale of one policy. Weights are initialised from `seed`; `reward` is environment.reward."""

    def __init__(
        self,
        policy: MarlPolicy,
        algorithm: MarlPpo,
        slots: dict[str, AgentSlots],
        name: str,
        spec: Spec,
        reward: str,
        seed: int,
        device: torch.device,
    ) -> None:
        self.reward = reward
        self.settings: MarlLearner = policy.learner
        self.algorithm = algorithm
        self.slots = slots[name]
        self.seed = seed
        self.head = make_head(self.slots.actions, self.slots.widths)
        self.critic_inputs = self.make_critic_inputs(slots, spec)
        try:
            self.actor, self.critic = self._networks(policy.network, device)
        except ConfigError as error:
            raise error.below(f"policies.{name}") from error
        norm = self.settings.max_grad_norm
        self.actor_adam = FlatAdam(self.actor, self.settings.weight_decay, norm)
        self.critic_adam = FlatAdam(self.critic, self.settings.weight_decay, norm)
        self.scale = ValueScale()
        self.updates = 0
        self.length = self.actor.chunk_length
        self._critic_memory: Memory | None = None
        self._losses = torch.compile(self.losses) if self.settings.compile else self.losses
        self.analytic_gradients = self._analytic_gradients(policy.network.activation)
        """Analytic gradients in place of autograd, where all samples have weight 1 and all choices are allowed."""

    def _analytic_gradients(self, activation: str) -> AnalyticGradients | None:
        """None where there are none, as for the losses of a subclass."""
        own = type(self) is PolicyLearner
        return (
            AnalyticGradients(self, activation) if own and has_analytic_gradients(self, activation) else None
        )

    def _networks(self, network: Network, device: torch.device) -> tuple[Networks, Networks]:
        """The actor and the critic, with weights that follow from the seed. Raises ConfigError with fields relative to the policy."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            inputs, outputs, agents = self.slots.observation_dim, self.head.outputs, self.slots.count
            actor = make_network(network, inputs, outputs, agents, 0.01, self.slots.pictures)
            return actor.to(device), self.critic_inputs.network(network).to(device)

    def make_critic_inputs(self, slots: dict[str, AgentSlots], spec: Spec) -> CriticInputs:
        """What the critic sees; `slots` by policy."""
        return CriticInputs(self.algorithm, self.slots, slots, spec, self.reward)

    def policy_loss(self, log_ratio: Tensor, advantages: Tensor) -> Tensor:
        """The actor's loss per sample: arguments and result are (G, L, N)."""
        return clipped_policy_loss(log_ratio, advantages, self.algorithm.clip, self.algorithm.clip)[0]

    def losses(self, part: Chunks) -> tuple[Tensor, Tensor]:
        """The sum of actor's and critic's losses (), which share no weights; and a row of UpdateStatistics without the norms."""
        algorithm = self.algorithm
        out = masked(self.actor.sequence(part.observations, part.actor_memory, part.begins), part.masks)
        log_probs, entropies = self.head.log_prob(out, part.raw)
        log_ratio = log_probs - part.log_probs
        if part.weights is not None:
            # Samples of weight 0 may have any value, even an infinite ratio.
            log_ratio = log_ratio.masked_fill(part.weights == 0, 0.0)
        actor_loss = mean(self.policy_loss(log_ratio, part.advantages), part.weights)
        entropy = mean(entropies, part.weights)
        outputs = self.critic.sequence(part.critic_inputs, part.critic_memory, part.begins)
        values = self.critic_inputs.columns(outputs).float()
        value_clip = algorithm.value_clip if algorithm.clip_value else None
        critic_loss = mean(value_loss(values, part.old_values, part.returns, value_clip), part.value_weights)
        loss = (
            actor_loss - algorithm.entropy_coefficient * entropy + algorithm.value_coefficient * critic_loss
        )
        losses = torch.stack([actor_loss.detach(), critic_loss.detach(), entropy.detach()])
        weight = losses.new_ones(1) if part.weights is None else part.weights.sum().view(1)
        return loss, torch.cat([losses, ratio_statistics(log_ratio, algorithm.clip, part.weights), weight])

    def memory_steps(self, steps: int) -> tuple[int, ...]:
        """The steps before which a rollout stores the actor's memory: the starts of chunks."""
        return chunk_starts(steps, self.length) if self.actor.has_memory else ()

    @property
    def memory(self) -> Memory | None:
        """The critic's memory at the start of the next rollout; None if all environments start new episodes."""
        return self._critic_memory

    def set_memory(self, memory: Memory | None) -> None:
        """Start the next rollout with this memory; None: all environments start new episodes."""
        self._critic_memory = memory

    def update(self, rollout: Rollout, iteration: int, iterations: int) -> dict[str, float]:
        """PPO on one rollout (iterations count from 1), with early stopping of its passes by `algorithm.target_kl`.

        Raises LearnerFailure if a loss is not finite.
        """
        rate = self._set_learning_rates(iteration, iterations)
        chunks, explained = self._prepare(rollout)
        statistics = UpdateStatistics()
        generator = torch.Generator().manual_seed(keyed_seed(self.seed, SHUFFLES, iteration))
        size = max(1, self.settings.minibatch_size // (self.length * self.slots.count))
        plain = chunks.weights is None and chunks.masks is None
        direct = self.analytic_gradients(chunks) if self.analytic_gradients and plain else None
        for _ in range(self.settings.epochs):
            order = torch.randperm(len(chunks), generator=generator).to(chunks.raw.device)
            first = len(statistics.rows)
            if direct is None:
                statistics.rows += [self._optimise(part) for part in chunks.minibatches(order, size)]
            else:
                statistics.rows += [self._step(direct(rows)) for rows in minibatch_rows(order, size)]
            statistics.epochs += 1
            if self.algorithm.target_kl and float(statistics.means(first)[3]) > self.algorithm.target_kl:
                break
        self.updates += 1
        metrics = statistics.metrics()
        if not all(math.isfinite(number) for number in metrics.values()):
            raise LearnerFailure(
                f"policy {self.slots.policy}: losses or gradients of iteration {iteration} are not finite",
                remedy="lower the learning rates, or check rewards and observations for values that are not finite",
            )
        return metrics | {"explained_variance": explained, "lr": rate}

    def distributions(self) -> dict[str, list[float]]:
        """Weights and last gradients, as a step applied them, of every layer of both networks: "actor/weights/<layer>" and so on."""
        return {
            f"{name}/{kind}/{layer}": _quantiles(tensor)
            for name, network in (("actor", self.actor), ("critic", self.critic))
            for layer, parameter in network.named_parameters()
            for kind, tensor in (("weights", parameter), ("gradients", parameter.grad))
            if tensor is not None
        }

    def _set_learning_rates(self, iteration: int, iterations: int) -> float:
        """Set both learning rates; return the actor's."""
        share = 1 - (iteration - 1) / iterations if self.settings.schedule == "linear" else 1.0
        share = max(share, 0.0)
        self.actor_adam.set_learning_rate(self.settings.actor_learning_rate * share)
        self.critic_adam.set_learning_rate(self.settings.critic_learning_rate * share)
        return self.settings.actor_learning_rate * share

    def _prepare(self, rollout: Rollout) -> tuple[Chunks, float]:
        """Advantages and returns of a rollout, in chunks; and the explained variance of the values."""
        trajectory = rollout.trajectories[self.slots.policy]
        steps, environments = rollout.failed.shape
        before = self._critic_memory
        if before is None:
            before = self.critic.start(environments)
        memory_steps = chunk_starts(steps, self.length) if self.critic.has_memory else ()
        critic_values, inputs, self._critic_memory = compute_values(
            self.critic, self.critic_inputs, rollout, before, memory_steps
        )
        ends = ends_of(trajectory, rollout, self.slots, self.reward)
        values = self.scale.denormalise(critic_values.values)
        advantages, returns = self._advantages(rollout, critic_values, ends)
        weights, value_weights = self._sample_weights(rollout, ends.alive)
        trained_on = ~rollout.failed
        if ends.alive is not None:
            trained_on = trained_on.unsqueeze(-1) & self.critic_inputs.any_by_column(ends.alive)
        explained = explained_variance(values[trained_on], returns[trained_on]) if trained_on.any() else 0.0
        if self.algorithm.normalise_values and trained_on.any():
            self.scale.update(returns[trained_on], _last_layers(self.critic))
        log_probs, _ = self.head.log_prob(trajectory.outs, trajectory.raw)
        chunked = partial(split_into_chunks, length=self.length)
        chunks = Chunks(
            chunked(trajectory.observations[:-1]),
            None if trajectory.masks is None else chunked(trajectory.masks),
            chunked(trajectory.raw),
            chunked(log_probs),
            chunked(self._normalise_advantages(advantages, rollout, ends.alive)),
            weights,
            chunked(inputs[:-1]),
            chunked(self.scale.normalise(returns)),
            chunked(self.scale.normalise(values)),
            value_weights,
            chunked(rollout.begins[:-1]),
            memories_at_starts(trajectory.memories, self.memory_steps(steps), self.slots.count),
            memories_at_starts(critic_values.memories, memory_steps, self.critic_inputs.rows),
        )
        return chunks, explained

    def _advantages(
        self, rollout: Rollout, critic_values: RolloutValues, ends: Ends
    ) -> tuple[Tensor, Tensor]:
        """Advantages (T, B, N) and returns (T, B, K)."""
        trajectory = rollout.trajectories[self.slots.policy]
        values = self.critic_inputs.by_agent(self.scale.denormalise(critic_values.values))
        next_values = self.critic_inputs.by_agent(self.scale.denormalise(critic_values.next_values))
        if self.reward != "agent" and not self.critic_inputs.central:
            values = fill_departed_values(values, ends.alive, self.slots)
            next_values = fill_departed_values(next_values, ends.alive_after, self.slots)
        advantages = generalised_advantages(
            training_rewards(trajectory.rewards, self.slots, self.reward),
            values,
            next_values,
            ends.terminated if self.algorithm.bootstrap_truncated else ends.terminated | ends.truncated,
            ends.truncated,
            self.algorithm.discount,
            self.algorithm.gae_lambda,
            rollout.failed.unsqueeze(-1),
        )
        return advantages, self.critic_inputs.by_column(advantages + values)

    def _normalise_advantages(self, advantages: Tensor, rollout: Rollout, alive: Tensor | None) -> Tensor:
        """Advantages (T, B, N), over all trained steps and agents."""
        if not self.algorithm.normalise_advantages:
            return advantages
        if alive is None:
            trained_advantages = advantages[~rollout.failed][:, self._trained_agents(advantages.device)]
        else:
            trained_advantages = advantages[
                ~rollout.failed.unsqueeze(-1) & alive & self._trained_agents(advantages.device)
            ]
        if not len(trained_advantages):
            return advantages
        return (advantages - trained_advantages.mean()) / (trained_advantages.std(correction=0) + 1e-8)

    def _trained_agents(self, device: torch.device) -> Tensor:
        """(N,) bool."""
        return torch.tensor(
            [
                trained
                for trained, agents in zip(self.slots.trained, self.slots.slices, strict=True)
                for _ in range(agents.stop - agents.start)
            ],
            device=device,
        )

    def _sample_weights(self, rollout: Rollout, alive: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """(G, L, N) and (G, L, K), None if every sample has weight 1."""
        steps, environments = rollout.failed.shape
        complete = steps % self.length == 0 and not rollout.failed.any()
        if all(self.slots.trained) and complete and alive is None:
            return None, None
        device = rollout.failed.device
        fresh = fresh_steps(steps, self.length).to(device).repeat_interleave(environments, dim=0)
        counted = (fresh & ~split_into_chunks(rollout.failed, self.length)).unsqueeze(
            -1
        ) & self._trained_agents(device)
        if alive is not None:
            counted = counted & split_into_chunks(alive, self.length)
        return counted.float(), self.critic_inputs.any_by_column(counted).float()

    def _optimise(self, part: Chunks) -> Tensor:
        """One optimiser step of both networks; return a row of UpdateStatistics. A minibatch without trained samples changes nothing."""
        if part.weights is not None and not part.weights.any():
            return torch.zeros(11, device=part.weights.device)
        self.actor_adam.zero_gradients()
        self.critic_adam.zero_gradients()
        with torch.autocast(
            part.observations.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"
        ):
            loss, row = self._losses(part)
        loss.backward()
        return self._step(row)

    def _step(self, row: Tensor) -> Tensor:
        """Apply the gradients; return the row with their norms."""
        return torch.cat([row, torch.stack([self.actor_adam.step(), self.critic_adam.step()])])


def training_rewards(rewards: Tensor, slots: AgentSlots, reward: str) -> Tensor:
    """Rewards (T, B, N) for training: each agent's own, or the sum or mean over the agents of its role, never over two roles."""
    if reward == "agent":
        return rewards
    parts = []
    for agents in slots.slices:
        role = rewards[..., agents]
        team = role.sum(-1, keepdim=True) if reward == "team_sum" else role.mean(-1, keepdim=True)
        parts.append(team.expand_as(role))
    return torch.cat(parts, dim=-1)


def _quantiles(tensor: Tensor) -> list[float]:
    """All numbers of a tensor, or HISTOGRAM evenly spaced quantiles."""
    values = tensor.detach().float().flatten().sort().values
    if len(values) > HISTOGRAM:
        values = values[torch.linspace(0, len(values) - 1, HISTOGRAM, device=values.device).round().long()]
    numbers: list[float] = values.tolist()
    return numbers


def _last_layers(critic: nn.Module) -> list[nn.Linear]:
    heads = [getattr(module, "head", None) for module in critic.modules()]
    return [head for head in heads if isinstance(head, nn.Linear)]
