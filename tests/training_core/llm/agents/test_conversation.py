"""Every prompt extends the sampled ids as the template's own rendering does, or begins anew; only used answers are trained on.

Texts outside a chat begin with the special tokens that the tokenizer adds.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from tests.training_core.llm.learning import chat_tokenizers
from tests.training_core.llm.learning.chat_tokenizers import NO_MARKS, WITH_DEFAULT_SYSTEM, chat_tokenizer
from training_core.config.files import load_config
from training_core.llm.agents.conversation import Call, Conversation
from training_core.llm.agents.messages import normalise_message
from training_core.llm.agents.session import PolicyClient, Session, SessionSpec, write_episode
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.rendering import Renderer
from training_core.llm.learning.training_groups import make_groups
from training_core.types import NOT_SAMPLED, Answer, Episode

TOKENIZER = chat_tokenizer(WITH_DEFAULT_SYSTEM)
ASK: dict[str, Any] = {"role": "user", "content": "three"}
CONFIG = load_config("plan_path_duo", {"algorithm.std_level": "none"})


def played(name: str, reward: float, *, discount: float | None, disturbed: bool = True) -> Episode:
    """Two calls of which the second continues a choice of the first. `disturbed`: with another choice, and with a call
    between them and one after them that nobody received.
    """

    def call(messages: list[Any], *texts: str, received: bool = True) -> Any:
        number, key = session.next_call()
        made = session.conversations["planner"].start_call(messages, None, number=number, id=key)
        ids = [TOKENIZER(f"{text}<|im_end|>", add_special_tokens=False)["input_ids"] for text in texts]
        answers = [
            Answer(each, [-0.5] * len(each), [0] * len(each), "stop", text)
            for each, text in zip(ids, texts, strict=True)
        ]
        replies = [{"role": "assistant", "content": text} for text in texts]
        session.conversations["planner"].record_answers(made, answers, replies)
        made.received = received
        return made

    episode = Episode(name, 1, "train", "task", "", siblings="s", turn_discount=discount)
    client = PolicyClient("planner", lambda prompts, settings: [], SamplingSettings(), Renderer(TOKENIZER))
    session = Session(SessionSpec(episode, {}, {"planner": client}, (0, 0, 0, 0)))
    first = call([ASK], *(["other"] if disturbed else []), "seven")
    if disturbed:
        call([ASK], "lost", received=False)
    call([ASK, {"role": "assistant", "content": "seven"}, ASK], "four")
    if disturbed:
        call([ASK, ASK], "lost, too", received=False)
    session.reward({"reward": reward, "rewards": {first.id: 0.25}})
    session.close()
    return write_episode(session, 1.0)


def trained(episode: Episode) -> list[tuple[int, str, float, float | None]]:
    """Index, trained text, reward and advantage of each candidate with trained tokens."""
    candidates = [(turn.index, each) for turn in episode.turns for each in turn.candidates]
    return [
        (index, TOKENIZER.decode(each.answer.learnt(each.answer.token_ids)), each.reward, each.advantage)
        for index, each in candidates
        if each.answer.trained_tokens
    ]


@pytest.mark.parametrize("discount", [None, 0.5], ids=["concat", "individual"])
def test_unused_answers_change_nothing_for_the_others(discount: float | None) -> None:
    plain = [
        played(name, reward, discount=discount, disturbed=False) for name, reward in (("a", 1.0), ("b", 0.0))
    ]
    disturbed = [played(name, reward, discount=discount) for name, reward in (("a", 1.0), ("b", 0.0))]
    groups = [make_groups(episodes, CONFIG) for episodes in (plain, disturbed)]
    assert [trained(episode) for episode in plain] == [trained(episode) for episode in disturbed]
    assert groups[0].counts == groups[1].counts
    shapes = [[(group.rewards, group.advantages) for group in each.groups["planner"]] for each in groups]
    assert shapes[0] == shapes[1] and len(shapes[0]) == (2 if discount is None else 4)


@pytest.mark.parametrize("discount", [None, 0.5], ids=["concat", "individual"])
def test_unused_answers_stay_in_the_episode(discount: float | None) -> None:
    episode = played("a", 1.0, discount=discount)
    make_groups([episode], CONFIG)
    unused = [each for turn in episode.turns for each in turn.candidates if not each.answer.trained_tokens]
    assert sorted(each.answer.text for each in unused) == ["lost", "lost, too", "other"]
    assert all((each.reward, each.advantage) == (0.0, 0.0) for each in unused)
    assert episode.role_return("planner") == 1.25


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


END = "<|im_end|>"
HI: dict[str, Any] = {"role": "user", "content": "three"}
MORE: dict[str, Any] = {"role": "user", "content": "plus"}
SYSTEM: dict[str, Any] = {"role": "system", "content": "You are helpful."}
LATE: dict[str, Any] = {"role": "system", "content": "It is sunny."}

_TURNS = (
    "<|im_start|>{{ m.role }}\n{{ m.content }}BEFORE<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = "{% for m in messages %}" + _TURNS
SYSTEM_FIRST = (
    "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
    "{% for m in messages if m.role != 'system' %}" + _TURNS
)
"""As DeepSeek's."""
SYSTEM_LAST = (
    "{% for m in messages if m.role != 'system' %}"
    "{% if loop.last %}{{ messages[0].content if messages[0].role == 'system' }}{% endif %}" + _TURNS
)
"""As Mistral's: the system message is written before the last message."""
ALTERNATES = (
    "{% for m in messages %}{% if m.role == 'tool' and not messages[loop.index0 - 1].tool_calls %}"
    "{{ raise_exception('no call') }}{% endif %}" + _TURNS
)
"""As gpt-oss's: a tool's message must follow a tool call."""


def template(text: str, before_end: str = "") -> str:
    return text.replace("BEFORE", before_end)


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


class Talk:
    """A conversation with given answers."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.conversation = Conversation(Renderer(tokenizer))

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def call(
        self, messages: Sequence[Any], *choices: str | tuple[str, str], stops: Sequence[str] = (), **more: Any
    ) -> Call:
        """A call with its choices: an answer that ended by itself, or (its text, more sampled text)."""
        number = len(self.conversation.calls)
        call = self.conversation.start_call(
            messages, None, number=number, id=f"call {number}", stops=stops, **more
        )
        parts = [choice if isinstance(choice, tuple) else (choice, END) for choice in choices]
        self.conversation.record_answers(
            call,
            [self._answer(text, self.ids(text + rest)) for text, rest in parts],
            [said(text) for text, _ in parts],
        )
        return call

    def _answer(self, text: str, ids: list[int]) -> Answer:
        return Answer(ids, [-0.5] * len(ids), [3] * len(ids), "stop", text)

    def whole(self, messages: Sequence[Any]) -> list[int]:
        return self.conversation.renderer.render_conversation(messages, None)

    def learnt(self) -> list[str]:
        """The text that is trained on, by segment."""
        answers = [segment.answer for segment in self.conversation.segments()]
        return [self.tokenizer.decode(answer.learnt(answer.token_ids)) for answer in answers]


@pytest.mark.parametrize("before_end", ["", " ", "\n"])
@pytest.mark.parametrize("ending", [END, ""], ids=["ended", "cut"])
def test_one_end_of_turn_follows_an_answer(before_end: str, ending: str) -> None:
    talk = Talk(chat_tokenizer(template(PLAIN, before_end)))
    first = talk.call([HI], ("seven", ending))
    second = talk.call([HI, said("seven"), MORE], "four")
    assert second.prompt_ids[: len(first.ids(0))] == first.ids(0)
    gap = second.prompt_ids[len(first.ids(0)) :]
    end = "" if ending else f"{before_end}{END}"
    assert talk.tokenizer.decode(gap).startswith(f"{end}\n<|im_start|>user\nplus")


def test_the_templates_special_token_ends_a_turn() -> None:
    """As Gemma's: the tokenizer's own end of text is another one, and its special ids do not contain it."""
    tokenizer = chat_tokenizer(template(PLAIN).replace(END, "<end_of_turn>"))
    tokenizer.add_tokens([AddedToken("<end_of_turn>", special=True)])
    end = tokenizer.convert_tokens_to_ids("<end_of_turn>")
    assert end not in tokenizer.all_special_ids
    talk = Talk(tokenizer)
    first = talk.call([HI], ("seven", "<end_of_turn>"))
    second = talk.call([HI, said("seven"), MORE], ("four", END))
    assert second.prompt_ids == talk.whole([HI, said("seven"), MORE]) and second.parent == (first, 0)
    third = talk.call([HI, said("seven"), MORE, said("four"), MORE], "four")
    gap = third.prompt_ids[len(second.ids(0)) :]
    assert gap.count(end) == 1, "of the next message: the answer ended with the other token"


def test_the_models_configuration_names_the_ends_of_turn(tmp_path: Any) -> None:
    tokenizer = chat_tokenizer(chat_tokenizers.NO_MARKS)
    tokenizer.name_or_path = str(tmp_path)
    (tmp_path / "config.json").write_text('{"eos_token_id": 5}')
    assert [Renderer(tokenizer).ends([token]) for token in (5, 6, 7)] == [True, False, False]
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [6, 7]}')
    assert [Renderer(tokenizer).ends([token]) for token in (5, 6, 7)] == [False, True, True]
    assert Renderer(tokenizer).ends([tokenizer.eos_token_id])
    assert not Renderer(tokenizer).ends([tokenizer.pad_token_id])


def test_the_joint_of_two_turns_is_that_of_the_whole_rendering() -> None:
    """As Llama 2's: the tokenizer writes a space before the first word of a text."""
    pieces = ["<unk>", "</s>", "[A]", "▁", "three", "seven", "plus", "▁three", "▁seven", "▁plus", "▁[A]"]
    inner = Tokenizer(models.Unigram([(piece, len(piece) - 99.0) for piece in pieces], unk_id=0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    inner.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'user' %}[A] {{ m.content }} [A]"
        "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
    )
    talk = Talk(tokenizer)
    talk.call([HI], ("seven", "</s>"))
    history = [HI, said("seven"), MORE]
    second = talk.call(history, ("seven", ""))
    assert second.parent and second.prompt_ids == talk.whole(history)
    third = talk.call([*history, said("seven"), MORE], ("seven", ""))
    assert third.parent and third.prompt_ids == talk.whole([*history, said("seven"), MORE])


@pytest.mark.parametrize("text", [SYSTEM_FIRST, SYSTEM_LAST], ids=["system first", "system last"])
def test_a_history_that_the_template_writes_otherwise_begins_a_segment(text: str) -> None:
    talk = Talk(chat_tokenizer(template(text)))
    history = [SYSTEM, HI]
    talk.call(history, "seven")
    history += [said("seven"), *([LATE] if text == SYSTEM_FIRST else []), MORE]
    second = talk.call(history, "four")
    assert second.parent is None and second.prompt_ids == talk.whole(history)


def test_a_conversation_is_continued_after_a_late_system_message() -> None:
    talk = Talk(chat_tokenizer(template(SYSTEM_FIRST)))
    history = [SYSTEM, HI, said("seven"), LATE, MORE]
    talk.call(history[:2], "seven")
    late = talk.call(history, "four")
    third = talk.call([*history, said("four"), MORE], "seven")
    assert third.parent == (late, 0)
    assert third.prompt_ids == talk.whole([*history, said("four"), MORE])


def test_messages_that_cannot_follow_an_answer_alone_begin_a_segment() -> None:
    talk = Talk(chat_tokenizer(template(ALTERNATES)))
    called = said(
        "", tool_calls=[{"id": "", "type": "function", "function": {"name": "add", "arguments": {}}}]
    )
    call = talk.conversation.start_call([HI], None, number=0, id="call 0")
    talk.conversation.record_answers(call, [talk._answer("add", talk.ids(f"add{END}"))], [called])
    history = [HI, called, {"role": "tool", "content": "seven"}]
    assert talk.call(history, "four").prompt_ids == talk.whole(history)


SYSTEM_ONCE = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('one') }}{% endif %}"
    + _TURNS
)
"""As Qwen3.5's."""
IN_TURN = (
    "{% for m in messages %}{% if m.role == 'system' or loop.index0 and m.role == messages[loop.index0 - 1].role %}"
    "{{ raise_exception('in turn') }}{% endif %}" + _TURNS
)
"""As Gemma's: no system message, and user and assistant in turn."""


def asked(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("text", "messages", "form", "folded"),
    [
        (PLAIN, [SYSTEM, HI, said("seven"), LATE, MORE], [SYSTEM, HI, said("seven"), LATE, MORE], False),
        (PLAIN, [SYSTEM, LATE, HI], [{"role": "system", "content": "You are helpful.\n\nIt is sunny."}, HI], False),
        (SYSTEM_ONCE, [SYSTEM, LATE, HI, MORE],
         [{"role": "system", "content": "You are helpful.\n\nIt is sunny."}, HI, MORE], False),
        (SYSTEM_ONCE, [SYSTEM, HI, LATE, said("seven"), LATE, MORE],
         [SYSTEM, asked("three\n\nIt is sunny."), said("seven"), asked("It is sunny.\n\nplus")], True),
        (SYSTEM_ONCE, [SYSTEM, HI, said("seven"), LATE], [SYSTEM, HI, said("seven"), asked("It is sunny.")], True),
        (IN_TURN, [SYSTEM, HI], [asked("You are helpful.\n\nthree")], True),
        (IN_TURN, [HI, MORE], [asked("three\n\nplus")], True),
        (IN_TURN, [HI, said("seven"), said("four"), MORE], [HI, said("seven\n\nfour"), MORE], True),
    ],
)  # fmt: skip
def test_a_template_gets_a_form_of_the_messages_that_it_takes(
    text: str, messages: list[Any], form: list[Any], folded: bool
) -> None:
    tokenizer = chat_tokenizer(template(text))
    renderer = Renderer(tokenizer)
    expected = tokenizer.apply_chat_template(form, tokenize=False, add_generation_prompt=True)
    assert renderer.render_text(messages, None) == expected
    assert renderer.folds(messages, None) is folded


def test_messages_in_another_form_continue_an_answer() -> None:
    for text in (SYSTEM_ONCE, IN_TURN):
        talk = Talk(chat_tokenizer(template(text)))
        first = talk.call([SYSTEM, HI], "seven")
        history = [SYSTEM, HI, said("seven"), LATE, MORE, MORE]
        second = talk.call(history, "four")
        assert second.parent == (first, 0) and second.prompt_ids == talk.whole(history)


def calls(*arguments: str, content: str = "") -> dict[str, Any]:
    """An assistant message with calls, as a request has it."""
    functions = [{"name": "add", "arguments": each} for each in arguments]
    parts = [{"id": f"c{n}", "type": "function", "function": each} for n, each in enumerate(functions)]
    return normalise_message({"role": "assistant", "content": content, "tool_calls": parts})


RESULT = {"role": "tool", "content": "seven"}
BOTH = ('{"a": 1.0}', '{"a": 2}')


@pytest.mark.parametrize(
    ("sampled", "history"),
    [
        (['{"a": 1.0}'], [calls('{"a": 1}'), RESULT]),
        (['{"a": [1e3, {"b": -0.0}]}'], [calls('{"a": [1000, {"b": 0}]}'), RESULT]),
        (['{"a": 9007199254740993}'], [calls('{"a": 9007199254740992}'), RESULT]),
        (BOTH, [calls(BOTH[0], content="so"), calls(BOTH[1]), RESULT, RESULT]),
        (BOTH, [calls(BOTH[0], content="so"), RESULT, calls(BOTH[1]), RESULT]),
        (BOTH, [said("so"), calls(*BOTH), RESULT, RESULT]),
    ],
)
def test_a_respelled_history_continues_the_answer(sampled: Sequence[str], history: list[Any]) -> None:
    """As clients in JavaScript write numbers, and as bridges between APIs divide an answer."""
    talk = Talk(chat_tokenizer(WITH_DEFAULT_SYSTEM))
    content = "so" if len(sampled) > 1 else ""
    first = talk.conversation.start_call([HI], None, number=0, id="call 0")
    talk.conversation.record_answers(
        first, [talk._answer("add", talk.ids(f"add{END}"))], [calls(*sampled, content=content)]
    )
    second = talk.call([HI, *history], "four")
    assert second.parent == (first, 0) and second.prompt_ids[: len(first.ids(0))] == first.ids(0)
    assert second.messages[-1]["role"] == "tool"
    (segment,) = talk.conversation.segments()
    assert [message["role"] for message in segment.dialogue] == [
        "assistant",
        *["tool"] * history.count(RESULT),
        "assistant",
    ]
    assert (
        segment.dialogue[0]["tool_calls"].count("add(") == len(sampled)
        and segment.dialogue[-1]["content"] == "four"
    )
    assert talk.call([HI, *history, said("four"), MORE], "seven").parent == (second, 0)


@pytest.mark.parametrize(
    "history",
    [[calls('{"a": true}'), RESULT], [calls('{"a": 1}'), RESULT, calls('{"a": 2}'), RESULT], [said("add")]],
)
def test_another_answer_begins_a_segment(history: list[Any]) -> None:
    talk = Talk(chat_tokenizer(WITH_DEFAULT_SYSTEM))
    for number, arguments in enumerate((('{"a": 1}', '{"a": 3}'), ('{"a": 0}',))):
        call = talk.conversation.start_call([HI], None, number=number, id=f"call {number}")
        talk.conversation.record_answers(call, [talk._answer("x", talk.ids(f"x{END}"))], [calls(*arguments)])
    assert talk.call([HI, *history], "four").parent is None


@pytest.mark.parametrize("text", [chat_tokenizers.FORGETS_THOUGHTS, chat_tokenizers.OPENS_THOUGHT])
def test_thoughts_stay_as_sampled(text: str) -> None:
    """Templates drop them from answers before the last question; after a tool's message they do not."""
    talk = Talk(chat_tokenizer(text))
    history, calls = [HI], []
    for answer, following in (
        ("<think>hm</think>four", {"role": "tool", "content": "7"}),
        ("seven", MORE),
        ("is", MORE),
    ):
        calls.append(talk.call(history, answer))
        history += [said(answer), following]
    last = talk.call(history, "sunny")
    for before, after in zip(calls, [*calls[1:], last], strict=True):
        assert after.parent == (before, 0) and after.prompt_ids[: len(before.ids(0))] == before.ids(0)


def test_a_restored_stop_text_is_sampled_or_appended() -> None:
    """An engine that stops at a text has sampled it; a tag that an agent closes was not sampled."""
    talk = Talk(chat_tokenizer(template(PLAIN)))
    gap = talk.ids(f"{END}\n<|im_start|>user\nplus{END}\n<|im_start|>assistant\n")
    first = talk.call([HI], ("<code>seven", "</code>\n"), stops=["\n</code>", "</code>"])
    history = [HI, said("<code>seven</code>"), MORE]
    second = talk.call(history, ("<code>four", ""))
    assert second.prompt_ids == first.ids(0) + gap
    history += [said("<code>four\n</code>"), MORE]
    third = talk.call(history, "is")
    appended = talk.ids("\n</code>")
    assert third.prompt_ids == second.ids(0) + appended + gap
    (segment,) = talk.conversation.segments()
    assert talk.learnt() == [f"<code>seven</code>\n<code>fouris{END}"]
    answer, place = segment.answer, len(third.prompt_ids) - len(gap) - len(appended) - len(first.prompt_ids)
    assert answer.versions[place : place + len(appended)] == [NOT_SAMPLED] * len(appended)


def test_nothing_is_appended_behind_an_end_of_turn() -> None:
    talk = Talk(chat_tokenizer(template(PLAIN)))
    first = talk.call([HI], "<code>seven")
    history = [HI, said("<code>seven"), MORE]
    second = talk.call(history, "<code>four")
    longer = talk.call([*history, said("<code>four</code>"), MORE], "is")
    assert longer.parent == (first, 0), "the last answer that the history contains unchanged"
    assert longer.prompt_ids[: len(second.prompt_ids)] == second.prompt_ids
    assert talk.tokenizer.decode(longer.prompt_ids).count(f"<code>four</code>{END}") == 1


def test_of_equal_choices_the_first_one_is_continued() -> None:
    talk = Talk(chat_tokenizer(template(PLAIN)))
    first = talk.call([HI], "seven", "four", "seven", "sunny")
    first.reward = 5.0
    assert talk.call([HI, said("seven"), MORE], "is").parent == (first, 0)
    assert talk.learnt() == ["", "", "", f"seven{END}is{END}"]
    assert [segment.reward for segment in talk.conversation.segments()] == [0.0, 0.0, 0.0, 5.0]


def test_choices_of_which_none_is_continued_are_all_trained_on() -> None:
    talk = Talk(chat_tokenizer(template(PLAIN)))
    talk.call([HI], "seven", "four")
    assert talk.learnt() == [f"seven{END}", f"four{END}"]


def test_an_answer_that_was_not_received_is_not_trained_on() -> None:
    talk = Talk(chat_tokenizer(template(PLAIN)))
    talk.call([HI], "seven")
    history = [HI, said("seven"), MORE]
    again = [talk.call(history, "four") for _ in range(3)]
    again[0].received = again[2].received = False
    assert talk.learnt() == ["", f"seven{END}four{END}", ""], (
        "the shared answer is trained on with the received one"
    )
    assert talk.call([*history, said("four"), MORE], "is").parent == (again[1], 0)


def test_an_answer_that_is_continued_was_received() -> None:
    talk = Talk(chat_tokenizer(template(PLAIN)))
    talk.call([HI], "seven").received = False
    talk.call([HI, said("seven"), MORE], "four")
    assert talk.learnt() == [f"seven{END}four{END}"]
