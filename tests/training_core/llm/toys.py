"""Small random models and hand-made groups."""

import re

import torch
from transformers import (
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.types import Answer, Group

WORDS = tuple(f"w{number}" for number in range(24))
TOKENIZER = word_tokenizer(WORDS)
VOCABULARY = len(TOKENIZER)
SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "bos_token_id": None,
    "eos_token_id": TOKENIZER.eos_token_id, "pad_token_id": TOKENIZER.pad_token_id,
}  # fmt: skip


def make_model(kind: str = "llama", seed: int = 0) -> PreTrainedModel:
    """A model with random, rather spread-out weights, so that distributions are far from uniform."""
    torch.manual_seed(seed)
    if kind == "llama":
        model: PreTrainedModel = LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2))
    elif kind == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**SMALL, num_key_value_heads=2))
    else:
        model = GPTNeoXForCausalLM(GPTNeoXConfig(**SMALL))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(6.0)
    return model.eval()


def text_of(tokens: list[int]) -> str:
    """The text of an answer: padding and the end token are not part of it."""
    return re.sub(r"(\s*(<eos>|<pad>))+$", "", str(TOKENIZER.decode(tokens)))


@torch.no_grad()
def naive_logprobs(
    model: PreTrainedModel, prompt: list[int], answer: list[int], temperature: float = 1.0
) -> list[float]:
    """Log-probabilities of an answer's tokens: one sequence, no cache, no padding, no packing."""
    logits = model(input_ids=torch.tensor([prompt + answer])).logits[0].float() / temperature
    logprobs = logits.log_softmax(dim=-1)
    return [logprobs[len(prompt) - 1 + place, token].item() for place, token in enumerate(answer)]


def make_group(
    model: PreTrainedModel,
    prompt: list[int],
    answers: list[list[int]],
    advantages: list[float],
    temperature: float = 1.0,
) -> Group:
    """A group whose stored logprobs are the model's own; its episode is named after the prompt's first token."""
    return Group(
        episode=f"e{prompt[0]}",
        turn=0,
        prompt_ids=prompt,
        answers=[
            Answer(tokens, naive_logprobs(model, prompt, tokens, temperature), [0] * len(tokens), "stop", "")
            for tokens in answers
        ],
        rewards=list(advantages),
        advantages=list(advantages),
        temperature=temperature,
        top_k=0,
        top_p=1.0,
    )
