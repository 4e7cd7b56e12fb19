"""arithmetic: rewards by hand, values against Python's own arithmetic, tasks that never overlap, one role or several."""

from fractions import Fraction
from itertools import islice

import pytest

from tests.training_core.llm.environments.puzzles import check_splits
from training_core.config.files import load_config, parse_config
from training_core.errors import ModelError
from training_core.llm.base_models.warm_start import encode_pairs, word_tokenizer
from training_core.llm.environments.arithmetic import (
    ARITHMETIC_TASKS,
    BOX,
    TOOL,
    Arithmetic,
    ArithmeticEnvironment,
    Problem,
    arithmetic_demonstrations,
    arithmetic_vocabulary,
    calculate,
    spelled,
)
from training_core.llm.environments.base import TRY_AGAIN

SUM = Problem("7 - 3 * 2", Fraction(1))
HARD = Arithmetic(terms=4, largest=99, operators=("+", "-", "*", "/"), fractions=True)


def started(problem: Problem = SUM, **settings: float) -> ArithmeticEnvironment:
    environment = ArithmeticEnvironment(Arithmetic(**settings), seed=0)  # type: ignore[arg-type]
    environment.start(problem, "train-0")
    return environment


def test_the_tool_agents_expression_is_worked_out_and_shown_to_the_reasoner() -> None:
    environment = started()
    assert environment.observe(TOOL) == "Write 7 minus 3 times 2 as an expression ."
    result = environment.act(TOOL, "7 - 3 * 2")
    assert (result.local_reward, result.team_reward, result.done) == (1.0, 0.0, False)
    assert environment.observe("reasoner") == "What is 7 minus 3 times 2 ? The tool says 1 ."
    result = environment.act("reasoner", r"\boxed{ 1 }")
    assert (result.local_reward, result.team_reward, result.done, result.success) == (0.0, 1.0, True, True)


def test_a_wrong_expression_earns_nothing_and_an_invalid_one_costs_a_tenth() -> None:
    environment = started()
    assert environment.act(TOOL, "7 + 3").local_reward == 0.0
    assert environment.act(TOOL, "7 minus 3").local_reward == -0.1
    assert environment.observe("reasoner").endswith("The tool says nothing .")


@pytest.mark.parametrize(
    ("answer", "local", "team"),
    [
        (r"\boxed{1}", 0.0, 1.0), ("#### 1", 0.0, 1.0), (r"\boxed{\frac{2}{2}}", 0.0, 1.0), (r"\boxed{1.0}", 0.0, 1.0),
        (r"\boxed{2}", 0.0, 0.0), ("1", -0.1, 0.0), (r"\boxed{one}", -0.1, 0.0), ("", -0.1, 0.0),
    ],
)  # fmt: skip
def test_answers_stand_in_a_box_and_are_compared_as_numbers(answer: str, local: float, team: float) -> None:
    result = started().act("reasoner", answer)
    assert (result.local_reward, result.team_reward, result.done) == (local, team, team > 0)


def test_success_is_discounted_by_the_number_of_earlier_turns() -> None:
    for wrong, paid in ((0, 1.0), (1, 0.9), (4, 0.6561)):
        environment = started(max_turns=5, turn_discount=0.9)
        for _ in range(wrong):
            result = environment.act("anybody", r"\boxed{0}")
            assert (result.team_reward, result.done) == (0.0, False)
        result = environment.act("anybody", r"\boxed{1}")
        assert result.team_reward == pytest.approx(paid)
        assert result.done and result.success


def test_wrong_answers_are_told_until_the_turns_are_used_up() -> None:
    environment = started(max_turns=3, turn_discount=0.5)
    environment.act("a", r"\boxed{0.5}")
    environment.act(TOOL, "7 - 3")
    assert environment.observe("b") == "What is 7 minus 3 times 2 ? Not correct : 1 / 2 . The tool says 4 ."
    environment.act("b", "well")
    assert environment.observe("a") == "What is 7 minus 3 times 2 ? Not correct : 1 / 2 nothing ."
    assert not environment.act("a", r"\boxed{4}").done, "the turns are counted by those who play"
    assert (environment.success, environment.outcome) == (False, "no right answer in 3")
    assert environment.act("a", r"\boxed{1}").team_reward == pytest.approx(0.25), (
        "its third; b's would be its second"
    )


def test_copies_are_independent() -> None:
    environment = started(max_turns=2)
    other = environment.copy()
    other.act("a", r"\boxed{0}")
    assert (environment.wrong, environment.speakers, other.wrong) == ((), (), ("0",))


@pytest.mark.parametrize("number", range(60))
def test_values_are_those_of_pythons_fractions(number: int) -> None:
    problem = ARITHMETIC_TASKS.instance(HARD, 1, number, "train")
    exact = " ".join(f"Fraction({part})" if part.isdigit() else part for part in problem.expression.split())
    assert eval(exact, {"Fraction": Fraction}) == problem.value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "1 / 0",
        "2 ** 9",
        "abs(1)",
        "x",
        "1 if 1 else 2",
        "(" * 150,
        "1j",
        "True",
        "'a'",
        "1, 2",
        "1 " * 150,
        "9" * 199 + "+",
    ],
)
def test_the_calculator_takes_arithmetic_only(text: str) -> None:
    assert calculate(text) is None


def test_the_calculator_is_exact() -> None:
    assert calculate("0.1 + 0.2") == Fraction(3, 10)
    assert calculate("-(2 + 3) * 4 / 8") == Fraction(-5, 2)
    assert spelled(Fraction(-5, 2)) == "-5 / 2"


def test_same_number_same_problem_and_splits_never_overlap() -> None:
    easy = Arithmetic()
    trained = {ARITHMETIC_TASKS.instance(easy, 5, number, "train").expression for number in range(2000)}
    held = {problem.expression for problem in ARITHMETIC_TASKS.held_out(easy)}
    assert trained and held and not trained & held
    assert len(trained | held) == 200, "10 x 10 numbers, plus and minus: all are asked"
    check_splits(ARITHMETIC_TASKS, easy)


def test_whole_results_unless_fractions_are_wanted() -> None:
    whole = HARD.model_copy(update={"fractions": False})
    assert all(
        ARITHMETIC_TASKS.instance(whole, 0, number, "train").value.denominator == 1 for number in range(50)
    )
    assert any(
        ARITHMETIC_TASKS.instance(HARD, 0, number, "train").value.denominator != 1 for number in range(50)
    )


def test_demonstrations_are_made_of_known_words_and_are_often_wrong() -> None:
    config = Arithmetic(max_turns=5)
    known = set(arithmetic_vocabulary(config))
    pairs = list(islice(arithmetic_demonstrations(config, 0), 2000))
    for seen, said in pairs:
        texts = [seen] if isinstance(seen, str) else [message["content"] for message in seen]
        assert set(" ".join([*texts, said]).split()) <= known
    assert {said.split()[0] for seen, said in pairs if not str(seen).startswith("Write")} == {BOX}
    talks = [seen for seen, _ in pairs if not isinstance(seen, str)]
    assert talks and {len(talk) for talk in talks} == {3, 5, 7, 9} and talks[0][2]["content"] == TRY_AGAIN
    assert list(islice(arithmetic_demonstrations(config, 0), 50)) == pairs[:50]


def test_a_demonstrated_conversation_is_rendered_as_play_renders_it() -> None:
    config = Arithmetic(max_turns=2)
    tokenizer = word_tokenizer(arithmetic_vocabulary(config))
    talk = (
        {"role": "user", "content": "What is 1 plus 1 ?"},
        {"role": "assistant", "content": r"\boxed{ 3 }"},
        {"role": "user", "content": TRY_AGAIN},
    )
    (conversation,) = encode_pairs([(talk, r"\boxed{ 2 }")], tokenizer)  # type: ignore[list-item]
    rendered = tokenizer.apply_chat_template(list(talk), add_generation_prompt=True, tokenize=True)[
        "input_ids"
    ]
    answer = tokenizer(r"\boxed{ 2 } <eos>", add_special_tokens=False)["input_ids"]
    assert conversation.token_ids == [*rendered, *answer]
    assert conversation.loss_mask == [False] * len(rendered) + [True] * len(answer)


def test_numbers_without_end_are_for_real_models() -> None:
    with pytest.raises(ModelError, match=r"lower environment\.largest"):
        arithmetic_vocabulary(HARD)


def test_any_roles_may_play() -> None:
    assert load_config("arithmetic").environment.type == "arithmetic"
    alone = {
        "team": {"roles": {"solver": {"policy": "p"}}},
        "policies": {"p": {}},
        "environment": {"type": "arithmetic", "max_turns": 5},
    }
    assert parse_config(alone).team.order == ("solver",)
