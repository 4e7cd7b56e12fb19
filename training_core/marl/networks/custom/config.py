"""The config of custom networks by import path."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments
from training_core.importing import IMPORT_PATH
from training_core.marl.networks.network_config import Network


class CustomNetwork(Network):
    """A custom class, with or without memory, by import path."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A subclass of Backbone of training_core/marl/networks/base.py."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class, a subclass of Backbone; the class is constructed with this section, the number of inputs, and `args`."""
    args: Arguments = {}
    """Additional keyword arguments that the class is constructed with."""
    chunk_length: int = Field(16, ge=1)
    """Steps of backpropagation through time, as for gru; unused if the class has no memory."""

    @property
    def sequence_length(self) -> int:
        """Steps of a chunk."""
        return self.chunk_length
