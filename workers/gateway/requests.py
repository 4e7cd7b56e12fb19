"""What agents may ask: the OpenAI API's requests, as far as a policy can answer them."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TokenId = Annotated[int, Field(strict=True, ge=0)]
"""The gateway knows how many there are: see answering.py."""


class _Request(BaseModel):
    """Common to chat and text. Unknown fields are left alone, as clients send more than they need."""

    model_config = ConfigDict(extra="ignore")

    model: str = ""
    """A role of the team; any name where there is only one."""
    n: int = Field(1, ge=1, le=128)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    temperature: float | None = None
    """Taken and left: tokens are drawn as the run's config says, for the policy learns from that distribution."""
    top_p: float | None = None
    """As temperature."""
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None
    return_token_ids: bool = False
    """Whether the answer says prompt_token_ids, token_ids, token_logprobs and versions (vLLM's field, and two more)."""
    on_update: Literal["resume", "abort"] = "resume"
    """What becomes of an answer in whose middle the weights change: it goes on with the new ones, or ends as "abort"."""

    @model_validator(mode="after")
    def _nothing_bends_the_distribution(self) -> Self:
        if self.presence_penalty or self.frequency_penalty or self.logit_bias:
            raise ValueError(
                "penalties and logit_bias would bend the distribution that is trained on; leave them out"
            )
        return self

    def telling_ids(self, always: bool) -> Self:
        """The same request; with `always` it asks for token ids."""
        return self.model_copy(update={"return_token_ids": True}) if always else self

    @property
    def stops(self) -> tuple[str, ...]:
        """The request's stop texts."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in given if text)

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
    """Whether the last message is an assistant's that is not finished yet."""

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
        """Most new tokens that are asked for."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def offered(self) -> list[dict[str, Any]] | None:
        """The tools that the policy is told of."""
        return self.tools if self.tools and self.tool_choice != "none" else None


class TextRequest(_Request):
    """POST /v1/completions."""

    prompt: str | list[TokenId] | list[str] | list[list[TokenId]]
    max_tokens: int | None = Field(None, ge=1)
    logprobs: int | None = Field(None, ge=0, le=1)
    echo: Literal[False] = False

    @property
    def prompts(self) -> list[str | list[int]]:
        """One or many."""
        given = self.prompt
        if isinstance(given, list) and given and not isinstance(given[0], int):
            return list(given)
        return [given]  # type: ignore[list-item]
