"""What would wait for a GPU, recorded on the CPU: readings of numbers, and copies from ordinary memory."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten: Any = torch.ops.aten
READING = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
}
"""Operations whose results' sizes or values the host needs."""
COPYING = ((torch, "from_numpy"), (torch, "tensor"), (Tensor, "tolist"), (Tensor, "numpy"), (Tensor, "cpu"))
"""Functions that copy between host and device and wait for the copy."""


class Waits(TorchDispatchMode):
    """Records the operations that would wait for a GPU. On the CPU none of them does."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        by_mask = func is aten.index.Tensor and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        unsized = func is aten.repeat_interleave.Tensor and (kwargs or {}).get("output_size") is None
        if func in READING or by_mask or unsized:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


Recording = tuple[list[str], Callable[[], AbstractContextManager[None]]]


def record_waits(monkeypatch: pytest.MonkeyPatch) -> Recording:
    """What waited, and a context in which it is recorded."""
    mode, active = Waits(), []

    def recorded(owner: Any, name: str) -> None:
        usual = getattr(owner, name)

        def record(*args: Any, **kwargs: Any) -> Any:
            mode.found.extend([name] * len(active))
            return usual(*args, **kwargs)

        monkeypatch.setattr(owner, name, record)

    for place in COPYING:
        recorded(*place)

    @contextmanager
    def recording() -> Iterator[None]:
        active.append(1)
        try:
            with mode:
                yield
        finally:
            active.clear()

    return mode.found, recording
