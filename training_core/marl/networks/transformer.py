"""A causal transformer over a sliding window of the episode's last steps.

Every layer attends to its inputs of the last C steps (including the current one) within the episode. The memory is
these inputs, as in Transformer-XL (arXiv 1901.02860): a layer's inputs in the previous C - 1 steps, without gradient
through them, while their keys and values are trained. Positions are relative: a learnt number per head and distance
is added to the attention (arXiv 1910.10683), so the window's position in the episode has no effect.

Letters: R rows, L steps, C context_length, d recurrent_hidden_dim, W = C - 1 remembered steps.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training_core.marl.networks.base import Backbone, Memory
from training_core.marl.networks.config import Transformer
from training_core.marl.networks.layers import layers


class Block(nn.Module):
    """Attention and a feed-forward layer, each with a preceding layer norm and a residual connection."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.by_distance = nn.Parameter(torch.zeros(heads, context))
        self.forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, seen: Tensor, distance: Tensor, allowed: Tensor) -> Tensor:
        """x (R, L, d) attends to seen (R, W + L, d); distance (L, W + L) is the offset in steps, allowed (R, L, W + L) the mask."""
        bias = self.by_distance[:, distance.clamp(0, self.by_distance.shape[1] - 1)]
        mask = bias.masked_fill(~allowed[:, None], float("-inf"))
        query, normed = self._split(self.query(self.attention_norm(x))), self.attention_norm(seen)
        attended = (
            self._one_step(query, normed, mask) if x.shape[1] == 1 else self._steps(query, normed, mask)
        )
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        change: Tensor = self.feed_forward(self.forward_norm(x))
        return x + change

    def _steps(self, query: Tensor, seen: Tensor, mask: Tensor) -> Tensor:
        """(R, heads, L, d / heads)."""
        keys, values = (self._split(part) for part in self.key_value(seen).chunk(2, -1))
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)

    def _one_step(self, query: Tensor, seen: Tensor, mask: Tensor) -> Tensor:
        """The same for one step, without the keys and values of all seen steps.

        Both are linear: the query is multiplied with the weights of the keys, and the weights of the values with the mean of
        what is seen. The keys' bias adds the same number to all seen steps and has no effect.
        """
        of_keys, of_values = (part.unflatten(0, (self.heads, -1)) for part in self.key_value.weight.chunk(2))
        queries = (query.squeeze(2).transpose(0, 1) @ of_keys).transpose(0, 1)
        scores = queries @ seen.transpose(1, 2) / query.shape[-1] ** 0.5 + mask.squeeze(2)
        means = (scores.softmax(-1) @ seen).transpose(0, 1)
        values = means @ of_values.transpose(1, 2)
        bias = self.key_value.bias.chunk(2)[1].view(self.heads, 1, -1)
        result: Tensor = (values + bias).transpose(0, 1).unsqueeze(2)
        return result

    def _split(self, x: Tensor) -> Tensor:
        """(R, steps, d) -> (R, heads, steps, d / heads)."""
        rows, steps, width = x.shape
        return x.view(rows, steps, self.heads, width // self.heads).transpose(1, 2)


class TransformerBackbone(Backbone):
    """Hidden layers, then the transformer. Memory: layers' inputs (R, layers, W, d), latest last, and the number of valid ones (R,)."""

    def __init__(self, config: Transformer, inputs: int) -> None:
        super().__init__()
        self.features = config.recurrent_hidden_dim
        self.remembered = config.context_length - 1
        width = config.hidden_dim if config.hidden_layers else inputs
        self.before = layers(config, inputs)
        self.before.add_module(str(2 * config.hidden_layers), nn.Linear(width, self.features))
        self.blocks = nn.ModuleList(
            Block(self.features, config.heads, config.context_length) for _ in range(config.recurrent_layers)
        )
        self.norm = nn.LayerNorm(self.features)

    def start(self, rows: int) -> Memory:
        weight = self.norm.weight
        inputs = weight.new_zeros(rows, len(self.blocks), self.remembered, self.features)
        return inputs, torch.zeros(rows, dtype=torch.int64, device=weight.device)

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        features, seen = self._run(x[None], memory, torch.zeros_like(x[None, :, 0], dtype=torch.bool))
        lengths = (memory[1] + 1).clamp(max=self.remembered)
        return features[0], (seen[:, :, 1:], lengths)

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        return self._run(x, memory, begins)[0]

    def _run(self, x: Tensor, memory: Memory, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Features (L, R, d), and every layer's inputs, including the memory (R, layers, W + L, d)."""
        inputs, lengths = memory
        distance, allowed = self._window(lengths, begins)
        x = self.before(x).transpose(0, 1)
        seen_by_layer = []
        for layer, block in enumerate(self.blocks):
            seen = torch.cat([inputs[:, layer].detach().to(x.dtype), x], 1)
            x = block(x, seen, distance, allowed)
            seen_by_layer.append(seen)
        return self.norm(x).transpose(0, 1), torch.stack(seen_by_layer, 1)

    def _window(self, lengths: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Distance of each seen step (L, W + L), and whether it is within window and episode (R, L, W + L)."""
        steps = torch.arange(-self.remembered, len(begins), device=begins.device)
        distance = steps[self.remembered :, None] - steps
        episode = begins.cumsum(0).T
        seen_episode = F.pad(episode, (self.remembered, 0))
        real = steps >= -lengths[:, None]
        near = (distance >= 0) & (distance <= self.remembered)
        return distance, near & real[:, None] & (episode[:, :, None] == seen_episode[:, None])
