"""Code of the user that workflows name by import path."""

from typing import Any

from training_core.config.base import Section
from training_core.config.rollout import Agent
from training_core.errors import ConfigError
from training_core.importing import load_object


def load_agent(path: str) -> Any:
    """The class at workflow.path. Raises ConfigError if it does not exist or has no method `run`."""
    agent = load_object(path, "workflow.path")
    if not callable(getattr(agent, "run", None)):
        raise ConfigError({"workflow.path": f"{path} has no method run(data, **kwargs)"})
    return agent


def check_workflow(section: Section) -> None:
    """Import what a workflow's section names. Raises ConfigError for the first object that cannot be used."""
    for field in section.import_fields:
        path = getattr(section, field)
        if path and isinstance(section, Agent):
            load_agent(path)
        elif path:
            load_object(path, f"workflow.{field}")
