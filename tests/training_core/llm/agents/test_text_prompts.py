"""Texts outside a chat begin with the special tokens that the tokenizer adds."""

import pytest
from tokenizers.processors import TemplateProcessing

from tests.training_core.llm.learning.chat_tokenizers import NO_MARKS, chat_tokenizer
from training_core.llm.agents.rendering import Renderer


@pytest.mark.parametrize("rule", ["<|im_start|> $A", "<|im_start|> $A <pad>"])
def test_a_text_begins_with_its_tokenizers_first_token_once(rule: str) -> None:
    tokenizer = chat_tokenizer(NO_MARKS)
    renderer = Renderer(tokenizer)
    plain = renderer.encode("three plus")
    assert renderer.encode_text("three plus") == plain
    tokenizer.add_special_tokens({"bos_token": "<|im_start|>"})
    bos = tokenizer.bos_token_id
    special = [("<|im_start|>", bos), ("<pad>", tokenizer.pad_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=rule, special_tokens=special)
    assert tokenizer("three plus")["input_ids"] != plain
    assert renderer.encode_text("three plus") == [bos, *plain]
    assert renderer.encode_text("<|im_start|>three plus") == [bos, *plain], "some clients write it themselves"
