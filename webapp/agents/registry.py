"""What pages need to know, by kind of agents."""

from collections.abc import Mapping
from typing import Any

from training_core.config.experiment import AgentKind
from training_core.config.kinds import agents_of
from webapp.agents.language_models import LANGUAGE_MODELS
from webapp.agents.networks import NETWORKS
from webapp.agents.pages import AgentPages

AGENT_PAGES: dict[AgentKind, AgentPages] = {
    AgentKind.LANGUAGE_MODELS: LANGUAGE_MODELS,
    AgentKind.NETWORKS: NETWORKS,
}


def agent_pages(config: Mapping[str, Any]) -> AgentPages:
    """Return the entry for a config tree."""
    return AGENT_PAGES[agents_of(config)]
