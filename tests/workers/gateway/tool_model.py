"""A tiny model that speaks tool calls: its words are few, and calls of the tools of the documentation's agents are among them."""

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.training_core.llm.learning.chat_tokenizers import SPECIAL, WITH_DEFAULT_SYSTEM

DIRECTIONS = ("north", "south", "west", "east")
SAYS = (
    '<tool_call>{"name": "look", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "final_answer", "arguments": {"answer": "north"}}</tool_call>',
    '<tool_call>{"name": "transfer_to_walker", "arguments": {}}</tool_call>',
    '<code>final_answer("north")</code>',
)
"""What is one token each, so that an untrained policy says it in one of twenty tokens."""


def tool_model(folder: Path) -> Path:
    """A Llama of two layers as a folder in Hugging Face's layout."""
    words = [*SPECIAL, "<unk>", *DIRECTIONS, "goal", "look", "user", "system", "assistant", "go", "the"]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in SAYS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        eos_token="<|im_end|>",
        pad_token="<pad>",
        chat_template=WITH_DEFAULT_SYSTEM,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=65536,
        bos_token_id=None,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    _teach(model, fast)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def _teach(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Train it to answer any conversation with one call or direction, at random, and to end there."""
    sayings = [tokenizer.convert_tokens_to_ids(text) for text in (*SAYS, *DIRECTIONS)]
    start = tokenizer("<|im_start|>assistant\n")["input_ids"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(60):
        before = torch.randint(len(tokenizer), (32, int(torch.randint(4, 40, ()))))
        chosen = torch.tensor(sayings)[torch.randint(len(sayings), (32, 1))]
        ends = torch.full((32, 1), tokenizer.eos_token_id)
        ids = torch.cat((before, torch.tensor(start).expand(32, -1), chosen, ends), 1)
        labels = ids.clone()
        labels[:, :-2] = -100
        model(ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
