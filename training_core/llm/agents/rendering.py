"""Chat messages as token ids: a whole conversation, or the part after an answer with known ids."""

from collections.abc import Mapping, Sequence
from typing import Any

from training_core.errors import ModelError, RequestRefused

_MARK = "\u2460\u2461"
"""Placeholder for an answer whose ids are known."""


def require_chat_template(tokenizer: Any) -> None:
    """Raise ModelError if the tokenizer has no chat template: then messages cannot become a prompt."""
    if not tokenizer.chat_template:
        raise ModelError(
            f"the model {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, or add a "
            "chat_template.jinja to its folder"
        )


def end_of_turn_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of the tokens that end a turn: those of the model's generation config, as the engines stop at them.

    Without a generation config: the tokenizer's special tokens, of which templates use one.
    """
    from transformers import GenerationConfig  # not at import: environment workers render nothing

    try:
        named = GenerationConfig.from_pretrained(tokenizer.name_or_path, local_files_only=True).eos_token_id
    except OSError:
        named = None
    if named is None:
        added = tokenizer.added_tokens_decoder
        named = [*tokenizer.all_special_ids, *(id for id, token in added.items() if token.special)]
    ids = named if isinstance(named, list) else [named]
    return frozenset(int(id) for id in (*ids, tokenizer.eos_token_id) if id is not None)


class Renderer:
    """One policy's chat template and tokenizer. Raises RequestRefused if the template refuses the messages."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._end_ids = end_of_turn_ids(tokenizer)

    def render_conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, continues: bool = False
    ) -> list[int]:
        """A conversation from the start, with the generation prompt or, if it `continues`, with an open last message."""
        return self.encode(self._text(messages, tools, continues))

    def render_continuation(
        self,
        answer: Sequence[int],
        before: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None,
        *,
        continues: bool = False,
    ) -> list[int] | None:
        """Token ids that the template writes after an answer: the rest of its end of turn, and these messages.

        The answer itself is never rendered again, so its ids stay as sampled. Returns None if the template writes the
        messages `before` the answer differently because of the messages after it, as one that writes every system
        message first: then the conversation has to be rendered from the start.
        """
        text = self._text([*before, {"role": "assistant", "content": _MARK}, *messages], tools, continues)
        opening, mark, rest = text.partition(_MARK)
        if not mark:
            raise RequestRefused("the model's chat template does not render an assistant's content")
        if not opening.startswith(self._text(before, tools, continues=False, prompt=False)):
            return None
        end, rest = self._split_end(answer, rest)
        return self.encode_after(end or self._tokenizer.decode(list(answer[-1:])), rest)

    @property
    def vocabulary(self) -> int:
        """Number of token ids of the tokenizer: from 0 to this number - 1."""
        return len(self._tokenizer)

    def encode(self, text: str) -> list[int]:
        """Text as token ids, without special tokens added."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def encode_after(self, before: str, text: str) -> list[int]:
        """Text as token ids as they follow another text: tokenizers may write the start of a text in another way."""
        head, whole = self.encode(before), self.encode(before + text)
        return whole[len(head) :] if whole[: len(head)] == head else self.encode(text)

    def encode_text(self, text: str) -> list[int]:
        """Text outside any chat as token ids: with the special tokens that the tokenizer writes at the start of a text."""
        ids = list(self._tokenizer(text)["input_ids"])
        return ids[:-1] if ids[-1:] == [self._tokenizer.eos_token_id] else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, including special tokens."""
        return str(self._tokenizer.decode(list(ids)))

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Each token as text."""
        return [str(self._tokenizer.decode([token])) for token in ids]

    def ends(self, answer: Sequence[int]) -> bool:
        """Whether an answer ended with its end-of-turn token."""
        return bool(answer) and int(answer[-1]) in self._end_ids

    def _split_end(self, answer: Sequence[int], rest: str) -> tuple[str, str]:
        """The end-of-turn token that the answer already contains, as text, and what the template writes after it."""
        if not self.ends(answer):
            return "", rest
        end = str(self._tokenizer.decode([answer[-1]]))
        before, separator, remainder = rest.partition(end)
        return end, remainder if separator and not before.strip() else rest

    def _text(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None,
        continues: bool,
        prompt: bool = True,
    ) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    list(messages),
                    tools=list(tools) if tools else None,
                    tokenize=False,
                    add_generation_prompt=prompt and not continues,
                    continue_final_message=continues,
                )
            )
        except Exception as error:  # a template is a program and can raise anything
            raise RequestRefused(f"the model's chat template refuses these messages: {error}") from error
