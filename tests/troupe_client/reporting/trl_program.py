"""GRPO of TRL with a model of 32 words. Its argument is "error" if a reward function fails in the second step."""

import sys

from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import troupe

WORDS = ["<pad>", "<end>", "<unk>", *(f"word{number}" for number in range(29))]
words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
words.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words, pad_token="<pad>", eos_token="<end>", unk_token="<unk>"
)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )
)  # fmt: skip
calls = 0


def length(completions, **_):
    global calls
    calls += 1
    if sys.argv[2] == "error" and calls == 2:
        raise ValueError("no reward")
    return [float(len(text)) for text in completions]


def word3(completions, **_):
    return [1.0 if "word3" in text else None for text in completions]


arguments = GRPOConfig(
    sys.argv[1], max_steps=2, num_generations=2, per_device_train_batch_size=4, max_completion_length=4,
    log_completions=True, logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no",
    bf16=False, reward_weights=[0.5, 2.0],
)  # fmt: skip
trainer = GRPOTrainer(
    model, [length, word3], arguments, Dataset.from_dict({"prompt": ["word1 word2", "word4"] * 4}),
    processing_class=tokenizer, callbacks=[troupe.trainer_callback(name="grpo")],
)  # fmt: skip
trainer.train()
