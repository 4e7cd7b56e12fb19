"""A device that this machine need not have: torch's meta device, on which operations check devices and shapes but compute nothing.

What would be read off it is made up, so that whole rollouts and updates run. An operation that mixes devices fails as on a GPU.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
aten = torch.ops.aten
MAY_MIX = {aten.copy_.default, aten._to_copy.default, aten.index.Tensor, aten.index_put_.default}
"""Copies, and indexing by indices of the CPU."""


class MadeUp(TorchDispatchMode):
    """Numbers that leave the device are made up, and devices are checked where the meta device is lenient."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        devices = {leaf.device.type for leaf in found if leaf.dim()}
        if len(devices) > 1 and func not in MAY_MIX:
            raise RuntimeError(f"{func} has tensors of {' and '.join(sorted(devices))}")
        if "meta" not in devices | {leaf.device.type for leaf in found}:
            return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:
            return _scalar(args[0].dtype)
        if func is aten.equal.default:
            return False
        if func is aten.nonzero.default:
            return torch.ones(1, args[0].dim(), dtype=torch.int64, device="meta")
        if func is aten._to_copy.default and kwargs.get("device") == torch.device("cpu"):
            return torch.ones(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        if func is aten.index.Tensor:
            return _picked(*args)
        if func is aten.copy_.default and args[0].device.type == "cpu":
            return args[0].fill_(1)
        return func(*args, **kwargs)


def _scalar(dtype: torch.dtype) -> Any:
    return True if dtype is torch.bool else 1.0 if dtype.is_floating_point else 1


def _picked(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """Of a mask, two rows are made up."""
    if not any(index is not None and index.dtype is torch.bool for index in indices):
        return aten.index.Tensor(x, [None if index is None else index.to("meta") for index in indices])
    taken = sum(1 if index is None else max(index.dim(), 1) for index in indices)
    before = [size for size, index in zip(x.shape, indices, strict=False) if index is None]
    return x.new_empty(*before, 2, *x.shape[taken:])
