"""Agents by import path."""

from typing import Any

from training_core.errors import ConfigError
from training_core.importing import load_object


def load_agent(path: str) -> Any:
    """The class at workflow.path. Raises ConfigError if it does not exist or has no method `run`."""
    agent = load_object(path, "workflow.path")
    if not callable(getattr(agent, "run", None)):
        raise ConfigError({"workflow.path": f"{path} has no method run(data, **kwargs)"})
    return agent
