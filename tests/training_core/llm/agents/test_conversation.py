"""A history that goes on has the ids of the template's own rendering, with the sampled ids as they were."""

from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from training_core.llm.agents.conversation import Call, Conversation
from training_core.llm.agents.rendering import Renderer
from training_core.types import Answer

WORDS = ["<eos>", "<unk>", "<user>", "<assistant>", "hi", "yes", "more", "no", "brief", "</code>", "loud"]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }}BEFORE<end_of_turn> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
SYSTEM_FIRST = (
    "{% for m in messages if m.role == 'system' %}{{ m.content }} {% endfor %}"
    "{% for m in messages if m.role != 'system' %}<{{ m.role }}> {{ m.content }} <end_of_turn> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
HI = {"role": "user", "content": "hi"}
MORE = {"role": "user", "content": "more"}


def word_tokenizer(template: str) -> Any:
    """Words apart by spaces. Its end of turn is a control token that the tokenizer does not name as its own end."""
    inner = Tokenizer(models.WordLevel({word: id for id, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", unk_token="<unk>")
    tokenizer.add_tokens([AddedToken("<end_of_turn>", special=True)])
    tokenizer.chat_template = template
    return tokenizer


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Talk:
    """A conversation whose answers are given."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.conversation = Conversation(Renderer(tokenizer))

    def call(self, messages: list[Any], *answers: str, stops: tuple[str, ...] = ()) -> Call:
        """A call with its answers; one that is written `like this|that` has the text before the bar, and the ids of both."""
        number = len(self.conversation.calls)
        call = self.conversation.start_call(messages, None, number=number, id=f"c{number}", stops=stops)
        made, replies = [], []
        for answer in answers:
            text, _, rest = answer.partition("|")
            ids = self.ids(text + rest)
            made.append(Answer(ids, [-0.5] * len(ids), [1] * len(ids), "stop", text))
            replies.append(said(text))
        self.conversation.record_answers(call, made, replies)
        return call

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def learnt(self) -> list[list[str]]:
        """The tokens that are trained on, by segment."""
        answers = [segment.answer for segment in self.conversation.segments()]
        return [self.tokenizer.convert_ids_to_tokens(answer.learnt(answer.token_ids)) for answer in answers]


@pytest.mark.parametrize("before", [" ", "  ", " \n"])
def test_a_continuation_has_one_end_of_turn(before: str) -> None:
    talk = Talk(word_tokenizer(TEMPLATE.replace("BEFORE", before)))
    talk.call([HI], "yes| <end_of_turn>")
    call = talk.call([HI, said("yes"), MORE], "no| <end_of_turn>")
    whole = "<user> hi <end_of_turn> <assistant> yes <end_of_turn> <user> more <end_of_turn> <assistant>"
    assert call.prompt_ids == talk.ids(whole) and call.parent
    cut = talk.call([HI, said("yes"), MORE, said("no"), MORE], "yes")
    assert cut.prompt_ids[: len(call.prompt_ids)] == call.prompt_ids
    last = talk.call([HI, said("yes"), MORE, said("no"), MORE, said("yes"), MORE], "no")
    assert last.prompt_ids == [*cut.ids(0), *talk.ids("<end_of_turn> <user> more <end_of_turn> <assistant>")]


def test_a_model_s_generation_config_names_its_ends_of_turn(tmp_path: Any) -> None:
    tokenizer = word_tokenizer(TEMPLATE)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [4, 0]}')
    tokenizer.name_or_path = str(tmp_path)
    renderer = Renderer(tokenizer)
    assert renderer.ends([5, 4]) and renderer.ends([0]) and not renderer.ends([len(WORDS)])


def test_the_joint_of_two_turns_is_that_of_the_whole_rendering() -> None:
    """A tokenizer that writes a space before a text's first word, as Llama 2's."""
    pieces = ["<unk>", "</s>", "[A]", "▁", "hi", "yes", "more", "▁hi", "▁yes", "▁more", "▁[A]"]
    inner = Tokenizer(models.Unigram([(piece, len(piece) - 99.0) for piece in pieces], unk_id=0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    inner.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'user' %}[A] {{ m.content }} [A]{% else %} {{ m.content }}</s>"
        "{% endif %}{% endfor %}"
    )
    talk = Talk(tokenizer)
    talk.call([HI], "yes|</s>")
    history = [HI, said("yes"), MORE]
    call = talk.call(history, "yes")
    assert call.parent and call.prompt_ids == talk.conversation.renderer.render_conversation(history, None)


def test_a_later_system_message_that_the_template_writes_first_begins_a_segment() -> None:
    talk = Talk(word_tokenizer(SYSTEM_FIRST))
    history = [{"role": "system", "content": "brief"}, HI]
    talk.call(history, "yes| <end_of_turn>")
    history += [said("yes"), {"role": "system", "content": "loud"}, MORE]
    late = talk.call(history, "no| <end_of_turn>")
    assert late.parent is None
    assert late.prompt_ids[:3] == talk.ids("brief loud <user>")
    assert talk.call([*history, said("no"), MORE], "yes").parent == (late, 0)


@pytest.mark.parametrize("stops", [(), ("</code>",)], ids=["closing tag", "stop text"])
def test_an_answer_whose_stop_text_was_restored_is_continued(stops: tuple[str, ...]) -> None:
    talk = Talk(word_tokenizer(TEMPLATE.replace("BEFORE", " ")))
    first = talk.call([HI], "yes| </code>", stops=stops)
    history = [HI, said("yes </code>"), MORE]
    second = talk.call(history, "no", stops=stops)
    assert second.parent == (first, 0)
    gap = talk.ids("<end_of_turn> <user> more <end_of_turn> <assistant>")
    assert second.prompt_ids == [*first.ids(0), *gap]
    third = talk.call([*history, said("no </code>"), MORE], "yes", stops=stops)
    assert third.prompt_ids == [*second.ids(0), *talk.ids("</code>"), *gap], (
        "restored, though it was not sampled"
    )
    assert talk.learnt() == [["yes", "</code>", "no", "yes"]]


def test_only_answers_that_were_used_are_learnt() -> None:
    talk = Talk(word_tokenizer(TEMPLATE.replace("BEFORE", " ")))
    first = talk.call([HI], "yes", "no", "yes", "more")
    first.reward = 5.0
    second = talk.call([HI, said("yes"), MORE], "loud")
    assert second.parent == (first, 0), "of equal choices the first"
    lost = talk.call([HI, said("yes"), MORE, said("loud"), MORE], "brief")
    lost.received = False
    talk.call([MORE], "hi", "yes")
    assert talk.learnt() == [[], [], [], ["yes", "loud"], ["hi"], []]
    assert [segment.reward for segment in talk.conversation.segments()] == [0, 0, 0, 5, 0, 0]


def test_a_text_begins_with_the_tokens_of_its_tokenizer_and_has_no_end() -> None:
    tokenizer = word_tokenizer(TEMPLATE)
    assert Renderer(tokenizer).encode_text("hi") == [4]
    both = [("<user>", 2), ("<eos>", 0)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<user> $A <eos>", special_tokens=both
    )
    assert Renderer(tokenizer).encode_text("hi") == [2, 4]
