"""Multi-turn conversations: tokens are appended, never rendered again; a retry costs a discount; whole talks are compared."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.training_core.llm.learning.chat_tokenizers import OPENS_THOUGHT, chat_tokenizer
from training_core.config.files import load_config
from training_core.errors import ConfigError, ModelError
from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.llm.environments.arithmetic import ARITHMETIC_TASKS, Arithmetic, arithmetic_vocabulary
from training_core.llm.environments.base import TRY_AGAIN
from training_core.llm.environments.host import EnvironmentHost, SlotView
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.rendering import check_template_arguments
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.context import Conversations, RolloutContext, begin_turn
from training_core.llm.workflows.episodes import play_episodes, play_independent
from training_core.types import Answer, Episode, Message, NoiseKey, Prompt
from workers.actors.player import renderer

TOKENIZER = word_tokenizer(arithmetic_vocabulary(Arithmetic()))
EOS, ODD = int(TOKENIZER.eos_token_id), int(TOKENIZER.convert_tokens_to_ids("<system>"))


def ids(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


class Guesser:
    """Says 0, 1, 2 … one number a turn, each after a token that its text does not show; cut off where told."""

    def __init__(self, first: Callable[[Prompt], int] = lambda prompt: 0, cut: bool = False) -> None:
        self.first, self.cut = first, cut

    def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        return [[self._answer(prompt)] for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Answer:
        text = f"\\boxed{{ {self.first(prompt) + prompt.key.turn} }}"
        said = [ODD, *ids(text)] + ([] if self.cut else [EOS])
        return Answer(said, [0.0] * len(said), [0] * len(said), "length" if self.cut else "stop", text)


def make_context(voice: Guesser, **overrides: Any) -> RolloutContext:
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    config = load_config("multi_turn_math", {"rollout.group_size": 3} | given)
    host = EnvironmentHost(config.environment, config.run.seed)
    return RolloutContext(
        config, host, {"reasoner": voice}, {"reasoner": renderer(TOKENIZER)}, attempt=1, iteration=1
    )  # type: ignore[dict-item]


def small_task(config: Arithmetic, value: int) -> int:
    """A training task with this result."""
    return next(
        number
        for number in range(500)
        if ARITHMETIC_TASKS.instance(config, 0, number, "train").value == value
    )


def played(voice: Guesser, value: int, **overrides: Any) -> list[Episode]:
    context = make_context(voice, **overrides)
    return play_episodes([small_task(context.config.environment, value)], context)  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", [False, True])
def test_a_turns_prompt_begins_with_the_very_ids_of_the_turn_before(cut: bool) -> None:
    episode = played(Guesser(cut=cut), 3)[0]
    assert len(episode.turns) == 4
    feedback = ids(f"<eos> <user> {TRY_AGAIN} <assistant>")
    for before, after in zip(episode.turns, episode.turns[1:], strict=False):
        said = before.candidates[0].answer.token_ids
        assert ODD in said, "which no rendering of the text would give back"
        prefix = before.prompt_ids + said
        assert after.prompt_ids[: len(prefix)] == prefix
        assert after.prompt_ids[len(prefix) :] == (feedback if cut else feedback[1:]), (
            "one end of message, whoever said it"
        )


def test_prompts_of_one_conversation_have_one_name_of_their_own() -> None:
    class Listener(Guesser):
        def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            heard.extend(prompts)
            return super().__call__(prompts, settings)

    heard: list[Prompt] = []
    assert len(played(Listener(), 3)) == 3
    names = [
        {prompt.rid for prompt in heard if prompt.key.task == task} for task in {p.key.task for p in heard}
    ]
    assert len(names) == 3 and all(len(own) == 1 for own in names) and len(set().union(*names)) == 3


def test_the_conversation_can_be_read() -> None:
    episode = played(Guesser(), 1)[0]
    assert [(message["role"], message["content"]) for message in episode.turns[1].messages[1:]] == [
        ("assistant", "\\boxed{ 0 }"),
        ("user", TRY_AGAIN),
    ]


@pytest.mark.parametrize(("value", "turns", "paid"), [(0, 1, 1.0), (1, 2, 0.9), (4, 5, 0.6561)])
def test_success_is_discounted_by_the_number_of_earlier_turns(value: int, turns: int, paid: float) -> None:
    episode = played(Guesser(), value)[0]
    assert (len(episode.turns), episode.success) == (turns, True)
    assert episode.episode_return == pytest.approx(paid)


def test_five_wrong_answers_end_it() -> None:
    episode = played(Guesser(), 9)[0]
    assert (len(episode.turns), episode.success, episode.episode_return) == (5, False, 0.0)


def test_conversations_of_a_task_are_compared_on_sampled_tokens_only() -> None:
    """Siblings begin at 0, 1, 2 and look for 2: right at turns 3, 2, 1, paid 0.81, 0.9, 1."""
    voice = Guesser(lambda prompt: prompt.key.task % 3)
    context = make_context(voice, algorithm__std_level="none", algorithm__kl_coefficient=0.0)
    episodes = play_episodes([small_task(context.config.environment, 2)], context)  # type: ignore[arg-type]
    groups = make_groups(episodes, context.config).groups["reasoner"]
    mean = (0.81 + 0.9 + 1.0) / 3
    expected = [0.81 - mean] * 3 + [0.9 - mean] * 2 + [1.0 - mean]
    assert [group.advantages[0] for group in groups] == pytest.approx(expected)
    learnt = [token for group in groups for token in group.answers[0].token_ids]
    assert learnt.count(ODD) == len(groups) == 6 and not set(ids(TRY_AGAIN)) & set(learnt)


def test_evaluations_are_conversations_too() -> None:
    context = make_context(Guesser())
    for episode in play_independent(range(6), context, "eval"):
        for before, after in zip(episode.turns, episode.turns[1:], strict=False):
            prefix = before.prompt_ids + before.candidates[0].answer.token_ids
            assert after.prompt_ids[: len(prefix)] == prefix


def test_without_a_feedback_the_environment_says_what_is_next() -> None:
    episode = played(Guesser(), 2, workflow__feedback="")[0]
    assert episode.turns[1].messages[-1]["content"].endswith("Not correct : 0 .")


def continued(tokenizer: Any, opening: list[Message], said: str) -> tuple[list[int], list[int]]:
    """The ids of a first prompt with its answer, and of the prompt after them."""
    conversations, render = Conversations(TRY_AGAIN), renderer(tokenizer)
    messages, prompt = conversations.prompt(0, "reasoner", opening, SlotView(), render)
    answer = tokenizer(said, add_special_tokens=False)["input_ids"]
    sampled = Answer(answer, [0.0] * len(answer), [0] * len(answer), "stop", "")
    conversations.record_answer(0, "reasoner", messages, prompt, sampled)
    return [*prompt, *answer], conversations.prompt(0, "reasoner", opening, SlotView(), render)[1]


def test_a_template_that_rewrites_the_past_is_refused() -> None:
    forgetful = copy.deepcopy(TOKENIZER)
    forgetful.chat_template = forgetful.chat_template.replace("in messages", "in messages[-1:]")
    with pytest.raises(ModelError, match="episodes"):
        continued(forgetful, [Message(role="user", content="What is 1 plus 1 ?")], "<eos>")


def test_a_thought_stays_as_it_was_sampled() -> None:
    """The template opens a thought in its generation prompt, and drops it from answers before the last question."""
    tokenizer = chat_tokenizer(OPENS_THOUGHT)
    before, after = continued(tokenizer, [Message(role="user", content="three")], "three<|im_end|>")
    assert tokenizer.decode(before).endswith("<|im_start|>assistant\n<think>three<|im_end|>")
    assert after[: len(before)] == before
    following = f"\n<|im_start|>user\n{TRY_AGAIN}<|im_end|>\n<|im_start|>assistant\n<think>"
    assert tokenizer.decode(after[len(before) :]) == following


@pytest.mark.parametrize("before", ["", " ", "\n"])
def test_a_template_may_write_a_space_before_its_end_of_turn(before: str) -> None:
    """The answer has the end of turn; the template writes it again behind a space, as Llama 2's."""
    tokenizer = chat_tokenizer(
        "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}"
        f"{{{{ m.content }}}}{before}<|im_end|>{{% endif %}}{{% endfor %}}"
    )
    render, talk, opening = renderer(tokenizer), Conversations(""), [Message(role="user", content="three")]
    messages, prompt = talk.prompt(0, "solver", opening, SlotView(observation="three"), render)
    said = [*tokenizer("four", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    answer = Answer(said, [0.0] * len(said), [0] * len(said), "stop", "four")
    talk.record_answer(0, "solver", messages, prompt, answer)
    _, longer = talk.prompt(0, "solver", opening, SlotView(observation="more"), render)
    assert tokenizer.decode(longer) == "[INST] three [/INST]four<|im_end|>[INST] more [/INST]"


THINKS = (
    "{% for m in messages %}{{ m.content }}{% endfor %}<|im_start|>"
    "{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}"
)
"""A template that opens a thought unless `enable_thinking` is false, as Qwen3's does."""


def test_each_role_has_template_arguments_of_its_own() -> None:
    """Two roles of one policy; prompts are cached by their messages."""
    tokenizer = chat_tokenizer(THINKS)
    config = load_config(
        "plan_path_duo",
        {
            "team.roles.executor.policy": "planner",
            "team.roles.executor.chat_template_kwargs": {"enable_thinking": False},
        },
    )
    render = {"planner": renderer(tokenizer)}
    context = RolloutContext(
        config, EnvironmentHost(config.environment, 0), {}, render, attempt=1, iteration=1
    )
    context.pool.reset({0: (0, "train")})
    keys = {0: NoiseKey(0, 0, 0, 0, 0, 0)}
    ends = {}
    for role in ("planner", "executor"):
        spoken, _ = begin_turn(context, role, keys, 1, SamplingSettings(), None)
        ends[role] = tokenizer.decode(spoken.items[0].prompt.token_ids).endswith("<think>")
    assert ends == {"planner": True, "executor": False}


def test_template_arguments_without_effect_are_refused() -> None:
    tokenizer = chat_tokenizer(THINKS)
    check_template_arguments(tokenizer, {"enable_thinking": False}, "planner")
    with pytest.raises(ConfigError, match=r"chat_template_kwargs\.thinking.*no such argument"):
        check_template_arguments(tokenizer, {"thinking": False}, "planner")
    with pytest.raises(ConfigError, match="Troupe sets this argument itself"):
        load_config("plan_path_duo", {"team.roles.planner.chat_template_kwargs": {"tools": []}})
