"""Token ids in the forms used by workflows, and the tokenizer that workflows written for AReaL expect."""

import copy
from collections.abc import Mapping
from typing import Any

from training_core.errors import PromptRefused


class TokenIds(list[int]):
    """Token ids of one text: a list that also supports the key access of transformers 5."""

    def __getitem__(self, key: Any) -> Any:
        """An id by its index; or, by name, input_ids or attention_mask."""
        if key == "input_ids":
            return list(self)
        if key == "attention_mask":
            return [1] * len(self)
        return super().__getitem__(key)

    @property
    def input_ids(self) -> list[int]:
        """As `["input_ids"]`."""
        return list(self)


def token_ids_of(given: Any) -> list[int]:
    """Ids of a list, an array or a tensor, of a batch of one, or of a tokenizer's output. Raises PromptRefused."""
    found = given
    if (
        isinstance(found, Mapping) or hasattr(found, "data") and hasattr(found, "input_ids")
    ):  # a BatchEncoding is not a Mapping
        if "input_ids" not in found:
            raise PromptRefused("a request's input_ids is a mapping without the key input_ids")
        found = found["input_ids"]
    if hasattr(found, "tolist"):
        found = found.tolist()
    if not isinstance(found, list | tuple):
        raise PromptRefused(f"a request's input_ids must be a list of token ids, not {type(given).__name__}")
    if len(found) == 1 and isinstance(found[0], list | tuple):
        found = found[0]
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in found):
        found = [each.item() if hasattr(each, "item") else each for each in found]
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in found):
        raise PromptRefused("a request's input_ids must be one list of integers")
    return list(found)


def workflow_tokenizer(tokenizer: Any) -> Any:
    """A tokenizer of the same class whose `apply_chat_template(tokenize=True)` returns a list of ids, as in
    transformers 4.

    `return_dict=True` returns a BatchEncoding, and `decode` accepts one.
    """
    kind = type(tokenizer)

    def apply_chat_template(self: Any, conversation: Any, *args: Any, **kwargs: Any) -> Any:
        """See PreTrainedTokenizerBase; a list of ids unless return_dict is True."""
        asked = bool(kwargs.pop("return_dict", False))
        answered = kind.apply_chat_template(self, conversation, *args, return_dict=asked, **kwargs)
        flat = isinstance(answered, list) and all(isinstance(each, int) for each in answered)
        return TokenIds(answered) if flat else answered

    def decode(self: Any, token_ids: Any, *args: Any, **kwargs: Any) -> Any:
        """See PreTrainedTokenizerBase; also accepts a BatchEncoding of one text."""
        ids = token_ids_of(token_ids) if hasattr(token_ids, "input_ids") else token_ids
        return kind.decode(self, ids, *args, **kwargs)

    def reduced(self: Any) -> Any:
        """Pickle support for a workflow's own processes, which recreate the class."""
        return workflow_tokenizer, (tokenizer,)

    methods = {"apply_chat_template": apply_chat_template, "decode": decode, "__reduce__": reduced}
    made = copy.copy(tokenizer)
    made.__class__ = type(kind.__name__, (kind,), methods)
    return made
