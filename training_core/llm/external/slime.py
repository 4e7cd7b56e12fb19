"""slime's loss-mask class under its own name: only the import of slime.utils.mask_utils needs to be replaced."""

from collections.abc import Mapping, Sequence
from typing import Any

from training_core.errors import DataError
from training_core.llm.learning.loss_masks import MaskedTokens, mask_messages


class MultiTurnLossMaskGenerator:
    """Token ids and loss mask of a conversation, by a type in LOSS_MASKS; subclasses add custom types."""

    def __init__(self, tokenizer: Any, tokenizer_type: str = "qwen") -> None:
        self.tokenizer = tokenizer
        self.tokenizer_type = tokenizer_type

    def get_loss_mask(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> tuple[list[int], list[int]]:
        """(token ids, marks): one mark per token, 1 if it is trained on. Raises DataError."""
        masked = mask_messages(self.tokenizer_type, messages, self.tokenizer, tools)
        return masked.token_ids, [int(mark) for mark in masked.loss_mask]

    def get_response_lengths(self, loss_masks: Sequence[Sequence[int]]) -> list[int]:
        """For each mask, the number of tokens from the first trained one to the end; 0 if there is none."""
        return [len(mask) - list(mask).index(1) if 1 in mask else 0 for mask in loss_masks]


def generated_mask(
    generator: type[MultiTurnLossMaskGenerator], kind: str, messages: Any, tokenizer: Any, tools: Any
) -> MaskedTokens:
    """The result of a custom class for a conversation. Raises DataError if it returns None."""
    chosen = {"tokenizer_type": kind} if kind else {}
    options = {"tools": tools} if tools else {}
    result: Any = generator(tokenizer, **chosen).get_loss_mask(messages, **options)
    if result is None:
        raise DataError(
            f"{generator.__name__}.get_loss_mask returns None for tokenizer_type {kind!r}",
            remedy="set workflow.loss_mask_type to a type that it supports",
        )
    token_ids, marks = result
    return MaskedTokens(list(token_ids), [mark == 1 for mark in marks])
