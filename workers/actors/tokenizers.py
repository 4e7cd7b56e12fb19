"""Tokenizers for processes that hold no model: without torch where that is possible, which saves seconds."""

from pathlib import Path

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


def light_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model. A folder's tokenizer.json says all; only else is the model's class looked up.

    Raises ModelError.
    """
    if (Path(source) / "tokenizer.json").is_file():
        tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(source)
        return tokenizer
    from training_core.llm.models.loading import (
        load_tokenizer,  # imports torch: seconds, and only needed here
    )

    return load_tokenizer(source)
