"""A conversation, turn by turn behind its tokens so far, is one sequence; its turns learn what separate rows would."""

import math

import pytest
import torch

from tests.training_core.llm.learning.test_learner import flat
from tests.training_core.llm.toys import make_model, naive_logprobs
from training_core.algorithms.config import Ppo
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.models import Policy
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.packing import conversations, minibatches, own_share, single_rows, tree_rows
from training_core.types import Answer, Group

OPENING, FEEDBACK = [6, 7, 8], [20, 21]
TALKS = {"a": [[9, 2], [10, 11, 2], [12, 2]], "b": [[9, 2], [13, 2]], "c": [[14, 2]]}
"""What is said in each turn; all begin with the same prompt."""
ADVANTAGES = {"a": [1.0, -0.5, 0.25], "b": [-1.0, -1.0], "c": [0.7]}
"""They may differ by turn."""


def turns() -> list[Group]:
    """A group per turn; sampled logprobs are a little off those of the model, so that ratios are not 1."""
    model, made = make_model(), []
    for name, said in TALKS.items():
        prompt = list(OPENING)
        for place, (tokens, advantage) in enumerate(zip(said, ADVANTAGES[name], strict=True)):
            logprobs = [value + 0.1 * (-1) ** place for value in naive_logprobs(model, prompt, tokens)]
            answer = Answer(tokens, logprobs, [0] * len(tokens), "stop", "")
            made.append(Group(name, place, prompt, [answer], [0.0], [advantage], 1.0, 0, 1.0, 4))
            prompt = [*prompt, *tokens, *FEEDBACK]
    return made


def learner(kind: str, **settings: object) -> Learner:
    section = LearnerSettings(**{"schedule": "constant", "max_grad_norm": 0.0, **settings})
    algorithm = ALGORITHM_CONFIGS[kind](kl_coefficient=0.0)
    return Learner(Policy(learner=section), algorithm, make_model(), 1)


def naive_gradient(groups: list[Group], average: str) -> list[torch.Tensor | None]:
    """Of the clipped loss (0.2, none of these ratios reach it), a forward pass of its own for every turn."""
    model, total = make_model(), torch.tensor(0.0)
    tokens = sum(len(group.answers[0].token_ids) for group in groups)
    for group in groups:
        said, old = group.answers[0].token_ids, group.answers[0].logprobs
        spread = model(input_ids=torch.tensor([group.prompt_ids + said])).logits[0].log_softmax(-1)
        parts = [
            -group.advantages[0] * (spread[len(group.prompt_ids) - 1 + place, token] - old[place]).exp()
            for place, token in enumerate(said)
        ]
        share = {
            "token": 1 / tokens,
            "sequence": 1 / len(said) / len(groups),
            "constant": 1 / 4 / len(groups),
        }
        total = total + torch.stack(parts).sum() * share[average]
    total.backward()
    return [weight.grad for weight in model.parameters()]


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize(
    ("kind", "average"), [("at_grpo", "token"), ("grpo", "sequence"), ("dr_grpo", "constant")]
)
def test_the_gradient_is_that_of_a_pass_for_every_turn(kind: str, average: str, packing: bool) -> None:
    one = learner(kind, packing=packing)
    one.update(turns(), 1, 0)
    for mine, theirs in zip(one.model.parameters(), naive_gradient(turns(), average), strict=True):
        if theirs is not None:
            moment = one.optimizer.state[mine]["exp_avg"] / (1 - 0.9)
            torch.testing.assert_close(moment, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("packing", [True, False])
def test_what_was_said_is_computed_once(packing: bool) -> None:
    """The prompt of 3, then 9 2 20 21 10 11 2 20 21 12, or 9 2 20 21 13, or 14; the last token said has no place."""
    result = learner("at_grpo", packing=packing).update(turns(), 1, 0)
    whole, other, short = 3 + 10, 3 + 5, 3 + 1
    shared = 3 + 10 + 1 + 1  # packed: 9 2 20 21 once, then 13, and 14
    assert result.metrics["computed_tokens"] == (shared if packing else 3 * whole)
    assert result.metrics["tokens"] == sum(len(said) for talk in TALKS.values() for said in talk)
    rows = single_rows(turns(), range(6))
    assert sorted(len(row.tokens) for row in rows) == sorted((whole, other, short))
    assert [len(row.answers) for row in rows] == [4, 1, 1], "b's first turn is a's"


def test_a_conversation_by_hand() -> None:
    (row,) = tree_rows(turns()[:2], [1, 0], 100)
    assert row.tokens == [6, 7, 8, 9, 2, 20, 21, 10, 11]
    assert row.positions == list(range(9))
    assert row.ends == [9] * 9
    assert row.answers == [(0, 0), (1, 0)]
    assert row.sources == [2, 3, 6, 7, 8]
    assert row.targets == [9, 2, 10, 11, 2]


def test_turns_are_told_of_one_by_one() -> None:
    groups = turns()
    found = learner("at_grpo").update(groups, 1, 0).annotations
    for group in groups:
        expected = naive_logprobs(make_model(), group.prompt_ids, group.answers[0].token_ids)
        assert found[group.episode, group.turn].training_logprobs[0] == pytest.approx(expected, abs=1e-5)


def test_a_critic_judges_every_turn_by_itself() -> None:
    """Each turn ends where its answer does, and what comes after it is no part of its return."""
    one = Learner(Policy(), Ppo(whiten_advantages=False, gae_lambda=1.0), make_model(), 1)
    value_loss = one.update(turns(), 1, 0).metrics["value_loss"]
    # values begin at 0, so a token's return is its turn's advantage, and the loss half its square, at most that of the clip
    tokens = [
        advantage
        for name, said in TALKS.items()
        for tokens, advantage in zip(said, ADVANTAGES[name], strict=True)
        for _ in tokens
    ]
    assert value_loss == pytest.approx(sum(each**2 / 2 for each in tokens) / len(tokens), abs=1e-5)


def test_minibatches_and_processes_keep_conversations_whole() -> None:
    groups = turns()
    assert conversations(groups, range(6)) == [[0, 1, 2], [3, 4], [5]]
    assert conversations(groups, [5, 4, 0, 2]) == [[5], [4], [0, 2]]
    assert conversations(groups, [0, 3, 1, 4, 2]) == [[0, 1, 2], [3, 4]]
    parts = minibatches(groups, 4, 1)
    assert sorted(parts) == [[0, 1, 2], [3, 4], [5]]
    shares = [own_share([0, 1, 2, 3, 4, 5], groups, rank, 2) for rank in (0, 1)]
    assert shares == [[0, 1, 2], [3, 4, 5]]


def test_several_steps_learn_the_same_packed_and_unpacked() -> None:
    ends = []
    for packing in (True, False):
        one = learner("at_grpo", packing=packing, learning_rate=1e-2, minibatches=2, epochs=2)
        one.update(turns(), 1, 0)
        ends.append(flat(one))
    assert math.isclose(float((ends[0] - ends[1]).abs().max()), 0.0, abs_tol=1e-4)
