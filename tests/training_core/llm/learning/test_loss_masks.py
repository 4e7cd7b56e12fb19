"""Loss masks: by hand, and against a naive computation that knows the templates' literal marks."""

import random
import re
from typing import Any

import pytest
from tokenizers import processors

from tests.training_core.llm.learning.chat_tokenizers import (
    FORGETS_THOUGHTS,
    NO_MARKS,
    OPENS_THOUGHT,
    WITH_DEFAULT_SYSTEM,
    chat_tokenizer,
)
from training_core.errors import DataError
from training_core.llm.learning.loss_masks import LOSS_MASKS, MaskedTokens, mask_messages

QWEN, QWEN3, QWEN3_5 = map(chat_tokenizer, (WITH_DEFAULT_SYSTEM, FORGETS_THOUGHTS, OPENS_THOUGHT))
TALK = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "<think>a</think>three"},
    {"role": "user", "content": "and four?"},
    {"role": "assistant", "content": "<think>b</think>seven"},
]
CALL = {"function": {"name": "add", "arguments": {"a": 3}}}
TOOL_TALK = [
    {"role": "system", "content": "sys"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "7"},
    {"role": "tool", "content": "8"},
    {"role": "assistant", "content": "seven"},
]


def shown(masked: MaskedTokens, tokenizer: Any) -> list[tuple[bool, str]]:
    """Stretches of equal mask with their text."""
    stretches: list[tuple[bool, list[int]]] = []
    for token, trained in zip(masked.token_ids, masked.loss_mask, strict=True):
        if not stretches or stretches[-1][0] != trained:
            stretches.append((trained, []))
        stretches[-1][1].append(token)
    return [(trained, tokenizer.decode(ids)) for trained, ids in stretches]


def test_qwen_by_hand_keeps_one_default_system_prompt() -> None:
    masked = mask_messages("qwen", TALK, QWEN)
    assert shown(masked, QWEN) == [
        (
            False,
            "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
        ),
        (True, "<think>a</think>three<|im_end|>\n"),
        (False, "<|im_start|>user\nand four?<|im_end|>\n<|im_start|>assistant\n"),
        (True, "<think>b</think>seven<|im_end|>\n"),
    ]


def test_qwen3_keeps_what_an_earlier_turn_thought() -> None:
    said = [text for trained, text in shown(mask_messages("qwen3", TALK, QWEN3), QWEN3) if trained]
    assert said == ["<think>a</think>three<|im_end|>\n", "<think>b</think>seven<|im_end|>\n"]


def test_qwen3_5_masks_the_conversation_as_the_template_writes_it() -> None:
    """The first answer has lost its thought; the second one's opening is the generation prompt's."""
    masked = mask_messages("qwen3_5", TALK, QWEN3_5)
    assert shown(masked, QWEN3_5) == [
        (False, "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"),
        (True, "three<|im_end|>\n"),
        (False, "<|im_start|>user\nand four?<|im_end|>\n<|im_start|>assistant\n<think>"),
        (True, "b</think>seven<|im_end|>\n"),
    ]


def test_distill_qwen_trains_on_the_last_message_alone() -> None:
    masked = mask_messages("distill_qwen", TALK, QWEN)
    stretches = shown(masked, QWEN)
    assert [trained for trained, _ in stretches] == [False, True]
    assert stretches[0][1].endswith("and four?<|im_end|>\n<|im_start|>assistant\n")
    assert stretches[1][1] == "<think>b</think>seven"
    assert masked.response_length == len(QWEN("<think>b</think>seven")["input_ids"])
    with pytest.raises(DataError, match="must be the assistant's"):
        mask_messages("distill_qwen", TALK[:-1], QWEN)


@pytest.mark.parametrize(("kind", "tokenizer"), [("qwen", QWEN), ("qwen3", QWEN3), ("generic", QWEN)])
def test_consecutive_tool_messages_share_one_turn(kind: str, tokenizer: Any) -> None:
    masked = mask_messages(kind, TOOL_TALK, tokenizer)
    text = tokenizer.decode(masked.token_ids)
    turn = "<|im_start|>user\n<tool_response>\n7\n</tool_response>\n<tool_response>\n8\n</tool_response><|im_end|>\n"
    assert text.count("<|im_start|>user\n<tool_response>") == 1
    assert text == tokenizer.apply_chat_template(TOOL_TALK, tokenize=False)
    said = shown(masked, tokenizer)
    think = "<think></think>" if kind == "qwen3" else ""
    assert [text for trained, text in said if trained] == [
        think + '\n<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call><|im_end|>\n',
        think + "seven<|im_end|>\n",
    ]
    assert said[2] == (False, turn + "<|im_start|>assistant\n")


@pytest.mark.parametrize("kind", sorted(set(LOSS_MASKS) - {"distill_qwen"}))
def test_step_loss_mask_leaves_a_turn_out(kind: str) -> None:
    talk = [dict(message) for message in TALK]
    talk[1]["step_loss_mask"] = 0
    masked = mask_messages(kind, talk, QWEN)
    assert [text for trained, text in shown(masked, QWEN) if trained] == ["<think>b</think>seven<|im_end|>\n"]
    assert masked.response_length == sum(masked.loss_mask)
    whole = mask_messages(kind, TALK, QWEN)
    assert masked.token_ids == whole.token_ids
    assert whole.response_length == len(whole.token_ids) - whole.loss_mask.index(True)
    talk[3]["step_loss_mask"] = 0
    assert mask_messages(kind, talk, QWEN).response_length == 0


def test_generic_needs_no_special_tokens() -> None:
    plain = chat_tokenizer(NO_MARKS)
    masked = mask_messages("generic", TALK, plain)
    assert [text for trained, text in shown(masked, plain) if trained] == [
        "<think>a</think>three\n",
        "<think>b</think>seven\n",
    ]


def test_a_token_across_the_border_is_not_trained_on() -> None:
    """Here the space before the answer and its first letters are one token, which the template began."""
    plain = chat_tokenizer(NO_MARKS.replace(":\\n", ": "))
    masked = mask_messages("generic", [TALK[0], {"role": "assistant", "content": "three four"}], plain)
    said = shown(masked, plain)
    assert [trained for trained, _ in said] == [False, True]
    assert said[0][1].startswith("user: hello\nassistant: t")


def test_a_user_who_writes_the_marks_is_not_trained_on() -> None:
    talk = [{"role": "user", "content": "say <|im_start|>assistant\nseven<|im_end|>\n"}, TALK[3]]
    for kind in ("qwen", "generic"):
        said = [text for trained, text in shown(mask_messages(kind, talk, QWEN), QWEN) if trained]
        assert said == ["<think>b</think>seven<|im_end|>\n"], kind


def test_what_the_template_writes_after_the_generation_prompt_is_trained_on() -> None:
    """The policy generated it: an empty thought, before a content that begins later."""
    said = [
        text
        for trained, text in shown(
            mask_messages("generic", [TALK[0], {**TALK[1], "content": "three"}], QWEN3), QWEN3
        )
        if trained
    ]
    assert said == ["<think></think>three<|im_end|>\n"]


def test_a_part_of_the_generation_prompt_is_found_in_its_own_turn() -> None:
    """The template writes all of it in the first turn, and its beginning in the second one."""
    turns = NO_MARKS.replace("assistant:\\n", "assistant:\\n>\\n").replace(
        "message.role + ':\\n'",
        "message.role + ':\\n' + ('>\\n' if loop.index0 == 1 else '*\\n' if loop.index0 == 3 else '')",
    )
    plain = chat_tokenizer(turns)
    said = shown(mask_messages("generic", TALK, plain), plain)
    assert [text for trained, text in said if trained] == [
        "<think>a</think>three\n",
        "*\n<think>b</think>seven\n",
    ]


def test_a_turn_without_a_closing_ends_before_the_next_message() -> None:
    """The template closes only the last answer."""
    plain = chat_tokenizer(
        NO_MARKS.replace("+ '\\n' }}{% endfor", "+ ('<|im_end|>' if loop.last else '') }}{% endfor")
    )
    said = shown(mask_messages("generic", TALK, plain), plain)
    assert [text for trained, text in said if trained] == [
        "<think>a</think>three",
        "<think>b</think>seven<|im_end|>",
    ]


def test_an_answer_that_repeats_the_generation_prompt_is_trained_on_as_a_whole() -> None:
    answer = "say <|im_start|>assistant\nseven"
    talk = [TALK[0], {"role": "assistant", "content": answer}]
    for kind in ("qwen", "generic"):
        said = [text for trained, text in shown(mask_messages(kind, talk, QWEN), QWEN) if trained]
        assert said == [f"{answer}<|im_end|>\n"], kind


@pytest.mark.parametrize("kind", ["qwen", "distill_qwen", "generic"])
def test_parts_get_no_special_tokens_of_the_tokenizer(kind: str) -> None:
    """As Llama's tokenizer, which puts a token before every text."""
    opening = chat_tokenizer(WITH_DEFAULT_SYSTEM)
    opening.backend_tokenizer.post_processor = processors.TemplateProcessing(
        "<pad> $A", special_tokens=[("<pad>", 2)]
    )
    assert opening("hello")["input_ids"][0] == 2
    assert mask_messages(kind, TALK, opening) == mask_messages(kind, TALK, QWEN)


def test_an_empty_last_message_has_nothing_to_train_on() -> None:
    assert (
        mask_messages("distill_qwen", [TALK[0], {"role": "assistant", "content": None}], QWEN).response_length
        == 0
    )


def test_tools_are_told_once() -> None:
    tools = [{"type": "function", "function": {"name": "add"}}]
    for kind in ("qwen", "qwen3", "generic"):
        tokenizer = QWEN3 if kind == "qwen3" else QWEN
        text = tokenizer.decode(mask_messages(kind, TOOL_TALK, tokenizer, tools).token_ids)
        assert text.count("# Tools") == 1
        assert text == tokenizer.apply_chat_template(TOOL_TALK, tools=tools, tokenize=False)
    assert QWEN.decode(mask_messages("distill_qwen", TALK, QWEN, tools).token_ids).count("# Tools") == 1


def naive(messages: list[dict[str, Any]], tokenizer: Any) -> MaskedTokens:
    """Cut the rendered text at the literal marks; encode token by token of the cut."""
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    ids: list[int] = []
    mask: list[bool] = []
    wanted = iter(
        [message.get("step_loss_mask", 1) == 1 for message in messages if message["role"] == "assistant"]
    )
    trained = False
    for part in re.split(r"(<\|im_start\|>assistant\n|(?<=<\|im_end\|>\n)(?=<\|im_start\|>))", text):
        some = tokenizer(part, add_special_tokens=False)["input_ids"] if part else []
        ids += some
        mask += [trained] * len(some)
        if part:
            trained = next(wanted) if part.startswith("<|im_start|>assistant") else False
    return MaskedTokens(ids, mask)


@pytest.mark.parametrize("seed", range(20))
def test_random_conversations_agree_with_the_naive_computation(seed: int) -> None:
    draw = random.Random(seed)
    words = ["sunny", "three", "plus", "weather.", "\n", "it is", " ", "né", "<tool_call>"]
    talk: list[dict[str, Any]] = [{"role": "system", "content": "sys"}] if draw.random() < 0.5 else []
    for _ in range(draw.randint(1, 4)):
        talk.append({"role": "user", "content": "".join(draw.choices(words, k=3))})
        for _ in range(draw.randint(0, 2)):
            talk.append({"role": "assistant", "content": "", "tool_calls": [CALL]})
            talk += [{"role": "tool", "content": draw.choice(words)} for _ in range(draw.randint(1, 3))]
        answer = {"role": "assistant", "content": "".join(draw.choices(words, k=4)).lstrip()}
        talk.append(answer | ({"step_loss_mask": 0} if draw.random() < 0.3 else {}))
    expected = naive(talk, QWEN)
    for kind in ("qwen", "qwen3", "generic", "qwen3_5"):
        assert mask_messages(kind, talk, QWEN) == expected, kind


def test_errors_say_what_to_do() -> None:
    with pytest.raises(DataError, match="use one of distill_qwen, generic, qwen, qwen3, qwen3_5"):
        mask_messages("llama", TALK, QWEN)
    with pytest.raises(DataError, match="without messages"):
        mask_messages("qwen", [], QWEN)
    silent = chat_tokenizer(
        NO_MARKS.replace(
            "{% if add_generation_prompt %}{{ 'assistant:\\n' }}", "{% if add_generation_prompt %}{{ 'go' }}"
        )
    )
    with pytest.raises(DataError, match="without its generation prompt 'go'; use the generic loss mask"):
        mask_messages("qwen", TALK, silent)
    with pytest.raises(DataError, match="needs a fast tokenizer"):
        mask_messages("generic", TALK, Slow())


class Slow:
    """A tokenizer without offsets."""

    def apply_chat_template(self, messages: Any, tokenize: bool, **other: Any) -> Any:
        return QWEN.apply_chat_template(messages, tokenize=tokenize)
