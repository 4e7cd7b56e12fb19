"""Analytic gradients of PPO for multi-layer perceptrons with one set of choices, in place of autograd.

They are those of PolicyLearner.losses to fp32 rounding, in about half its CPU time: a layer and its activation are one
call of oneDNN, and the losses' gradients are computed with the choices as the first axis.

Letters: G environment steps of a minibatch, N agents, R rows of a network, D inputs, O outputs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from training_core.config.marl.seed_groups import ACTIVATIONS
from training_core.fast_linear import product
from training_core.marl.learning.batch import Chunks
from training_core.marl.learning.ratio_statistics import ratio_statistics
from training_core.marl.networks.agents import Networks, SharedNetwork
from training_core.marl.networks.heads import ChoiceHead
from training_core.marl.networks.mlp.backbone import MlpBackbone

if TYPE_CHECKING:
    from training_core.marl.learning.learner import PolicyLearner


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
        if self._identity is not None:
            x = torch.cat([x, self._identity.expand(*x.shape[:-1], -1)], dim=-1)
        self._values = [x.flatten(0, -2)]
        for layer in self._layers:
            self._values.append(layer.values(self._values[-1], self._activation))
        return torch.addmm(self._head.bias.unsqueeze(1), self._head.weight, self._values[-1].t())

    def outputs(self, x: Tensor) -> Tensor:
        """(..., N, D) -> (..., N, O), without gradients."""
        rows = x
        if self._identity is not None:
            rows = torch.cat([x, self._identity.expand(*x.shape[:-1], -1)], dim=-1)
        rows = rows.flatten(0, -2)
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
