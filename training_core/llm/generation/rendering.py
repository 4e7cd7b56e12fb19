"""Chat messages as token ids: a whole conversation, or the part after an answer with known ids."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from training_core.errors import ConfigError, ModelError, RequestRefused
from training_core.llm.generation.grammars import samples_grammars
from training_core.llm.generation.message_forms import accepted_forms, is_regular

_SYSTEM = {"role": "system", "content": "-"}
_USER = {"role": "user", "content": "-"}
_MARK = "\u2460\u2461"
"""Placeholder for an answer whose ids are known."""
_THOUGHTS = re.compile(r"<([\w:]*think\w*)>.*?</\1>|</?[\w:]*think\w*>|\s+", re.DOTALL)
"""What templates drop from earlier answers, or write around them, as the conversation continues."""


def require_chat_template(tokenizer: Any) -> None:
    """Raise ModelError if the tokenizer has no chat template: then messages cannot become a prompt."""
    if not tokenizer.chat_template:
        raise ModelError(
            f"the model {tokenizer.name_or_path!r} has no chat template",
            remedy="use an instruction-tuned model, or add a chat_template.jinja to its folder",
        )


def check_template_arguments(tokenizer: Any, arguments: Mapping[str, Any], role: str) -> None:
    """Raise ConfigError for an argument that the chat template does not contain: it would have no effect."""
    for name in arguments:
        template = str(tokenizer.get_chat_template())
        if not re.search(rf"\b{re.escape(name)}\b", template):
            field = f"team.roles.{role}.chat_template_kwargs.{name}"
            raise ConfigError(
                {field: f"the chat template of {tokenizer.name_or_path} has no such argument"},
                remedy="remove it, or choose a model whose template reads it",
            )


class Renderer:
    """One policy's chat template, with `arguments`, and tokenizer. Raises RequestRefused if the template refuses the messages."""

    def __init__(self, tokenizer: Any, arguments: Mapping[str, Any] | None = None) -> None:
        self._tokenizer = tokenizer
        self._arguments = dict(arguments or {})
        self._others: dict[str, Renderer] = {}
        """Renderers with other arguments, by these."""

    def with_arguments(self, arguments: Mapping[str, Any]) -> "Renderer":
        """The renderer of a role whose template has these arguments."""
        if not arguments:
            return self
        return self._others.setdefault(repr(arguments), Renderer(self._tokenizer, arguments))

    @property
    def samples_grammars(self) -> bool:
        """Whether answers in the tokenizer's tokens can be sampled under a grammar."""
        return samples_grammars(self._tokenizer)

    def render_conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, continues: bool = False
    ) -> list[int]:
        """A conversation from the start, with the generation prompt or, if it `continues`, with an open last message."""
        return self.encode(self.render_text(messages, tools, continues=continues))

    def render_text(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, continues: bool = False
    ) -> str:
        """The text whose ids render_conversation returns."""
        return self._text(messages, tools, prompt=not continues, continue_final_message=continues)

    def folds(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None) -> bool:
        """Whether the template refuses the messages as they are and takes another form of them; see message_forms.py."""
        if is_regular(messages) and (self._takes_system or messages[0]["role"] != "system"):
            return False
        (_, *others), prompt = accepted_forms(messages), messages[-1]["role"] != "assistant"
        return not self._takes(messages, tools, prompt) and any(
            self._takes(form, tools, prompt) for form in others
        )

    def render_continuation(
        self,
        answer_ids: Sequence[int],
        messages: Sequence[Mapping[str, Any]],
        *,
        before: str,
        whole: str,
        continues: bool = False,
    ) -> list[int] | None:
        """Token ids that the template writes after an answer: the rest of its end of turn, and these messages.

        The answer itself is never rendered again, so its ids stay as sampled: `answer_ids`, and possibly ids before it. `before`
        is the text of the conversation up to the answer, `whole` that of the conversation with the messages. None if the
        template does not continue the one to the other, because it changes earlier text or writes the messages elsewhere.
        """
        try:
            text = self._text(
                [_USER, {"role": "assistant", "content": _MARK}, *messages],
                None,
                prompt=not continues,
                continue_final_message=continues,
            )
        except RequestRefused:  # some templates accept a message only after certain others
            return None
        _, mark, rest = text.partition(_MARK)
        if (
            not mark
            or not whole.endswith(rest)
            or not _begins(whole, before.removesuffix(self._generation_prompt))
        ):
            return None
        return self.encode_after(answer_ids, self._without_end_token(answer_ids, rest))

    @property
    def vocabulary(self) -> int:
        """Number of token ids of the tokenizer: from 0 to this number - 1."""
        return len(self._tokenizer)

    def encode(self, text: str) -> list[int]:
        """Text as token ids, without special tokens added."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def encode_after(self, ids: Sequence[int], text: str) -> list[int]:
        """Text as the token ids that follow `ids`: some tokenizers write the start of a text in another way."""
        last = self.decode(ids[-1:])
        head, whole = self.encode(last), self.encode(last + text)
        return whole[len(head) :] if whole[: len(head)] == head else self.encode(text)

    def encode_text(self, text: str) -> list[int]:
        """A text outside any chat as token ids, which begin with the special tokens that the tokenizer adds there."""
        ids = self.encode(text)
        if ids[:1] == [self._tokenizer.bos_token_id]:
            return ids
        added = list(self._tokenizer(text)["input_ids"])
        starts = (start for start in range(len(added)) if added[start : start + len(ids)] == ids)
        return added[: next(starts, 0)] + ids

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, including special tokens."""
        return str(self._tokenizer.decode(list(ids)))

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Each token as text."""
        return [str(self._tokenizer.decode([token])) for token in ids]

    def ends(self, answer: Sequence[int]) -> bool:
        """Whether an answer ended with an end-of-turn token."""
        return bool(answer) and int(answer[-1]) in self._end_ids

    @cached_property
    def _end_ids(self) -> frozenset[int]:
        """The tokens that end a turn: those at which engines stop, and the one that the template writes."""
        tokenizer = self._tokenizer
        return frozenset(
            (tokenizer.eos_token_id, *_configured_ends(tokenizer.name_or_path), *self._template_end())
        )

    @cached_property
    def _end_text(self) -> re.Pattern[str]:
        """An end-of-turn token at the start of a text; templates may write whitespace before it."""
        texts = filter(None, (self.decode([end]) for end in sorted(self._end_ids)))
        return re.compile(rf"\s*(?:{'|'.join(map(re.escape, texts))})")

    @cached_property
    def _takes_system(self) -> bool:
        return self._takes([_SYSTEM, _USER], None, prompt=True)

    def _takes(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, prompt: bool
    ) -> bool:
        try:
            self._apply_template(next(accepted_forms(messages)), tools, prompt=prompt)
        except Exception:  # a template is a program and can raise anything
            return False
        return True

    @cached_property
    def _generation_prompt(self) -> str:
        turn = [_USER]
        return self._text(turn, None, prompt=True).removeprefix(self._text(turn, None, prompt=False))

    def _template_end(self) -> set[int]:
        """The special token that the template writes after an answer; empty if it writes something else first."""
        try:
            text = self._text([_USER, {"role": "assistant", "content": _MARK}], None, prompt=False)
        except RequestRefused:
            return set()
        rest = self.encode(text.partition(_MARK)[2])
        special = {number for number, token in self._tokenizer.added_tokens_decoder.items() if token.special}
        for number in rest:
            if self.decode([number]).strip():
                return {number} & special
        return set()

    def _without_end_token(self, answer: Sequence[int], rest: str) -> str:
        """`rest` without its end-of-turn token if the answer already ends with one."""
        match = self._end_text.match(rest) if self.ends(answer) else None
        return rest[match.end() :] if match else rest

    def _text(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None,
        *,
        prompt: bool,
        continue_final_message: bool = False,
    ) -> str:
        """The text of the first form that the template takes. Raises RequestRefused with its first refusal."""
        first: Exception | None = None
        for form in accepted_forms(messages):
            try:
                return self._apply_template(
                    form, tools, prompt=prompt, continue_final_message=continue_final_message
                )
            except Exception as error:  # a template is a program and can raise anything
                first = first or error
        raise RequestRefused(f"the model's chat template refuses these messages: {first}") from first

    def _apply_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None,
        *,
        prompt: bool,
        **options: bool,
    ) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) if tools else None,
                tokenize=False,
                add_generation_prompt=prompt,
                **options,
                **self._arguments,
            )
        )


def _begins(whole: str, before: str) -> bool:
    """Whether a rendering begins with an earlier one, apart from thoughts and whitespace."""
    return whole.startswith(before) or _THOUGHTS.sub("", whole).startswith(_THOUGHTS.sub("", before))


def _configured_ends(model: str) -> list[int]:
    """The ids at which engines end an answer: eos_token_id of the generation config in a model's folder or in the hub's
    cache; without it, that of the model's config.
    """
    from transformers.utils.hub import cached_file  # here: only processes that render need it

    for name in ("generation_config.json", "config.json"):
        try:
            config = json.loads(Path(str(cached_file(model, name, local_files_only=True))).read_text())
        except (OSError, ValueError):  # the tokenizer is from elsewhere
            continue
        ends = config.get("eos_token_id")
        if ends is not None:
            return list(ends) if isinstance(ends, list) else [ends]
    return []
