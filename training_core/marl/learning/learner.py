"""The learner of one policy: its actor and critic, and PPO updates of both.

Subclasses are custom algorithms (`algorithm.type = "custom_ppo"`): they override `make_sight`, `policy_loss` or `losses`.

Letters: T steps, B environments, N agents, L steps of a chunk, K columns of values (see critics).
"""

import math
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from training_core.config.marl.algorithms import MarlPpo
from training_core.config.marl.policies import MarlLearner, MarlPolicy
from training_core.errors import LearnerFailure
from training_core.marl.collecting import Rollout
from training_core.marl.environments.base import Spec
from training_core.marl.learning.batch import Chunks, chunk_starts, cut, fresh_steps, memories_at
from training_core.marl.learning.critics import Judged, Sight, judge
from training_core.marl.learning.ends import Ends, ends_of, of_living
from training_core.marl.learning.flat import FlatAdam
from training_core.marl.learning.gae import advantages, explained_variance
from training_core.marl.learning.ppo import mean, policy_loss, ratio_figures, value_loss
from training_core.marl.learning.value_scale import ValueScale
from training_core.marl.networks.agents import make_network
from training_core.marl.networks.base import Memory
from training_core.marl.networks.heads import make_head, masked
from training_core.marl.seats import Seats
from training_core.seeding import keyed_seed

SHUFFLES = 3
"""Random stream of the minibatches' order; see MarlTrainer."""
HISTOGRAM = 500
"""Maximum number of values that represent a layer's weights or gradients."""


@dataclass
class Figures:
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
        seats: dict[str, Seats],
        name: str,
        spec: Spec,
        reward: str,
        seed: int,
        device: torch.device,
    ) -> None:
        self.reward = reward
        self.settings: MarlLearner = policy.learner
        self.algorithm = algorithm
        self.seats = seats[name]
        self.seed = seed
        self.head = make_head(self.seats.actions, self.seats.widths)
        self.sight = self.make_sight(seats, spec)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network, count = policy.network, self.seats.count
            self.actor = make_network(
                network, self.seats.observation_dim, self.head.outputs, count, gain=0.01
            ).to(device)
            self.critic = self.sight.network(network).to(device)
        norm = self.settings.max_grad_norm
        self.actor_adam = FlatAdam(self.actor, self.settings.weight_decay, norm)
        self.critic_adam = FlatAdam(self.critic, self.settings.weight_decay, norm)
        self.scale = ValueScale()
        self.updates = 0
        self.length = self.actor.chunk_length
        self._critic_memory: Memory | None = None
        self._losses = torch.compile(self.losses) if self.settings.compile else self.losses

    def make_sight(self, seats: dict[str, Seats], spec: Spec) -> Sight:
        """What the critic sees; `seats` by policy."""
        return Sight(self.algorithm, self.seats, seats, spec, self.reward)

    def policy_loss(self, log_ratio: Tensor, advantages: Tensor) -> Tensor:
        """The actor's loss per sample: arguments and result are (G, L, N)."""
        return policy_loss(log_ratio, advantages, self.algorithm.clip)

    def losses(self, part: Chunks) -> tuple[Tensor, Tensor]:
        """The sum of actor's and critic's losses (), which share no weights; and a row of Figures without the norms."""
        algorithm = self.algorithm
        out = masked(self.actor.sequence(part.observations, part.actor_memory, part.begins), part.masks)
        log_probs, entropies = self.head.log_prob(out, part.raw)
        log_ratio = log_probs - part.log_probs
        if part.weights is not None:
            # Samples of weight 0 may have any value, even an infinite ratio.
            log_ratio = log_ratio.masked_fill(part.weights == 0, 0.0)
        actor_loss = mean(self.policy_loss(log_ratio, part.advantages), part.weights)
        entropy = mean(entropies, part.weights)
        seen = self.critic.sequence(part.critic_inputs, part.critic_memory, part.begins)
        values = self.sight.columns(seen).float()
        limit = algorithm.value_clip if algorithm.clip_value else None
        critic_loss = mean(value_loss(values, part.old_values, part.returns, limit), part.value_weights)
        loss = (
            actor_loss - algorithm.entropy_coefficient * entropy + algorithm.value_coefficient * critic_loss
        )
        losses = torch.stack([actor_loss.detach(), critic_loss.detach(), entropy.detach()])
        weight = losses.new_ones(1) if part.weights is None else part.weights.sum().view(1)
        return loss, torch.cat([losses, ratio_figures(log_ratio, algorithm.clip, part.weights), weight])

    def kept(self, steps: int) -> tuple[int, ...]:
        """The steps before which a rollout stores the actor's memory: the starts of chunks."""
        return chunk_starts(steps, self.length) if self.actor.remembers else ()

    @property
    def memory(self) -> Memory | None:
        """The critic's memory at the start of the next rollout; None if all environments start new episodes."""
        return self._critic_memory

    def remember(self, memory: Memory | None) -> None:
        """Start the next rollout with this memory; None: all environments start new episodes."""
        self._critic_memory = memory

    def update(self, rollout: Rollout, iteration: int, iterations: int) -> dict[str, float]:
        """PPO on one rollout (iterations count from 1). Raises LearnerFailure if a loss is not finite."""
        rate = self._rate(iteration, iterations)
        chunks, explained = self._prepare(rollout)
        figures = Figures()
        generator = torch.Generator().manual_seed(keyed_seed(self.seed, SHUFFLES, iteration))
        size = max(1, self.settings.minibatch_size // (self.length * self.seats.count))
        for _ in range(self.settings.epochs):
            order = torch.randperm(len(chunks), generator=generator).to(chunks.raw.device)
            first = len(figures.rows)
            for part in chunks.minibatches(order, size):
                figures.rows.append(self._step(part))
            figures.epochs += 1
            if self.algorithm.target_kl and float(figures.means(first)[3]) > self.algorithm.target_kl:
                break
        self.updates += 1
        metrics = figures.metrics()
        if not all(math.isfinite(number) for number in metrics.values()):
            raise LearnerFailure(
                f"policy {self.seats.policy}: losses or gradients of iteration {iteration} are not finite; lower "
                "the learning rates, or check rewards and observations for values that are not finite"
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

    def _rate(self, iteration: int, iterations: int) -> float:
        """Set both learning rates; return the actor's."""
        share = 1 - (iteration - 1) / iterations if self.settings.schedule == "linear" else 1.0
        share = max(share, 0.0)
        self.actor_adam.set_rate(self.settings.actor_learning_rate * share)
        self.critic_adam.set_rate(self.settings.critic_learning_rate * share)
        return self.settings.actor_learning_rate * share

    def _prepare(self, rollout: Rollout) -> tuple[Chunks, float]:
        """Advantages and returns of a rollout, in chunks; and the explained variance of the values."""
        track = rollout.tracks[self.seats.policy]
        steps, environments = rollout.failed.shape
        before = self._critic_memory
        if before is None:
            before = self.critic.start(environments)
        keep = chunk_starts(steps, self.length) if self.critic.remembers else ()
        judged, inputs, self._critic_memory = judge(self.critic, self.sight, rollout, before, keep)
        ends = ends_of(track, rollout, self.seats, self.reward)
        values = self.scale.denormalise(judged.values)
        gains, returns = self._gains(rollout, judged, ends)
        weights, value_weights = self._weights(rollout, ends.alive)
        known = ~rollout.failed
        if ends.alive is not None:
            known = known.unsqueeze(-1) & self.sight.any_by_column(ends.alive)
        explained = explained_variance(values[known], returns[known]) if known.any() else 0.0
        if self.algorithm.normalise_values and known.any():
            self.scale.update(returns[known], _last_layers(self.critic))
        log_probs, _ = self.head.log_prob(track.outs, track.raw)
        pieces = partial(cut, length=self.length)
        chunks = Chunks(
            pieces(track.observations[:-1]),
            None if track.masks is None else pieces(track.masks),
            pieces(track.raw),
            pieces(log_probs),
            pieces(self._normalised(gains, rollout, ends.alive)),
            weights,
            pieces(inputs[:-1]),
            pieces(self.scale.normalise(returns)),
            pieces(self.scale.normalise(values)),
            value_weights,
            pieces(rollout.begins[:-1]),
            memories_at(track.memories, self.kept(steps), self.seats.count),
            memories_at(judged.memories, keep, self.sight.rows),
        )
        return chunks, explained

    def _gains(self, rollout: Rollout, judged: Judged, ends: Ends) -> tuple[Tensor, Tensor]:
        """Advantages (T, B, N) and returns (T, B, K)."""
        track = rollout.tracks[self.seats.policy]
        values = self.sight.by_agent(self.scale.denormalise(judged.values))
        after = self.sight.by_agent(self.scale.denormalise(judged.next_values))
        if self.reward != "agent" and not self.sight.central:
            values = of_living(values, ends.alive, self.seats)
            after = of_living(after, ends.alive_after, self.seats)
        gains = advantages(
            learnt_from(track.rewards, self.seats, self.reward),
            values,
            after,
            ends.terminated if self.algorithm.bootstrap_truncated else ends.terminated | ends.truncated,
            ends.truncated,
            self.algorithm.discount,
            self.algorithm.gae_lambda,
            rollout.failed.unsqueeze(-1),
        )
        return gains, self.sight.by_column(gains + values)

    def _normalised(self, gains: Tensor, rollout: Rollout, alive: Tensor | None) -> Tensor:
        """Advantages (T, B, N), over all trained steps and agents."""
        if not self.algorithm.normalise_advantages:
            return gains
        if alive is None:
            learnt = gains[~rollout.failed][:, self._trained(gains.device)]
        else:
            learnt = gains[~rollout.failed.unsqueeze(-1) & alive & self._trained(gains.device)]
        if not len(learnt):
            return gains
        return (gains - learnt.mean()) / (learnt.std(correction=0) + 1e-8)

    def _trained(self, device: torch.device) -> Tensor:
        """(N,) bool."""
        return torch.tensor(
            [
                trained
                for trained, where in zip(self.seats.trained, self.seats.slices, strict=True)
                for _ in range(where.stop - where.start)
            ],
            device=device,
        )

    def _weights(self, rollout: Rollout, alive: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """(G, L, N) and (G, L, K), None if every sample has weight 1."""
        steps, environments = rollout.failed.shape
        whole = steps % self.length == 0 and not rollout.failed.any()
        if all(self.seats.trained) and whole and alive is None:
            return None, None
        device = rollout.failed.device
        fresh = fresh_steps(steps, self.length).to(device).repeat_interleave(environments, dim=0)
        counted = (fresh & ~cut(rollout.failed, self.length)).unsqueeze(-1) & self._trained(device)
        if alive is not None:
            counted = counted & cut(alive, self.length)
        return counted.float(), self.sight.any_by_column(counted).float()

    def _step(self, part: Chunks) -> Tensor:
        """One optimiser step of both networks; return a row of Figures. A minibatch without trained samples changes nothing."""
        if part.weights is not None and not part.weights.any():
            return torch.zeros(11, device=part.weights.device)
        self.actor_adam.clear()
        self.critic_adam.clear()
        with torch.autocast(
            part.observations.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"
        ):
            loss, row = self._losses(part)
        loss.backward()
        return torch.cat([row, torch.stack([self.actor_adam.step(), self.critic_adam.step()])])


def learnt_from(rewards: Tensor, seats: Seats, reward: str) -> Tensor:
    """Rewards (T, B, N) for training: each agent's own, or the sum or mean over the agents of its role, never over two roles."""
    if reward == "agent":
        return rewards
    parts = []
    for where in seats.slices:
        role = rewards[..., where]
        team = role.sum(-1, keepdim=True) if reward == "team_sum" else role.mean(-1, keepdim=True)
        parts.append(team.expand_as(role))
    return torch.cat(parts, dim=-1)


def _quantiles(tensor: Tensor) -> list[float]:
    """All numbers of a tensor, or HISTOGRAM evenly spaced quantiles."""
    found = tensor.detach().float().flatten().sort().values
    if len(found) > HISTOGRAM:
        found = found[torch.linspace(0, len(found) - 1, HISTOGRAM, device=found.device).round().long()]
    numbers: list[float] = found.tolist()
    return numbers


def _last_layers(critic: nn.Module) -> list[nn.Linear]:
    heads = [getattr(module, "head", None) for module in critic.modules()]
    return [head for head in heads if isinstance(head, nn.Linear)]
