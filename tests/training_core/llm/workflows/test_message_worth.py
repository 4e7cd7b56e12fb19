"""The worth of a message: exact values in the world of counting, replays that differ, an interval by hand."""

from dataclasses import replace

import pytest

from tests.training_core.llm.workflows.counting import TOKENIZER, Recorder, make_context
from training_core.errors import ConfigError
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_independent
from training_core.llm.workflows.message_worth import (
    WorthSettings,
    estimate,
    measure,
    student_975,
    worth_by_role,
)
from training_core.llm.workflows.replay import RecordedEpisode, check_replayable, recorded_episode
from training_core.types import Episode
from workers.telemetry.transcripts import episode_document

PLANNER, EXECUTOR = ("1", "7", "4"), ("3", "2", "5")
RETURN = WorthSettings(alternatives=3, outcome="return")


def context_of(**overrides: object) -> RolloutContext:
    """The first answer of each role is the one that it gives in an episode."""
    voices = {
        "planner": Recorder(lambda seen, prompt, index: PLANNER[index]),
        "executor": Recorder(lambda seen, prompt, index: EXECUTOR[index]),
    }
    return make_context(voices, **overrides)


def recorded(context: RolloutContext, task: int = 0) -> RecordedEpisode:
    (episode,) = play_independent([task], context, "eval_sampled")
    return episode_of(episode, context)


def episode_of(episode: Episode, context: RolloutContext) -> RecordedEpisode:
    document = episode_document(
        episode, {}, lambda policy, ids: [str(TOKENIZER.decode([number])) for number in ids]
    )
    return recorded_episode(document, context.config)


def test_a_message_is_worth_its_return_less_that_of_the_alternatives() -> None:
    """Totals of the episode: 1, -2, -1, -4; a planner earns 0 after it and the team's reward, an executor -6.

    With 7 or 4 first, the planner earns 12 or 6 more; with 2 or 5 first, the executor earns 2 more or 4 less. The last
    messages change only their own total.
    """
    context = context_of(algorithm__local_weight=1.0)
    (messages,) = measure([recorded(context)], context, RETURN).messages
    assert [(message.role, message.position) for message in messages] == [
        ("planner", (0, 0)),
        ("executor", (0, 1)),
        ("planner", (1, 0)),
        ("executor", (1, 1)),
    ]
    worths = [-(12 + 6) / 3, (-2 + 4) / 3, -(6 + 3) / 3, (-1 + 2) / 3]
    assert [message.worth for message in messages] == pytest.approx(worths)
    assert [(item.text, item.count) for item in messages[0].alternatives] == [("7", 1), ("4", 1)]
    assert messages[0].equal == 1


def test_equal_answers_share_continuations_and_cost_none() -> None:
    """A planner that always says 1 has no alternatives: its worth is 0, and only alternatives were sampled (3 of 2 tokens a message)."""
    context = context_of()
    context = replace(
        context, generate=dict(context.generate) | {"planner": Recorder(lambda seen, prompt, index: "1")}
    )
    episode = recorded(context)
    measured = measure([episode], context, RETURN)
    planner = [message for message in measured.messages[0] if message.role == "planner"]
    assert [(message.worth, message.half_width, message.equal) for message in planner] == [(0.0, 0.0, 3)] * 2
    # alternatives 4 x 3 x 2 tokens; the first executor message is continued by 3 texts x 2 x 2 messages, the second by none
    assert measured.tokens == 24 + 3 * 2 * 2 * 2


def test_a_conversation_is_replayed_token_by_token() -> None:
    """The prompts of later turns continue the recorded ids; the first message is worth as much as without a conversation."""
    context = context_of(workflow__type="multi_turn", algorithm__local_weight=1.0)
    episode = recorded(context)
    prompts = [list(message.prompt_ids) for message in episode.messages.values()]
    assert prompts[2][: len(prompts[0])] == prompts[0]
    (messages,) = measure([episode], context, RETURN).messages
    assert messages[0].worth == pytest.approx(-(12 + 6) / 3)


def test_the_limit_of_tokens_leaves_messages_out() -> None:
    context = context_of()
    episodes = [recorded(context, task) for task in range(20)]
    measured = measure(episodes, context, replace(RETURN, continuations=16, max_tokens=1))
    assert measured.left_out == 80  # the alternatives alone are more than one token


def test_an_episode_that_cannot_be_replayed_is_refused_and_others_are_measured() -> None:
    context = context_of()
    episode = recorded(context)
    others = [replace(episode, task=1), replace(episode, episode_return=5.0)]
    measured = measure([*others, episode], context, RETURN)
    reasons = [str(measured.refused[index]) for index in (0, 1)]
    assert "differs from the recorded one" in reasons[0] and "the recorded one earned 5" in reasons[1]
    assert [len(messages) for messages in measured.messages] == [0, 0, 4]
    with pytest.raises(ConfigError, match="cannot be replayed"):
        check_replayable(context_of(workflow__type="agent", workflow__path="a:b").config)


def test_roles_of_one_step_keep_each_others_answers() -> None:
    """Planner and executor act at once: an alternative of the planner does not change what the executor saw, or answered."""
    context = context_of(team__parallel=["planner", "executor"], algorithm__local_weight=1.0)
    episode = recorded(context)
    (messages,) = measure([episode], context, RETURN).messages
    other = messages[0].alternatives[0].continuation
    assert [turn.candidates[0].answer.text for turn in other.turns[:2]] == ["7", "3"]


def test_the_interval_by_hand() -> None:
    """K = 4: one equal, one at 0 and 0, two at 1 and 0. The worth is (1 + 2 · 0.5) / 4.

    Noise: the squares of three answers are 0, 0, 0.5, with three degrees of freedom: 1/6. The four alternatives 1, 0, 0.5, 0.5
    have the variance 1/6, of which 1/12 is noise. 9/16 · 1/12 + (1/16 + 1/4) · 1/12 + 1/12 / 4 = 0.09375.
    """
    result = estimate([1.0, 1.0], 1, [(1, [0.0, 0.0]), (2, [1.0, 0.0])])
    assert result.worth == pytest.approx(0.5)
    assert result.between == pytest.approx(1 / 12)
    assert result.half_width == pytest.approx(2.4469 * 0.09375**0.5, rel=1e-3)


def test_the_influence_of_a_role_by_hand() -> None:
    """Variances between alternatives of 0.04, 0, 0.02, 0.02: mean 0.02, standard error 0.00816, three degrees of freedom."""
    context = context_of(algorithm__local_weight=1.0)
    (messages,) = measure([recorded(context)], context, RETURN).messages
    variances = (0.04, 0.0, 0.02, 0.02)
    same_role = [
        replace(message, role="planner", between=between)
        for message, between in zip(messages, variances, strict=True)
    ]
    earned = worth_by_role([same_role])["planner"]
    assert earned.influence == pytest.approx(0.02**0.5)
    assert earned.influence_high == pytest.approx((0.02 + 3.182 * 0.00816) ** 0.5, rel=1e-2)


def test_students_quantiles() -> None:
    """As tables print them."""
    assert [student_975(degrees) for degrees in (4, 8, 30)] == pytest.approx([2.776, 2.306, 2.042], rel=3e-3)
