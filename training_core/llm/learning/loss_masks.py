"""Loss masks from messages: which tokens of a conversation a policy said itself.

For conversations that come as text, as rollouts from outside do; where the sampled ids are known, those are used instead.
A 1 is a token of an assistant's message, its end-of-turn mark and what the template writes after that included; the
generation prompt, which the template writes before the answer, is 0. A message whose `step_loss_mask` is not 1 has none.
The kinds and these conventions are those of slime's `--loss-mask-type`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from training_core.errors import DataError

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]] | None

_ANCHOR = {"role": "user", "content": "anchor"}
"""Goes before a message that is rendered by itself: templates write a system prompt, or raise, where no user speaks."""
_MARKS = ("\u2460", "\u2461")
"""Stand in for a message's content to see where the template puts it."""


@dataclass(frozen=True)
class MaskedTokens:
    """A conversation as one sequence; both lists have one entry per token."""

    token_ids: list[int]
    loss_mask: list[bool]

    @property
    def response_length(self) -> int:
        """Tokens from the first that is trained on to the end; 0 where none is."""
        return len(self.loss_mask) - self.loss_mask.index(True) if True in self.loss_mask else 0


def mask_messages(kind: str, messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """Token ids and loss mask of a conversation, by a kind of LOSS_MASKS. Raises DataError."""
    if kind not in LOSS_MASKS:
        raise DataError(f"there is no loss mask {kind!r}; use one of {', '.join(sorted(LOSS_MASKS))}")
    if not messages:
        raise DataError("a conversation without messages has no loss mask")
    return LOSS_MASKS[kind](messages, tokenizer, tools)


def message_by_message(messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """Every message as it looked when it was said: an earlier turn keeps its thinking, which the template would drop.

    Consecutive tool messages are one piece, for the template puts them in one turn.
    """
    anchor = _render(tokenizer, [_ANCHOR])
    header = _render(tokenizer, [_ANCHOR], generation=True).removeprefix(anchor)
    after = _render(tokenizer, [_ANCHOR, _ANCHOR]).removeprefix(anchor)
    parts: list[tuple[str, bool]] = []
    for place, piece in enumerate(_pieces(messages)):
        if place == 0:
            text = _render(tokenizer, [*piece, _ANCHOR], tools).removesuffix(after)
        else:
            text = _render(tokenizer, [_ANCHOR, *piece]).removeprefix(anchor)
        if piece[0]["role"] != "assistant":
            parts.append((text, False))
            continue
        prompt, opening, said = text.partition(header)
        if not opening:
            raise DataError(
                f"the chat template writes an answer without its generation prompt {header!r}; use the generic loss mask"
            )
        parts.extend([(prompt + opening, False), (said, _is_trained(piece[0]))])
    return _joined(parts, tokenizer)


def whole_conversation(messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """The conversation as the template writes it, masked by characters; tokens across a border are 0.

    Where the template puts a message is found by rendering marks in its place, so it works with any template that writes
    contents out. Raises DataError where the tokenizer has no offsets or its ids are not the template's.
    """
    text = _render(tokenizer, messages, tools)
    ids = list(tokenizer.apply_chat_template(list(messages), tools=tools, tokenize=True)["input_ids"])
    if not getattr(tokenizer, "is_fast", False):
        raise DataError("this loss mask needs a fast tokenizer, which knows each token's characters")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if list(encoded["input_ids"]) != ids:
        raise DataError(
            "the tokens of the rendered conversation are not those of the chat template; use a loss mask that goes "
            "message by message (qwen3)"
        )
    trained = list(_spans(messages, tokenizer, tools, text))
    mask = [
        any(start <= begin < end <= stop for start, stop in trained)
        for begin, end in encoded["offset_mapping"]
    ]
    return MaskedTokens(ids, mask)


def last_message(messages: Messages, tokenizer: Any, tools: Tools = None) -> MaskedTokens:
    """Only the last message's content is trained on, as it stands: its end of turn is not added."""
    *before, last = messages
    if last["role"] != "assistant":
        raise DataError(f"the last message must be the assistant's, not the {last['role']}'s")
    prompt = _render(tokenizer, before, tools, generation=True)
    return _joined([(prompt, False), (str(last.get("content") or ""), _is_trained(last))], tokenizer)


LOSS_MASKS: dict[str, Callable[[Messages, Any, Tools], MaskedTokens]] = {
    "qwen": message_by_message,
    "qwen3": message_by_message,
    "qwen3_5": whole_conversation,
    "distill_qwen": last_message,
    "generic": whole_conversation,
}
"""By the name of slime's flag. slime's qwen and qwen3 differ only in how a default system prompt is kept out."""


def _pieces(messages: Messages) -> Iterator[list[Mapping[str, Any]]]:
    """Messages one by one, consecutive tool messages together."""
    for is_tool, group in groupby(messages, key=lambda message: message["role"] == "tool"):
        some = list(group)
        yield from [some] if is_tool else [[message] for message in some]


def _is_trained(message: Mapping[str, Any]) -> bool:
    return bool(message.get("step_loss_mask", 1) == 1)


def _render(tokenizer: Any, messages: Messages, tools: Tools = None, *, generation: bool = False) -> str:
    return str(
        tokenizer.apply_chat_template(
            list(messages), tools=tools, tokenize=False, add_generation_prompt=generation
        )
    )


def _joined(parts: Sequence[tuple[str, bool]], tokenizer: Any) -> MaskedTokens:
    """Parts are encoded apart: no token reaches across the border between prompt and answer, as in generation."""
    ids: list[int] = []
    mask: list[bool] = []
    for text, trained in parts:
        encoded = list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []
        ids.extend(encoded)
        mask.extend([trained] * len(encoded))
    return MaskedTokens(ids, mask)


def _spans(messages: Messages, tokenizer: Any, tools: Tools, text: str) -> Iterator[tuple[int, int]]:
    """Where the trained messages stand in the text, as [start, stop) in characters."""
    user = _render(tokenizer, [_ANCHOR])
    header = _render(tokenizer, [_ANCHOR], generation=True).removeprefix(user)
    said = _render(tokenizer, [_ANCHOR, {"role": "assistant", "content": _MARKS[0]}])
    closing = said.rpartition(_MARKS[0])[2]
    behind = 0
    for place, message in enumerate(messages):
        begin, end = _content(messages, place, tokenizer, tools, text)
        if message["role"] == "assistant":
            closes = text.find(closing, end) if closing else -1
            end = closes + len(closing) if closes >= 0 else end
            if _is_trained(message):
                yield _after_header(text, header, behind, begin), end
        behind = end


def _content(messages: Messages, place: int, tokenizer: Any, tools: Tools, text: str) -> tuple[int, int]:
    """Where a message's content stands: between what is the same whatever it says."""
    marked = [
        _render(
            tokenizer,
            [*messages[:place], {**messages[place], "content": mark}, *messages[place + 1 :]],
            tools,
        )
        for mark in _MARKS
    ]
    begin = min(_same(text, other) for other in marked)
    room = min(len(text), *map(len, marked)) - begin
    tail = min(_same(text[::-1], other[::-1]) for other in marked)
    return begin, len(text) - min(tail, room)


def _after_header(text: str, header: str, behind: int, begin: int) -> int:
    """The end of the generation prompt before `begin`; a template may write only its first part in a history."""
    for length in range(len(header), 0, -1):
        found = text.rfind(header[:length], behind, begin)
        if found >= 0:
            return found + length
    return begin


def _same(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
