"""A word-level tokenizer, saved like any fast tokenizer of transformers."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from training_core.llm.base_models.tiny import SPECIAL

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message['role'] + '> ' + message['content'] }}"
    "{{ ' <eos> ' if message['role'] == 'assistant' else ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


def word_tokenizer(words: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """A tokenizer with one token per word of `words`, split at spaces; unknown words become <unk>."""
    vocabulary = {word: index for index, word in enumerate((*SPECIAL.values(), *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk"]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL["pad"],
        unk_token=SPECIAL["unk"],
        eos_token=SPECIAL["eos"],
        additional_special_tokens=[SPECIAL["system"], SPECIAL["user"], SPECIAL["assistant"]],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
