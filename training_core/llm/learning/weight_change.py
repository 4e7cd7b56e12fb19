"""How far an update moves the weights of a model, from some numbers of each tensor.

An update that changes nothing is seen here whatever its cause: no gradient, a learning rate of almost 0, frozen weights. The weights
are those that engines get, so that a change that their precision loses does not count.
"""

import torch
from torch import Tensor, nn

NUMBERS = 1024
"""Maximum numbers that are read of a tensor, evenly spaced."""


@torch.no_grad()
def sampled_weights(model: nn.Module) -> Tensor:
    """Copies (N,) in fp32 of some numbers of each trained tensor of a model; those that this process holds."""
    parts = [
        weight.detach().flatten()[:: max(weight.numel() // NUMBERS, 1)][:NUMBERS].float()
        for weight in model.parameters()
        if weight.requires_grad and weight.numel()
    ]
    return torch.cat(parts) if parts else torch.empty(0)


def weight_change(before: Tensor, after: Tensor) -> dict[str, float]:
    """`weight_change`: the norm (L2) of the difference of two samples, as a share of the first one's; nothing without numbers."""
    norm = float(torch.linalg.vector_norm(before)) if before.shape == after.shape else 0.0
    return {"weight_change": float(torch.linalg.vector_norm(after - before)) / norm} if norm else {}
