"""Opens the gateway of runs whose episodes are played by custom agents."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from training_core.config.rollout import Agent, RolloutBuffer
from training_core.config.run import RunConfig
from training_core.llm.workflows.rollout_buffer import POLICIES

if TYPE_CHECKING:
    from workers.gateway.gateway import Gateway


def open_gateway(config: RunConfig, tokenizers: Mapping[str, Any], threads: int) -> "Gateway | None":
    """A started gateway, or None if the workflow needs none. `threads`: number of policies that generate at once.

    Raises ConfigError if its port is in use.
    """
    section = config.workflow
    if isinstance(section, RolloutBuffer) and section.engine_url == POLICIES:
        section = Agent()  # the buffer's generator calls the run's policies
    if not isinstance(section, Agent):
        return None
    from workers.gateway.gateway import Gateway  # here: other runs need no web server

    gateway = Gateway(section, tokenizers, threads=threads)
    gateway.start()
    return gateway
