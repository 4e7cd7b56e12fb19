"""Tokenizers for processes without a model; if possible without importing torch, which takes seconds."""

from pathlib import Path

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


def light_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model, from the folder's tokenizer.json; without that file, from the model's class.

    Raises ModelError.
    """
    if (Path(source) / "tokenizer.json").is_file():
        tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(source)
        return tokenizer
    from training_core.llm.models.loading import (
        load_tokenizer,  # imports torch: seconds, and only needed here
    )

    return load_tokenizer(source)
