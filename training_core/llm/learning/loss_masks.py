"""Loss masks from messages: which tokens of a conversation the policy generated.

For conversations that arrive as text, such as external rollouts; if the sampled ids are known, those are used
instead. 1 marks a token of an assistant's message, including its end-of-turn token and the template's text after it;
the generation prompt, which the template writes before the answer, is 0. A message whose `step_loss_mask` is not 1 is
0. Types and conventions are those of slime's `--loss-mask-type`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from os.path import commonprefix
from typing import Any

from training_core.errors import DataError

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]] | None

_ANCHOR = {"role": "user", "content": "anchor"}
"""Precedes a message that is rendered separately: without a user message, templates write a system prompt or raise."""
_PLACEHOLDERS = ("\u2460", "\u2461")
"""Placeholders for a message's content, to find where the template writes it."""


@dataclass(frozen=True)
class MaskedTokens:
    """A conversation as one sequence; both lists have one entry per token."""

    token_ids: list[int]
    loss_mask: list[bool]

    @property
    def response_length(self) -> int:
        """Number of tokens from the first trained one to the end; 0 if there is none."""
        return len(self.loss_mask) - self.loss_mask.index(True) if True in self.loss_mask else 0


def mask_messages(kind: str, messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """Token ids and loss mask of a conversation, by a type in LOSS_MASKS. Raises DataError."""
    if kind not in LOSS_MASKS:
        raise DataError(
            f"there is no loss mask {kind!r}", remedy=f"use one of {', '.join(sorted(LOSS_MASKS))}"
        )
    if not messages:
        raise DataError("a conversation without messages has no loss mask")
    return LOSS_MASKS[kind](messages, tokenizer, tools)


def message_by_message(messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """Render every message as it was generated: an earlier turn keeps its reasoning, which the template would drop.

    Consecutive tool messages are one piece, because the template writes them as one turn.
    """
    anchor = _render(tokenizer, [_ANCHOR])
    header = _render(tokenizer, [_ANCHOR], generation=True).removeprefix(anchor)
    after = _render(tokenizer, [_ANCHOR, _ANCHOR]).removeprefix(anchor)
    parts: list[tuple[str, bool]] = []
    for index, piece in enumerate(_pieces(messages)):
        if index == 0:
            text = _render(tokenizer, [*piece, _ANCHOR], tools).removesuffix(after)
        else:
            text = _render(tokenizer, [_ANCHOR, *piece]).removeprefix(anchor)
        if piece[0]["role"] != "assistant":
            parts.append((text, False))
            continue
        prompt, opening, answer = text.partition(header)
        if not opening:
            raise DataError(
                f"the chat template writes an answer without its generation prompt {header!r}",
                remedy="use the generic loss mask",
            )
        parts.extend([(prompt + opening, False), (answer, _is_trained(piece[0]))])
    return _encode_parts(parts, tokenizer)


def whole_conversation(messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """The conversation as the template writes it, masked by characters; tokens across a boundary are 0.

    The position of a message is found by rendering marks in its place, which works with any template that writes
    contents unchanged. Raises DataError if the tokenizer has no offsets or its ids are not the template's.
    """
    text = _render(tokenizer, messages, tools)
    ids = list(tokenizer.apply_chat_template(list(messages), tools=tools, tokenize=True)["input_ids"])
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(
            "this loss mask needs a fast tokenizer, which provides each token's character offsets"
        )
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if list(encoded["input_ids"]) != ids:
        raise DataError(
            "the tokens of the rendered conversation are not those of the chat template",
            remedy="use a loss mask that goes message by message (qwen3)",
        )
    trained = list(_spans(messages, tokenizer, tools, text))
    mask = [
        any(start <= begin < end <= stop for start, stop in trained)
        for begin, end in encoded["offset_mapping"]
    ]
    return MaskedTokens(ids, mask)


def last_message(messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """Only the last message's content is trained on, unchanged: its end-of-turn token is not added."""
    *before, last = messages
    if last["role"] != "assistant":
        raise DataError(f"the last message must be the assistant's, not the {last['role']}'s")
    prompt = _render(tokenizer, before, tools, generation=True)
    return _encode_parts([(prompt, False), (str(last.get("content") or ""), _is_trained(last))], tokenizer)


LOSS_MASKS: dict[str, Callable[[Messages, Any, Tools], MaskedTokens]] = {
    "qwen": message_by_message,
    "qwen3": message_by_message,
    "qwen3_5": whole_conversation,
    "distill_qwen": last_message,
    "generic": whole_conversation,
}
"""By the value of slime's flag. slime's qwen and qwen3 differ only in how they exclude a default system prompt."""


def _pieces(messages: Messages) -> Iterator[list[Mapping[str, Any]]]:
    """Messages one by one, consecutive tool messages together."""
    for is_tool, group in groupby(messages, key=lambda message: message["role"] == "tool"):
        members = list(group)
        yield from [members] if is_tool else [[message] for message in members]


def _is_trained(message: Mapping[str, Any]) -> bool:
    return bool(message.get("step_loss_mask", 1) == 1)


def _render(tokenizer: Any, messages: Messages, tools: Tools = None, *, generation: bool = False) -> str:
    return str(
        tokenizer.apply_chat_template(
            list(messages), tools=tools, tokenize=False, add_generation_prompt=generation
        )
    )


def _encode_parts(parts: Sequence[tuple[str, bool]], tokenizer: Any) -> MaskedTokens:
    """Parts are encoded separately: as in generation, no token crosses the boundary between prompt and answer."""
    ids: list[int] = []
    mask: list[bool] = []
    for text, trained in parts:
        encoded = list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []
        ids.extend(encoded)
        mask.extend([trained] * len(encoded))
    return MaskedTokens(ids, mask)


def _spans(messages: Messages, tokenizer: Any, tools: Tools, text: str) -> Iterator[tuple[int, int]]:
    """Positions of the trained messages in the text, as [start, stop) in characters."""
    user = _render(tokenizer, [_ANCHOR])
    header = _render(tokenizer, [_ANCHOR], generation=True).removeprefix(user)
    rendered = _render(tokenizer, [_ANCHOR, {"role": "assistant", "content": _PLACEHOLDERS[0]}])
    closing = rendered.rpartition(_PLACEHOLDERS[0])[2]
    contents = [_content(messages, index, tokenizer, tools, text) for index in range(len(messages))]
    previous_end = 0
    for message, (begin, end), (next_begin, _) in zip(
        messages, contents, [*contents[1:], (len(text), len(text))], strict=True
    ):
        if message["role"] == "assistant":
            closes = text.find(closing, end, next_begin)
            end = closes + len(closing) if closes >= 0 else end
            if _is_trained(message):
                yield _after_header(text, header, previous_end, begin), end
        previous_end = end


def _content(messages: Messages, index: int, tokenizer: Any, tools: Tools, text: str) -> tuple[int, int]:
    """The position of a message's content: between the parts that do not depend on it."""
    marked = [
        _render(
            tokenizer,
            [*messages[:index], {**messages[index], "content": placeholder}, *messages[index + 1 :]],
            tools,
        )
        for placeholder in _PLACEHOLDERS
    ]
    begin = len(commonprefix((text, *marked)))
    limit = min(len(text), *map(len, marked)) - begin
    tail = len(commonprefix([whole[::-1] for whole in (text, *marked)]))
    return begin, len(text) - min(tail, limit)


def _after_header(text: str, header: str, previous_end: int, begin: int) -> int:
    """The end of the generation prompt before `begin`; in a history, a template may write only its first part."""
    for length in range(len(header), 0, -1):
        start = text.rfind(header[:length], previous_end, begin)
        if start >= 0:
            return start + length
    return begin
