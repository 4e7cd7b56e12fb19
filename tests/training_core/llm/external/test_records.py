"""Records of a rollout buffer as episodes, token by token: from text, or as they were sampled."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.training_core.llm.learning.chat_tokenizers import WITH_DEFAULT_SYSTEM, chat_tokenizer
from tests.training_core.llm.toys import TOKENIZER
from training_core.boards import Lines
from training_core.config.files import parse_config
from training_core.config.rollout import RolloutBuffer
from training_core.errors import ConfigError
from training_core.llm.external.records import RecordReader, train_episodes
from training_core.llm.learning.loss_masks import MaskedTokens
from training_core.llm.learning.training_groups import make_groups
from training_core.types import NOT_SAMPLED, Episode


def reader(**workflow: Any) -> RecordReader:
    section = {"type": "rollout_buffer", **workflow}
    roles = {"solver": {"policy": "one"}, "judge": {"policy": "one"}}
    config = parse_config(
        {
            "team": {"roles": roles}, "policies": {"one": {}}, "environment": {"type": "external"}, "workflow": section,
            "evaluation": {"every": 0}, "rollout": {"group_size": 2}, "algorithm": {"type": "at_grpo", "std_level": "none"},
        }
    )  # fmt: skip
    assert isinstance(config.workflow, RolloutBuffer)
    return RecordReader(config, config.workflow, {"one": TOKENIZER}, attempt=1, iteration=5)


def record(*said: tuple[str, str], reward: float = 0.5, **extra: Any) -> dict[str, Any]:
    messages = [{"role": role, "content": content} for role, content in said]
    return {
        "uid": "u", "instance_id": "i", "messages": messages, "reward": reward * 10, "raw_reward": reward, "extra_info": extra,
    }  # fmt: skip


def ids(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def test_a_conversation_becomes_a_prompt_and_an_answer_with_a_mask() -> None:
    talk = [("user", "w1"), ("assistant", "w2"), ("user", "w3"), ("assistant", "w4 w5"), ("user", "w6")]
    episode = reader().episode(record(*talk, label="x"), "train", "0")
    (turn,) = episode.turns
    answer = turn.candidates[0].answer
    assert turn.prompt_ids == ids("<user> w1 <assistant>")
    assert answer.token_ids == ids("w2 <eos> <user> w3 <assistant> w4 w5 <eos>"), (
        "what follows is not learnt from"
    )
    assert answer.loss_mask == [True, True, False, False, False, True, True, True]
    assert answer.logprobs == [] and set(answer.versions) == {NOT_SAMPLED}
    assert turn.messages == [{"role": "user", "content": "w1"}]
    assert episode.final_board is not None
    board = TypeAdapter(Lines).validate_python(episode.final_board)
    assert [(line.label, line.text) for line in board.lines] == [
        ("uid", "u"),
        ("raw_reward", "0.5"),
        ("label", "x"),
    ]
    assert (turn.candidates[0].reward, episode.success) == (0.5, False)


def test_a_message_that_is_not_trained_on_belongs_to_the_prompt() -> None:
    given = record(("user", "w1"), ("assistant", "w2"), ("user", "w3"), ("assistant", "w4"))
    given["messages"][1]["step_loss_mask"] = 0
    (turn,) = reader().episode(given, "train", "0").turns
    assert turn.prompt_ids == ids("<user> w1 <assistant> w2 <eos> <user> w3 <assistant>")
    assert turn.candidates[0].answer.token_ids == ids("w4 <eos>")
    assert turn.candidates[0].answer.loss_mask is None, "all of it is learnt from"
    assert len(turn.messages) == 3


def test_records_select_raw_or_normalised_rewards_and_roles() -> None:
    said = [("user", "w1"), ("assistant", "w2")]
    assert reader(reward="normalised").episode(record(*said), "train", "0").episode_return == 5.0
    assert reader(success_at=0.5).episode(record(*said), "train", "0").success
    assert reader().episode(record(*said), "train", "0").turns[0].role == "solver"
    assert reader().episode(record(*said, role="judge"), "train", "0").turns[0].role == "judge"


def test_siblings_are_compared_within_their_group() -> None:
    def group(instance: str, *rewards: float) -> list[dict[str, Any]]:
        return [
            record(("user", "w1"), ("assistant", f"w{place}"), reward=reward) | {"instance_id": instance}
            for place, reward in enumerate(rewards)
        ]

    table = reader()
    episodes = train_episodes(
        [group("a", 1.0, 0.0), group("b", 3.0, 1.0), group("a", 0.0, 4.0)], table, first=10
    )
    assert [episode.id for episode in episodes] == [f"1-5-train-{number}" for number in range(10, 16)]
    assert len({episode.siblings for episode in episodes}) == 3, (
        "a prompt that is played twice has two groups"
    )
    make_groups(episodes, table.config)
    assert [episode.turns[0].candidates[0].advantage for episode in episodes] == [
        0.5,
        -0.5,
        1.0,
        -1.0,
        -2.0,
        2.0,
    ]


def test_what_cannot_be_learnt_from_is_a_failed_episode() -> None:
    for given, said in (
        (record(("user", "w1")), "no assistant message"),
        (record(("user", "w1"), ("assistant", "w2"), error="RuntimeError: it broke"), "it broke"),
    ):
        episode = reader().episode(given, "train", "0")
        assert episode.failed and not episode.turns and said in episode.error


def test_a_record_without_a_reward_is_unscored() -> None:
    episode = reader().episode(record(("user", "w1"), ("assistant", "w2"), unscored=True), "train", "0")
    assert (episode.unscored, episode.failed, episode.turns) == (1, False, [])


def every_other(messages: Any, tokenizer: Any, tools: Any) -> MaskedTokens:
    """A mask of one's own: of the last message's words the first, third ..."""
    before = ids("<user> w1 <assistant>")
    said = ids(messages[-1]["content"])
    return MaskedTokens(before + said, [False] * len(before) + [place % 2 == 0 for place in range(len(said))])


def too_short(messages: Any, tokenizer: Any, tools: Any) -> MaskedTokens:
    return MaskedTokens(ids("w1 w2"), [True])


HERE = "tests.training_core.llm.external.test_records"


def test_a_loss_mask_of_ones_own_says_what_is_learnt_from() -> None:
    own = reader(loss_mask="custom", loss_mask_path=f"{HERE}:every_other")
    (turn,) = own.episode(record(("user", "w1"), ("assistant", "w2 w3 w4 w5")), "train", "0").turns
    answer = turn.candidates[0].answer
    assert turn.prompt_ids == ids("<user> w1 <assistant>")
    assert answer.token_ids == ids("w2 w3 w4"), "nothing is learnt from after it"
    assert answer.loss_mask == [True, False, True]


def test_an_invalid_loss_mask_fails_its_episode_a_missing_one_fails_all() -> None:
    talk = record(("user", "w1"), ("assistant", "w2"))
    episode = reader(loss_mask="custom", loss_mask_path=f"{HERE}:too_short").episode(talk, "train", "0")
    assert episode.failed and "one mark per token" in episode.error
    with pytest.raises(ConfigError, match="accepts no type; remove it"):
        reader(loss_mask="custom", loss_mask_path=f"{HERE}:every_other", loss_mask_type="a").episode(
            talk, "train", "0"
        )
    with pytest.raises(ConfigError, match="has no 'nobody'"):
        reader(loss_mask="custom", loss_mask_path=f"{HERE}:nobody").episode(talk, "train", "0")


PROMPT = [4, 7, 8, 5]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


def said(**fields: Any) -> dict[str, Any]:
    """A record of one call, two versions old of five."""
    given = record(("user", "w1"), ("assistant", "w2"))
    sampled = {"prompt_token_ids": PROMPT, "token_ids": [9, 2], "logprobs": [-0.5, -0.25], "versions": [3, 4]}
    given["messages"][1] |= sampled | fields
    return given


def sample(**fields: Any) -> dict[str, Any]:
    """The same in slime's names."""
    given = record(("user", "w1"), ("assistant", "w2"))
    return (
        given | {"tokens": [*PROMPT, 9, 2], "response_length": 2, "rollout_log_probs": [-0.5, -0.25]} | fields
    )


def read(given: dict[str, Any], **changes: Any) -> Episode:
    return replace(reader(), version=lambda policy: 5, **changes).episode(given, "train", "0")


@pytest.mark.parametrize("given", [said(), sample(versions=[3, 4]), sample(weight_versions=["3", "4"])])
def test_sampled_ids_logprobs_and_versions_are_kept(given: dict[str, Any]) -> None:
    episode = read(given)
    (turn,) = episode.turns
    answer = turn.candidates[0].answer
    assert (turn.prompt_ids, answer.token_ids) == (PROMPT, [9, 2])
    assert (answer.logprobs, answer.versions, answer.loss_mask) == ([-0.5, -0.25], [3, 4], None)
    assert turn.messages == [{"role": "user", "content": "w1"}] and turn.candidates[0].reward == 0.5
    assert episode.stages[0].versions == (3, 4)


def test_logprobs_without_versions_are_taken_for_the_newest() -> None:
    for given in (said(versions=None), sample(), sample(versions=5)):
        assert read(given).turns[0].candidates[0].answer.versions == [5, 5]


def test_ids_without_logprobs_are_kept_and_the_learner_computes_them() -> None:
    answer = read(said(logprobs=None)).turns[0].candidates[0].answer
    assert (answer.token_ids, answer.logprobs, answer.versions) == ([9, 2], [], [NOT_SAMPLED] * 2)


def test_calls_that_continue_one_another_are_one_sequence_and_others_are_turns() -> None:
    given = record(
        ("user", "w1"),
        ("assistant", "w2"),
        ("user", "w3"),
        ("assistant", "w4"),
        ("assistant", "w5"),
        reward=2.0,
    )
    calls = [(PROMPT, [9, 2]), ([*PROMPT, 9, 2, 11, 5], [12]), ([4, 20, 5], [13, 2])]
    assistants = [message for message in given["messages"] if message["role"] == "assistant"]
    for message, (prompt, answer) in zip(assistants, calls, strict=True):
        message |= {
            "prompt_token_ids": prompt,
            "token_ids": answer,
            "logprobs": [-1.0] * len(answer),
            "versions": 5,
        }
    first, second = read(given).turns
    answer = first.candidates[0].answer
    assert (first.prompt_ids, answer.token_ids) == (PROMPT, [9, 2, 11, 5, 12])
    assert answer.loss_mask == [True, True, False, False, True]
    assert answer.versions == [5, 5, NOT_SAMPLED, NOT_SAMPLED, 5]
    assert (second.prompt_ids, second.candidates[0].answer.token_ids) == ([4, 20, 5], [13, 2])
    assert [turn.candidates[0].reward for turn in (first, second)] == [0.0, 2.0], "the reward counts once"
    for message in assistants:
        del message["logprobs"]
    assert read(given).turns[0].candidates[0].answer == replace(
        answer, logprobs=[], versions=[NOT_SAMPLED] * 5
    ), "the learner computes them"


def test_a_loss_mask_of_a_sample_leaves_out_what_was_not_sampled() -> None:
    given = sample(
        tokens=[*PROMPT, 9, 11, 12],
        response_length=3,
        loss_mask=[1, 0, 1],
        rollout_log_probs=[-0.5, 0.0, -0.25],
    )
    answer = read(given).turns[0].candidates[0].answer
    assert answer.loss_mask == [True, False, True] and answer.versions == [5, NOT_SAMPLED, 5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (said(token_ids=[9, 10**6]), "token id 1000000 is outside the model's vocabulary of 30"),
        (said(token_ids=[9, -1]), "token id -1 is outside"),
        (said(prompt_token_ids=[99]), "token id 99 is outside"),
        (said(prompt_token_ids=None), "needs prompt_token_ids"),
        (said(token_ids=[9, "x"]), "token ids must be one list of integers"),
        (said(token_ids="words"), "token_ids must be a list"),
        (said(logprobs=[-0.5]), "2 tokens have 1 logprobs"),
        (said(logprobs=[-0.5, float("nan")]), "has the logprob nan"),
        (said(logprobs=[-0.5, 0.5]), "has the logprob 0.5"),
        (said(logprobs=["a", "b"]), "logprobs must be numbers"),
        (said(versions=[3, 4, 5]), "2 tokens have 3 versions"),
        (said(versions=[3, 6]), "has version 6 of the weights, but versions must be from 0 to 5"),
        (said(versions=[-1, 3]), "has version -1"),
        (sample(response_length=6), "response_length = 6 of 6 tokens"),
        (sample(response_length=True), "response_length = True"),
        (sample(loss_mask=[1]), "loss_mask has 1 marks"),
        (sample(loss_mask=[0, 0]), "nothing to train on"),
        (sample(tokens="words"), "tokens must be a list"),
    ],
)
def test_sampled_tokens_that_cannot_be_true_fail_their_record(given: dict[str, Any], message: str) -> None:
    episode = read(given)
    assert episode.failed and not episode.turns
    assert message in episode.error


def test_either_all_trained_messages_carry_ids_or_none() -> None:
    given = said()
    given["messages"] += [{"role": "user", "content": "w3"}, {"role": "assistant", "content": "w4"}]
    assert "1 of 2 assistant messages have token_ids" in read(given).error
    given["messages"][-1]["step_loss_mask"] = 0
    assert not read(given).failed


def test_a_records_tools_are_part_of_its_prompt() -> None:
    tokenizer = chat_tokenizer(WITH_DEFAULT_SYSTEM)
    given = record(("user", "three plus four"), ("assistant", "seven"))
    (turn,) = read(given | {"tools": TOOLS}, tokenizers={"one": tokenizer}).turns
    asked = tokenizer.apply_chat_template(
        given["messages"][:1], tools=TOOLS, add_generation_prompt=True, tokenize=True
    )
    assert turn.prompt_ids == asked["input_ids"]
    assert "# Tools" in tokenizer.decode(turn.prompt_ids)
    assert "tools must be a list" in read(given | {"tools": "add"}).error


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": [{"role": "user", "content": 3}, {"role": "assistant", "content": ["x"]}]},
        {"messages": [{"role": ["user"]}, {"role": "assistant", "content": "w1"}]},
        {"messages": [{"role": "user", "content": "w1"}, {"role": "assistant", "content": None}]},
        {"messages": [{"role": "user"}, {"role": "assistant"}]},
        {"extra_info": "text"}, {"extra_info": [1]}, {"extra_info": {"timestamp": "now", "role": ["x"]}},
    ],
)  # fmt: skip
def test_a_strange_record_never_ends_the_run(changes: dict[str, Any]) -> None:
    episode = read(record(("user", "w1"), ("assistant", "w2")) | changes)
    assert episode.failed or episode.turns[0].candidates[0].answer.token_ids
    assert bool(episode.error) == episode.failed
