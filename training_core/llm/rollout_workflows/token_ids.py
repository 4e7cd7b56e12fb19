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


def token_ids_of(value: Any) -> list[int]:
    """Ids of a list, an array or a tensor, of a batch of one, or of a tokenizer's output. Raises PromptRefused."""
    ids = value
    if (
        isinstance(ids, Mapping) or hasattr(ids, "data") and hasattr(ids, "input_ids")
    ):  # a BatchEncoding is not a Mapping
        if "input_ids" not in ids:
            raise PromptRefused("a request's input_ids is a mapping without the key input_ids")
        ids = ids["input_ids"]
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if not isinstance(ids, list | tuple):
        raise PromptRefused(f"a request's input_ids must be a list of token ids, not {type(value).__name__}")
    if len(ids) == 1 and isinstance(ids[0], list | tuple):
        ids = ids[0]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        ids = [token.item() if hasattr(token, "item") else token for token in ids]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise PromptRefused("a request's input_ids must be one list of integers")
    return list(ids)


def workflow_tokenizer(tokenizer: Any) -> Any:
    """A tokenizer of the same class whose `apply_chat_template(tokenize=True)` returns a list of ids, as in
    transformers 4.

    `return_dict=True` returns a BatchEncoding, and `decode` accepts one.
    """
    tokenizer_class = type(tokenizer)

    def apply_chat_template(self: Any, conversation: Any, *args: Any, **kwargs: Any) -> Any:
        """The rendered conversation: a list of ids unless return_dict is True."""
        return_dict = bool(kwargs.pop("return_dict", False))
        result = tokenizer_class.apply_chat_template(
            self, conversation, *args, return_dict=return_dict, **kwargs
        )
        flat = isinstance(result, list) and all(isinstance(token, int) for token in result)
        return TokenIds(result) if flat else result

    def decode(self: Any, token_ids: Any, *args: Any, **kwargs: Any) -> Any:
        """The text of token ids, or of a BatchEncoding of one text."""
        ids = token_ids_of(token_ids) if hasattr(token_ids, "input_ids") else token_ids
        return tokenizer_class.decode(self, ids, *args, **kwargs)

    def reduce(self: Any) -> Any:
        """Pickle support for a workflow's own processes, which recreate the class."""
        return workflow_tokenizer, (tokenizer,)

    methods = {"apply_chat_template": apply_chat_template, "decode": decode, "__reduce__": reduce}
    copied = copy.copy(tokenizer)
    copied.__class__ = type(tokenizer_class.__name__, (tokenizer_class,), methods)
    return copied
