"""What pages need to know, by kind of agents."""

from collections.abc import Iterable, Mapping
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


def with_tokens(configs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether agents of one of these configs read and write text; also without any config."""
    pages = [agent_pages(config) for config in configs]
    return not pages or any(kind.tokens for kind in pages)


def agent_pages(config: Mapping[str, Any]) -> AgentPages:
    """Return the entry for a config tree."""
    return AGENT_PAGES[agents_of(config)]
