"""Requests of agents: those of the OpenAI API that a policy can answer."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TokenId = Annotated[int, Field(strict=True, ge=0)]
"""The upper bound is checked in answering.py."""
_STREAM_OPTIONS = ("include_usage",)
_MESSAGE_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")


class _Request(BaseModel):
    """Fields common to chat and text requests. Other fields are kept, so that ignored.py names them."""

    model_config = ConfigDict(extra="allow")
    ignored_fields: ClassVar[tuple[str, ...]] = (
        "temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias",
    )  # fmt: skip
    """Fields of OpenAI's API that are checked but not applied: the role's own settings are used, because the policy learns
    from that distribution.
    """

    model: str = ""
    """A role of the team; any name if there is only one."""
    n: int = Field(1, ge=1, le=128)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: dict[str, Any] = {}
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    return_token_ids: bool = False
    """Whether the response has prompt_token_ids, token_ids, token_logprobs and versions (vLLM's field, extended by two)."""
    on_update: Literal["resume", "abort"] = "resume"
    """If the weights change during an answer: continue it with the new ones, or end it with "abort"."""

    def with_token_ids(self, always: bool) -> Self:
        """A copy of the request; with `always` it requests token ids."""
        return self.model_copy(update={"return_token_ids": True}) if always else self

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts of the request."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in stops if text)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return bool(self.stream_options.get("include_usage"))

    @property
    def unapplied(self) -> dict[str, Any]:
        """Fields that are not applied and are not empty, with their values; fields of sections as section.field."""
        fields = {name: getattr(self, name) for name in self.ignored_fields} | (self.model_extra or {})
        fields |= _others("stream_options", self.stream_options, _STREAM_OPTIONS)
        return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


class ChatRequest(_Request):
    """POST /v1/chat/completions."""

    ignored_fields = (*_Request.ignored_fields, "top_logprobs", "tool_choice", "response_format")

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] = "auto"
    """With "none" the policy does not see the tools. It chooses for itself, so that other values are ignored."""
    response_format: dict[str, Any] | None = None
    continue_final_message: bool = False
    """Whether the last message is an unfinished assistant message."""

    @model_validator(mode="after")
    def _continues_the_assistant(self) -> Self:
        if self.continue_final_message and self.messages[-1].get("role") != "assistant":
            raise ValueError("continue_final_message: the last message must be the assistant's")
        return self

    @property
    def limit(self) -> int | None:
        """Maximum number of new tokens."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def offered(self) -> list[dict[str, Any]] | None:
        """The tools that the policy sees."""
        return self.tools if self.tools and self.tool_choice != "none" else None

    @property
    def unapplied(self) -> dict[str, Any]:
        """As for every request; fields of messages as messages.field."""
        fields: dict[str, Any] = {}
        for message in self.messages:
            fields |= _others("messages", message, _MESSAGE_FIELDS)
        return super().unapplied | {name: value for name, value in fields.items() if value}


class TextRequest(_Request):
    """POST /v1/completions."""

    ignored_fields = (*_Request.ignored_fields, "logprobs")
    """Of logprobs only the number of alternatives, above 1."""

    prompt: str | list[TokenId] | list[str] | list[list[TokenId]]
    max_tokens: int | None = Field(None, ge=1)
    logprobs: int | None = Field(None, ge=0)
    echo: Literal[False] = False

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list."""
        prompt = self.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            return list(prompt)
        return [prompt]  # type: ignore[list-item]


def _others(section: str, fields: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a section that are not known, as section.field."""
    return {f"{section}.{name}": value for name, value in fields.items() if name not in known}
