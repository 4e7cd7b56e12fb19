"""Checks by kind of agents."""

from training_core.config.kinds import AnyConfig
from training_core.importing import resolve
from training_core.llm.base_models.folder_creation import Progress, silent
from workers.checks.results import Check, make_checks
from workers.checks.shared import Surroundings
from workers.kinds import WORKER_KINDS


def checks_of(config: AnyConfig, around: Surroundings, progress: Progress = silent) -> list[Check]:
    """What the driver would check of a config, made now."""
    return make_checks(resolve(WORKER_KINDS[config.agents].checks)(config, around), progress)
