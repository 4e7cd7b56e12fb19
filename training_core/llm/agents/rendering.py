"""Chat messages as token ids: a whole conversation, or the part after an answer with known ids."""

from collections.abc import Mapping, Sequence
from typing import Any

from training_core.errors import ModelError, RequestRefused

_USER = {"role": "user", "content": "-"}
_MARK = "\u2460\u2461"
"""Placeholder for an answer whose ids are known."""


def require_chat_template(tokenizer: Any) -> None:
    """Raise ModelError if the tokenizer has no chat template: then messages cannot become a prompt."""
    if not tokenizer.chat_template:
        raise ModelError(
            f"the model {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, or add a "
            "chat_template.jinja to its folder"
        )


class Renderer:
    """One policy's chat template and tokenizer. Raises RequestRefused if the template refuses the messages."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def render_conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, continues: bool = False
    ) -> list[int]:
        """A conversation from the start, with the generation prompt or, if it `continues`, with an open last message."""
        return self.encode(self._text(messages, tools, continues))

    def render_continuation(
        self, answer: Sequence[int], messages: Sequence[Mapping[str, Any]], *, continues: bool = False
    ) -> list[int]:
        """Token ids that the template writes after an answer: the rest of its end of turn, and these messages.

        The answer itself is never rendered again, so its ids stay as sampled.
        """
        text = self._text([_USER, {"role": "assistant", "content": _MARK}, *messages], None, continues)
        _, mark, rest = text.partition(_MARK)
        if not mark:
            raise RequestRefused("the model's chat template does not render an assistant's content")
        return self.encode(self._without_end_token(answer, rest))

    @property
    def vocabulary(self) -> int:
        """Number of token ids of the tokenizer: from 0 to this number - 1."""
        return len(self._tokenizer)

    def encode(self, text: str) -> list[int]:
        """Text as token ids, without special tokens added."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, including special tokens."""
        return str(self._tokenizer.decode(list(ids)))

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as text, without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Each token as text."""
        return [str(self._tokenizer.decode([token])) for token in ids]

    def ends(self, answer: Sequence[int]) -> bool:
        """Whether an answer ended with its end-of-turn token."""
        return bool(answer) and int(answer[-1]) in self._tokenizer.all_special_ids

    def _without_end_token(self, answer: Sequence[int], rest: str) -> str:
        """`rest` without the end-of-turn token if the answer already contains it."""
        if not self.ends(answer):
            return rest
        end = str(self._tokenizer.decode([answer[-1]]))
        before, separator, remainder = rest.partition(end)
        return remainder if separator and not before.strip() else rest

    def _text(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, continues: bool
    ) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    list(messages),
                    tools=list(tools) if tools else None,
                    tokenize=False,
                    add_generation_prompt=not continues,
                    continue_final_message=continues,
                )
            )
        except Exception as error:  # a template is a program and can raise anything
            raise RequestRefused(f"the model's chat template refuses these messages: {error}") from error
