"""The config of the openai engine."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.effects import Effects, trained
from training_core.llm.generation.engine_config import EngineSection

Url = Annotated[str, Field(pattern=r"^https?://[^\s?#]+$")]


class OpenAi(EngineSection):
    """A separate vLLM or SGLang server, called through the OpenAI API: needs devices.placement = "apart"."""

    weights: ClassVar[Literal["shared", "copied", "remote"]] = "remote"
    model_name_fields: ClassVar[tuple[str, ...]] = ("model",)
    folder_fields: ClassVar[tuple[str, ...]] = ("weights_folder",)
    key_fields: ClassVar[Mapping[str, str]] = {"key_variable": "urls"}
    effects: ClassVar[Effects] = {"weights_folder": trained}

    type: Literal["openai"] = "openai"
    """The server samples; it loads new weights from a shared folder."""
    server: Literal["vllm", "sglang"] = "vllm"
    """Server type, which determines the endpoints for new weights."""
    urls: tuple[Url, ...] = Field(("http://127.0.0.1:8000",), min_length=1)
    """URLs of servers with the same model, without /v1; prompts are distributed round-robin."""
    model: str = ""
    """Model name on the server; empty uses the first model that the server lists."""
    key_variable: str = Field("", pattern=r"^([A-Z0-9_]+_API_KEY)?$")
    """Name of the worker's environment variable that holds the API key, ending in _API_KEY; empty for none."""
    weights_folder: str = ""
    """Folder for new weights that servers see under the same path; required if the policy is trained."""
    timeout: float = Field(600.0, gt=0.0)
    """Maximum time for one answer, or one update of weights, in seconds."""
    attempts: int = Field(3, ge=1, le=20)
    """Attempts per request before it fails; the wait between attempts grows, so that a restarting server is reached again."""
