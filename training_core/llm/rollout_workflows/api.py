"""The interface of rollout workflows as in AReaL: the base class, requests and responses, and the forms of ids and data.

Names and fields are AReaL's (areal/api, 2025), so a workflow written for AReaL only needs other imports.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from training_core.errors import PromptRefused
from training_core.types import StopReason

if TYPE_CHECKING:
    from torch import Tensor

    from training_core.llm.rollout_workflows.inference_engine import InferenceEngine


@dataclass(frozen=True)
class GenerationHyperparameters:
    """How answers are sampled."""

    n_samples: int = 1
    max_new_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    """1 disables."""
    top_k: int = 0
    """0 disables."""
    greedy: bool = False
    stop: tuple[str, ...] = ()
    """Strings that end an answer."""

    def new(self, **changes: Any) -> Self:
        """A copy with changes."""
        return replace(self, **changes)


def new_id() -> str:
    """A new id for a request, or for all requests of one conversation."""
    return uuid4().hex


@dataclass(frozen=True)
class ModelRequest:
    """One call to the policy."""

    input_ids: Any
    """Token ids: a list, a tensor, or a tokenizer's output."""
    gconfig: GenerationHyperparameters = GenerationHyperparameters()
    rid: str = field(default_factory=new_id)
    """Identical for the calls of one conversation, so that an engine may cache keys and values."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


LLMRequest = ModelRequest
"""Its name in AReaL until 2025."""


@dataclass(frozen=True)
class ModelResponse:
    """The policy's answer; the lists have one entry per output token."""

    input_tokens: list[int]
    output_tokens: list[int]
    output_logprobs: list[float]
    output_versions: list[int]
    """Version of the weights that sampled each token."""
    stop_reason: StopReason
    latency: float = 0.0
    """Seconds from request to response."""

    @property
    def input_len(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.input_tokens)

    @property
    def output_len(self) -> int:
        """Number of tokens of the answer, including its end-of-turn token."""
        return len(self.output_tokens)


@dataclass(frozen=True)
class Interaction:
    """One call with its reward: another form in which a workflow may return an episode."""

    response: ModelResponse
    reward: float = 0.0
    role: str = ""
    """Role of the call; empty for the team's first role."""


Trajectory = dict[str, "Tensor"]
"""input_ids, attention_mask (B, S); loss_mask, logprobs, versions (B, S); rewards (B,). Padded on the right."""
EpisodeResult = Trajectory | list[Interaction] | Mapping[str, Interaction] | None
"""None: the episode is rejected."""


class RolloutWorkflow(ABC):
    """The base class of workflows, which play one episode."""

    @abstractmethod
    async def arun_episode(self, engine: "InferenceEngine", data: dict[str, Any]) -> EpisodeResult:
        """Play one episode on `data`. None rejects it: another episode replaces it."""


class TokenIds(list[int]):
    """Token ids of one text: a list that also supports the key access of transformers 5."""

    def __getitem__(self, key: Any) -> Any:
        """An id by its index; or, by name, input_ids or attention_mask."""
        if key == "input_ids":
            return list(self)
        if key == "attention_mask":
            return [1] * len(self)
        return super().__getitem__(key)

    @property
    def input_ids(self) -> list[int]:
        """As `["input_ids"]`."""
        return list(self)


def token_ids_of(value: Any) -> list[int]:
    """Ids of a list, an array or a tensor, of a batch of one, or of a tokenizer's output. Raises PromptRefused."""
    ids = value
    if (
        isinstance(ids, Mapping) or hasattr(ids, "data") and hasattr(ids, "input_ids")
    ):  # a BatchEncoding is not a Mapping
        if "input_ids" not in ids:
            raise PromptRefused("a request's input_ids is a mapping without the key input_ids")
        ids = ids["input_ids"]
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if not isinstance(ids, list | tuple):
        raise PromptRefused(f"a request's input_ids must be a list of token ids, not {type(value).__name__}")
    if len(ids) == 1 and isinstance(ids[0], list | tuple):
        ids = ids[0]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        ids = [token.item() if hasattr(token, "item") else token for token in ids]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise PromptRefused("a request's input_ids must be one list of integers")
    return list(ids)


def workflow_tokenizer(tokenizer: Any) -> Any:
    """A tokenizer of the same class whose `apply_chat_template(tokenize=True)` returns a list of ids, as in
    transformers 4.

    `return_dict=True` returns a BatchEncoding, and `decode` accepts one.
    """
    tokenizer_class = type(tokenizer)

    def apply_chat_template(self: Any, conversation: Any, *args: Any, **kwargs: Any) -> Any:
        """The rendered conversation: a list of ids unless return_dict is True."""
        return_dict = bool(kwargs.pop("return_dict", False))
        result = tokenizer_class.apply_chat_template(
            self, conversation, *args, return_dict=return_dict, **kwargs
        )
        flat = isinstance(result, list) and all(isinstance(token, int) for token in result)
        return TokenIds(result) if flat else result

    def decode(self: Any, token_ids: Any, *args: Any, **kwargs: Any) -> Any:
        """The text of token ids, or of a BatchEncoding of one text."""
        ids = token_ids_of(token_ids) if hasattr(token_ids, "input_ids") else token_ids
        return tokenizer_class.decode(self, ids, *args, **kwargs)

    def reduce(self: Any) -> Any:
        """Pickle support for a workflow's own processes, which recreate the class."""
        return workflow_tokenizer, (tokenizer,)

    methods = {"apply_chat_template": apply_chat_template, "decode": decode, "__reduce__": reduce}
    copied = copy.copy(tokenizer)
    copied.__class__ = type(tokenizer_class.__name__, (tokenizer_class,), methods)
    return copied


REWARD_ARGUMENTS = ("prompt", "completions", "prompt_ids", "completion_ids")
"""Arguments that AReaL's reward functions receive by name, in addition to **data."""


class RowData(dict[str, Any]):
    """A row in which all columns can be read, but `**row` omits those that a reward function receives by name.

    AReaL's workflows call `reward_fn(prompt=..., completions=..., **data)`; a row with a column `prompt` would pass
    it twice.
    """

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in row.items() if name not in REWARD_ARGUMENTS})
        self._hidden = {name: value for name, value in row.items() if name in REWARD_ARGUMENTS}

    def __missing__(self, name: str) -> Any:
        return self._hidden[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._hidden

    def get(self, name: str, default: Any = None) -> Any:
        """As dict.get, including the hidden columns."""
        return self._hidden.get(name, super().get(name, default))
