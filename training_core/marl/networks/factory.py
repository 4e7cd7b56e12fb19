"""Construct the backbone of a config section."""

from training_core.importing import resolve
from training_core.marl.networks.base import Backbone
from training_core.marl.networks.network_config import Network
from training_core.marl.networks.registry import NETWORKS

PACKAGE = __name__.rpartition(".")[0]


def make_backbone(section: Network, inputs: int) -> Backbone:
    """A backbone with initial weights. Raises ConfigError, with fields relative to the policy, for a wrong custom class."""
    backbone: Backbone = resolve(f"{PACKAGE}.{NETWORKS[section.type].make}")(section, inputs)
    return backbone
