"""Chat messages as token ids, whole or as what follows an answer whose ids are known."""

from collections.abc import Mapping, Sequence
from typing import Any

from training_core.errors import RequestRefused

_USER = {"role": "user", "content": "-"}
_MARK = "\u2460\u2461"
"""Stands for an answer that is known as ids."""


class Renderer:
    """One policy's chat template and tokenizer. Raises RequestRefused where the template refuses the messages."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def whole(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, continues: bool = False
    ) -> list[int]:
        """A conversation from its beginning, with the generation prompt; or, if it `continues`, its last message open."""
        return self.encode(self._text(messages, tools, continues))

    def after(
        self, answer: Sequence[int], messages: Sequence[Mapping[str, Any]], *, continues: bool = False
    ) -> list[int]:
        """What the template writes after an answer (token ids): the rest of its end of turn, and these messages.

        The answer itself is never rendered again, so its ids stay as they were sampled.
        """
        text = self._text([_USER, {"role": "assistant", "content": _MARK}, *messages], None, continues)
        _, mark, rest = text.partition(_MARK)
        if not mark:
            raise RequestRefused("the model's chat template does not write out what an assistant says")
        return self.encode(self._beyond(answer, rest))

    @property
    def vocabulary(self) -> int:
        """Token ids that the tokenizer knows: from 0 to this number - 1."""
        return len(self._tokenizer)

    def encode(self, text: str) -> list[int]:
        """Text as token ids, nothing added."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, special tokens included."""
        return str(self._tokenizer.decode(list(ids)))

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as text, special tokens left out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def spell(self, ids: Sequence[int]) -> list[str]:
        """Each token as text."""
        return [str(self._tokenizer.decode([token])) for token in ids]

    def ends(self, answer: Sequence[int]) -> bool:
        """Whether an answer ended by its end-of-turn token."""
        return bool(answer) and int(answer[-1]) in self._tokenizer.all_special_ids

    def _beyond(self, answer: Sequence[int], rest: str) -> str:
        """`rest` without the end-of-turn token that the answer has said itself."""
        if not self.ends(answer):
            return rest
        end = str(self._tokenizer.decode([answer[-1]]))
        before, said, remainder = rest.partition(end)
        return remainder if said and not before.strip() else rest

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
        except Exception as error:  # a template is a program: it may raise anything
            raise RequestRefused(f"the model's chat template refuses these messages: {error}") from error
