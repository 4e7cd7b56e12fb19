"""Small tokenizers with chat templates that behave as those of well-known families do; written here, not copied."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<|im_start|>", "<|im_end|>", "<pad>"]
CORPUS = [
    "system user assistant tool You are helpful. What is the weather? It is sunny. <think>hm</think>",
    "<tool_call> <tool_response> </tool_response> three plus four is seven. anchor",
]

_TOOLS = (
    "{% if tools %}{{ '\\n# Tools\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}"
)
_TOOL_TURN = (
    "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}"
    "{{ '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}"
)
_CALLS = (
    "{% for call in message.tool_calls or [] %}"
    '{{ \'\\n<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}"
    "{{ '}\\n</tool_call>' }}{% endfor %}"
)

WITH_DEFAULT_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content }}"
    "{% else %}{{ '<|im_start|>system\\nYou are helpful.' }}{% endif %}" + _TOOLS + "{{ '<|im_end|>\\n' }}"
    "{% for message in messages %}{% if message.role == 'tool' %}"
    + _TOOL_TURN
    + "{% elif message.role == 'system' %}"
    "{% else %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') }}"
    + _CALLS
    + "{{ '<|im_end|>\\n' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""As Qwen2.5's: a default system prompt; tool messages that follow one another share a turn."""

_ANSWER = (
    "{% set content = message.content or '' %}{% set thought = '' %}"
    "{% if '</think>' in content %}{% set thought = content.split('</think>')[0].split('<think>')[-1] %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{{ '<|im_start|>assistant\\n' }}{% if loop.index0 > seen.user %}{{ '<think>' + thought + '</think>' }}{% endif %}"
    "{{ content }}" + _CALLS + "{{ '<|im_end|>\\n' }}"
)


def _thinking(prompt: str) -> str:
    return (
        "{% set seen = namespace(user=-1) %}{% for message in messages %}{% if message.role == 'user' %}"
        "{% set seen.user = loop.index0 %}{% endif %}{% endfor %}"
        "{% if tools or messages[0].role == 'system' %}{{ '<|im_start|>system\\n' }}"
        "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
        + _TOOLS
        + "{{ '<|im_end|>\\n' }}{% endif %}"
        "{% for message in messages %}{% if message.role == 'tool' %}"
        + _TOOL_TURN
        + "{% elif message.role == 'assistant' %}"
        + _ANSWER
        + "{% elif message.role == 'user' %}{{ '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '" + prompt + "' }}{% endif %}"
    )


FORGETS_THOUGHTS = _thinking("<|im_start|>assistant\\n")
"""As Qwen3's: only answers after the last user message show what was thought."""
OPENS_THOUGHT = _thinking("<|im_start|>assistant\\n<think>")
"""As Qwen3.5's: the same, and the generation prompt opens the thought."""
NO_MARKS = (
    "{% for message in messages %}{{ message.role + ':\\n' + message.content + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}"
)
"""Plain lines without special tokens."""


def chat_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of some three hundred tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<pad>",
        chat_template=template,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
