"""Requests of agents: those of the OpenAI API that a policy can answer."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TokenId = Annotated[int, Field(strict=True, ge=0)]
"""The upper bound is checked in answering.py."""


class _Request(BaseModel):
    """Fields common to chat and text requests. Unknown fields are ignored, as clients send more than they need."""

    model_config = ConfigDict(extra="ignore")

    model: str = ""
    """A role of the team; any name if there is only one."""
    n: int = Field(1, ge=1, le=128)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    temperature: float | None = None
    """Accepted and ignored: the role's own settings are used, because the policy learns from that distribution."""
    top_p: float | None = None
    """As temperature."""
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None
    return_token_ids: bool = False
    """Whether the response has prompt_token_ids, token_ids, token_logprobs and versions (vLLM's field, extended by two)."""
    on_update: Literal["resume", "abort"] = "resume"
    """If the weights change during an answer: continue it with the new ones, or end it with "abort"."""

    @model_validator(mode="after")
    def _nothing_bends_the_distribution(self) -> Self:
        if self.presence_penalty or self.frequency_penalty or self.logit_bias:
            raise ValueError(
                "penalties and logit_bias would bend the distribution that is trained on; leave them out"
            )
        return self

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
        return bool((self.stream_options or {}).get("include_usage"))


class ChatRequest(_Request):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = False
    top_logprobs: int | None = Field(0, ge=0, le=0)
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = "auto"
    response_format: dict[str, Any] | None = None
    continue_final_message: bool = False
    """Whether the last message is an unfinished assistant message."""

    @model_validator(mode="after")
    def _is_answerable(self) -> Self:
        if self.response_format and self.response_format.get("type") not in (None, "text"):
            raise ValueError("response_format: only text is answered; read JSON from the text yourself")
        if self.tool_choice not in (None, "auto", "none"):
            raise ValueError('tool_choice: a policy chooses for itself; use "auto" or "none"')
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


class TextRequest(_Request):
    """POST /v1/completions."""

    prompt: str | list[TokenId] | list[str] | list[list[TokenId]]
    max_tokens: int | None = Field(None, ge=1)
    logprobs: int | None = Field(None, ge=0, le=1)
    echo: Literal[False] = False

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list."""
        prompt = self.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            return list(prompt)
        return [prompt]  # type: ignore[list-item]
