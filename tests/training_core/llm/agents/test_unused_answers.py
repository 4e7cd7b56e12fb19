"""Answers that nobody used are data of an episode, and no part of what its roles are trained and compared on."""

from typing import Any

import pytest

from tests.training_core.llm.learning.chat_tokenizers import WITH_DEFAULT_SYSTEM, chat_tokenizer
from training_core.config.files import load_config
from training_core.llm.agents.rendering import Renderer
from training_core.llm.agents.session import PolicyClient, Session, SessionSpec, write_episode
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.learning.training_groups import make_groups
from training_core.types import Answer, Episode

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
