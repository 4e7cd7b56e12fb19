"""Records of a rollout buffer as episodes, token by token."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.training_core.llm.toys import TOKENIZER
from training_core.boards import Lines
from training_core.config.files import parse_config
from training_core.config.rollout import RolloutBuffer
from training_core.errors import ConfigError
from training_core.llm.external.records import RecordReader, train_episodes
from training_core.llm.learning.loss_masks import MaskedTokens
from training_core.llm.learning.training_groups import make_groups
from training_core.types import NOT_SAMPLED


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
