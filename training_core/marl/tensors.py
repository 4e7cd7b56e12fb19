"""Arrays of environments as tensors: numpy arrays of the host, or tensors of environments that are on a device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def tensor_of(part: Any, device: torch.device | None = None) -> Tensor:
    """An array or a tensor as a tensor, on `device` if one is named."""
    tensor: Tensor = part if isinstance(part, Tensor) else torch.from_numpy(part)
    return tensor if device is None else tensor.to(device)


def host_array(part: Any) -> NDArray[Any]:
    """An array or a tensor as a numpy array."""
    array: NDArray[Any] = part.cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)
    return array


def device_of_environment(environment: Any) -> torch.device | None:
    """The device of an environment that steps there; None for arrays on the host."""
    device: torch.device | None = getattr(environment, "device", None)
    return device


def generator_for(environment: Any) -> torch.Generator:
    """A generator of actions' noise: on the GPU that the environment is on, otherwise on the host.

    Its numbers differ between types of devices; on the host they are those of every machine.
    """
    device = device_of_environment(environment)
    return torch.Generator(device if device is not None and device.type == "cuda" else "cpu")
