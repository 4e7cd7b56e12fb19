"""The device of tensor work, as the config requests it: a requested GPU that is not visible is an error, not a CPU."""

from training_core.errors import Advice, ConfigError


def cuda_is_visible() -> bool:
    """Whether torch can use a CUDA device in this process. Imports torch."""
    import torch

    return torch.cuda.is_available()


def torch_device(gpus: float, field: str) -> str:
    """ "cuda" if GPUs are requested, otherwise "cpu". Raises ConfigError for the field that requests them if none is visible."""
    if gpus <= 0:
        return "cpu"
    if not cuda_is_visible():
        raise ConfigError({field: no_gpu(gpus, "the machine of the workers")})
    return "cuda"


def no_gpu(gpus: float, where: str) -> Advice:
    """The error of a field that requests GPUs of a machine or cluster without any."""
    verb = "is" if gpus <= 1 else "are"
    return Advice(
        f"{gpus:g} GPU{'s' * (gpus > 1)} {verb} requested, but {where} has no CUDA device",
        "set it to 0, or use a machine with an NVIDIA GPU and its driver",
    )
