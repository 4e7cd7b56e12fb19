"""The learner of one policy: its actor and critic, and PPO updates of both.

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
from training_core.marl.learning.critics import Sight, judge
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
"""Stream of the minibatches' orders; see MarlTrainer."""


@dataclass
class Figures:
    """Sums over the minibatches of an update."""

    rows: list[Tensor] = field(default_factory=list)
    """actor loss, value loss, entropy, KL, clipped share, mean ratio, mean squared ratio, largest ratio, both gradient norms."""
    epochs: int = 0

    def metrics(self) -> dict[str, float]:
        table = torch.stack(self.rows).double()
        means = table.mean(0).tolist()
        largest = float(table[:, 7].max())
        return {
            "actor_loss": means[0],
            "value_loss": means[1],
            "entropy": means[2],
            "kl": means[3],
            "clip_fraction": means[4],
            "ratio_mean": means[5],
            "ratio_std": math.sqrt(max(means[6] - means[5] ** 2, 0.0)),
            "ratio_max": largest,
            "grad_norm": means[8],
            "critic_grad_norm": means[9],
            "epochs": float(self.epochs),
        }


class PolicyLearner:
    """Networks, optimisers and value scale of one policy. Weights are drawn from `seed`."""

    def __init__(
        self,
        policy: MarlPolicy,
        algorithm: MarlPpo,
        seats: dict[str, Seats],
        name: str,
        spec: Spec,
        seed: int,
        device: torch.device,
    ) -> None:
        self.settings: MarlLearner = policy.learner
        self.algorithm = algorithm
        self.seats = seats[name]
        self.seed = seed
        self.head = make_head(self.seats.actions)
        self.sight = Sight(algorithm, self.seats, seats, spec)
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
        losses = partial(_losses, self)
        self._losses = torch.compile(losses) if self.settings.compile else losses

    def kept(self, steps: int) -> tuple[int, ...]:
        """The steps before which a rollout keeps the actor's memory: where chunks begin."""
        return chunk_starts(steps, self.length) if self.actor.remembers else ()

    def forget(self) -> None:
        """The next rollout begins with new episodes everywhere."""
        self._critic_memory = None

    def update(self, rollout: Rollout, reward: str, iteration: int, iterations: int) -> dict[str, float]:
        """PPO on one rollout (iterations count from 1). Raises LearnerFailure where a loss is no number."""
        rate = self._rate(iteration, iterations)
        chunks, explained = self._prepare(rollout, reward)
        figures = Figures()
        generator = torch.Generator().manual_seed(keyed_seed(self.seed, SHUFFLES, iteration))
        size = max(1, self.settings.minibatch_size // (self.length * self.seats.count))
        for _ in range(self.settings.epochs):
            order = torch.randperm(len(chunks), generator=generator).to(chunks.raw.device)
            first = len(figures.rows)
            for part in chunks.minibatches(order, size):
                figures.rows.append(self._step(part))
            figures.epochs += 1
            if self.algorithm.target_kl and self._kl_since(figures, first) > self.algorithm.target_kl:
                break
        self.updates += 1
        metrics = figures.metrics()
        if not all(math.isfinite(number) for number in metrics.values()):
            raise LearnerFailure(
                f"policy {self.seats.policy}: losses or gradients of iteration {iteration} are not finite; "
                "lower the learning rates, or look for rewards or observations that are no numbers"
            )
        return metrics | {"explained_variance": explained, "lr": rate}

    def _rate(self, iteration: int, iterations: int) -> float:
        """Set both learning rates; returns the actor's."""
        share = 1 - (iteration - 1) / iterations if self.settings.schedule == "linear" else 1.0
        share = max(share, 0.0)
        self.actor_adam.set_rate(self.settings.actor_learning_rate * share)
        self.critic_adam.set_rate(self.settings.critic_learning_rate * share)
        return self.settings.actor_learning_rate * share

    def _prepare(self, rollout: Rollout, reward: str) -> tuple[Chunks, float]:
        """Advantages and returns of a rollout, in chunks; and the explained variance of the values."""
        track = rollout.tracks[self.seats.policy]
        steps, environments = rollout.failed.shape
        before = self._critic_memory
        if before is None:
            before = self.critic.start(environments)
        keep = chunk_starts(steps, self.length) if self.critic.remembers else ()
        judged, inputs, self._critic_memory = judge(self.critic, self.sight, rollout, before, keep)
        values = self.scale.denormalise(judged.values)
        by_agent = self.sight.by_agent(values)
        ends = rollout.terminated.unsqueeze(-1).to(values.device)
        cuts = rollout.truncated.unsqueeze(-1).to(values.device)
        gains = advantages(
            learnt_from(track.rewards, self.seats, reward),
            by_agent,
            self.sight.by_agent(self.scale.denormalise(judged.next_values)),
            ends if self.algorithm.bootstrap_truncated else ends | cuts,
            cuts,
            self.algorithm.discount,
            self.algorithm.gae_lambda,
            rollout.failed.unsqueeze(-1).to(values.device),
        )
        returns = self.sight.by_column(gains + by_agent)
        weights, value_weights = self._weights(rollout, values.device)
        known = ~rollout.failed.to(values.device)
        explained = explained_variance(values[known], returns[known])
        if self.algorithm.normalise_values:
            self.scale.update(returns[known], _last_layers(self.critic))
        log_probs, _ = self.head.log_prob(track.outs, track.raw)
        pieces = partial(cut, length=self.length)
        chunks = Chunks(
            pieces(track.observations[:-1]),
            None if track.masks is None else pieces(track.masks),
            pieces(track.raw),
            pieces(log_probs),
            pieces(self._normalised(gains, rollout)),
            weights,
            pieces(inputs[:-1]),
            pieces(self.scale.normalise(returns)),
            pieces(self.scale.normalise(values)),
            value_weights,
            pieces(rollout.begins[:-1].to(values.device)),
            memories_at(track.memories, self.kept(steps), self.seats.count),
            memories_at(judged.memories, keep, self.sight.rows),
        )
        return chunks, explained

    def _normalised(self, gains: Tensor, rollout: Rollout) -> Tensor:
        """Advantages (T, B, N), over all steps and agents that are learnt from."""
        if not self.algorithm.normalise_advantages:
            return gains
        learnt = gains[~rollout.failed.to(gains.device)][:, self._trained(gains.device)]
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

    def _weights(self, rollout: Rollout, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """(G, L, N) and (G, L, K), None where every sample counts once."""
        steps, environments = rollout.failed.shape
        if all(self.seats.trained) and steps % self.length == 0 and not rollout.failed.any():
            return None, None
        fresh = fresh_steps(steps, self.length).repeat_interleave(environments, dim=0)
        counted = (fresh & ~cut(rollout.failed, self.length)).to(device).float()
        by_agent = counted.unsqueeze(-1) * self._trained(device).float()
        return by_agent, self.sight.by_column(by_agent)

    def _step(self, part: Chunks) -> Tensor:
        """One optimiser step of both networks; returns a row of Figures."""
        self.actor_adam.clear()
        self.critic_adam.clear()
        with torch.autocast(
            part.observations.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"
        ):
            loss, row = self._losses(part)
        loss.backward()
        return torch.cat([row, torch.stack([self.actor_adam.step(), self.critic_adam.step()])])

    def _kl_since(self, figures: Figures, first: int) -> float:
        return float(torch.stack(figures.rows[first:])[:, 3].mean())


def _losses(learner: PolicyLearner, part: Chunks) -> tuple[Tensor, Tensor]:
    """The sum of actor's and critic's losses (), whose gradients do not meet; and a row of Figures without the norms."""
    algorithm = learner.algorithm
    out = masked(learner.actor.sequence(part.observations, part.actor_memory, part.begins), part.masks)
    log_probs, entropies = learner.head.log_prob(out, part.raw)
    log_ratio = log_probs - part.log_probs
    actor_loss = mean(policy_loss(log_ratio, part.advantages, algorithm.clip), part.weights)
    entropy = mean(entropies, part.weights)
    seen = learner.critic.sequence(part.critic_inputs, part.critic_memory, part.begins)
    values = learner.sight.columns(seen).float()
    limit = algorithm.value_clip if algorithm.clip_value else None
    critic_loss = mean(value_loss(values, part.old_values, part.returns, limit), part.value_weights)
    loss = actor_loss - algorithm.entropy_coefficient * entropy + algorithm.value_coefficient * critic_loss
    losses = torch.stack([actor_loss.detach(), critic_loss.detach(), entropy.detach()])
    return loss, torch.cat([losses, ratio_figures(log_ratio, algorithm.clip, part.weights)])


def learnt_from(rewards: Tensor, seats: Seats, reward: str) -> Tensor:
    """Rewards (T, B, N) as agents learn from them: their own, or the sum or mean over the agents of their role, never of two roles."""
    if reward == "agent":
        return rewards
    parts = []
    for where in seats.slices:
        role = rewards[..., where]
        team = role.sum(-1, keepdim=True) if reward == "team_sum" else role.mean(-1, keepdim=True)
        parts.append(team.expand_as(role))
    return torch.cat(parts, dim=-1)


def _last_layers(critic: nn.Module) -> list[nn.Linear]:
    heads = [getattr(module, "head", None) for module in critic.modules()]
    return [head for head in heads if isinstance(head, nn.Linear)]
