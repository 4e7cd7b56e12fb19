"""GPUs of a run that the server's own machine does not have: refused at launch, because a run that waits for them waits forever."""

from django.conf import settings

from training_core.config.kinds import AnyConfig
from workers.launchers.bundled_ray import present_cluster
from workers.launchers.launcher import LauncherFailure
from workers.launchers.registry import make_launcher
from workers.sizing.placement import refuse_gpus, requested_gpus

LOCAL = "local"
"""The launcher of processes on this machine."""


def check_gpus(config: AnyConfig) -> None:
    """Raises ConfigError if a config requests GPUs of the bundled Ray, or of local processes, on a machine without any.

    Other clusters may get more machines: there a run waits, and states what for.
    """
    if not requested_gpus(config) or not (settings.TROUPE_LAUNCHER == LOCAL or present_cluster()):
        return
    try:
        capacity = make_launcher(settings.TROUPE_LAUNCHER).capacity()
    except LauncherFailure:
        return  # it waits for a cluster that answers
    if capacity is not None and not capacity.gpus:
        refuse_gpus(config, "this server's machine")
