"""Kuhn poker against its solution by hand: payoffs, turns, illegal answers, and the value of the game."""

from itertools import permutations, product

import pytest

from tests.training_core.llm.environments.kuhn_solver import CARDS, SEEN, exploitability, value
from training_core.llm.environments.kuhn_poker import KuhnPoker, KuhnPokerEnvironment, demonstrations

UNIFORM = dict.fromkeys((*SEEN[0], *SEEN[1]), (0.5, 0.5))
WORDS = {"p": {False: "check", True: "fold"}, "a": {False: "bet", True: "call"}}


def dealt(*cards: str) -> KuhnPokerEnvironment:
    environment = KuhnPokerEnvironment(KuhnPoker(), seed=0)
    for task in range(6):
        environment.reset(task, "eval")
        if environment.instance.cards == cards:
            return environment
    raise AssertionError(f"{cards} are not dealt")


def play(environment: KuhnPokerEnvironment, moves: str) -> dict[str, float]:
    """The rewards of a hand; p is the passive move, a the active one."""
    for number, move in enumerate(moves):
        role = ("first", "second")[number % 2]
        assert environment.observe(("second", "first")[number % 2]) is None
        step = environment.act(role, WORDS[move][moves[:number].endswith("a")])
        assert step.done == environment.done == (number == len(moves) - 1)
    return dict(step.rewards)


def equilibrium(alpha: float) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """Kuhn's equilibria, 0 <= alpha <= 1/3: probabilities to bet and to call (Wikipedia has them in words)."""
    active = {
        "jack": alpha, "jack check bet": 0.0, "queen": 0.0, "queen check bet": alpha + 1 / 3, "king": 3 * alpha,
        "king check bet": 1.0, "jack check": 1 / 3, "jack bet": 0.0, "queen check": 0.0, "queen bet": 1 / 3,
        "king check": 1.0, "king bet": 1.0,
    }  # fmt: skip
    first, second = ({seen: (1 - active[seen], active[seen]) for seen in SEEN[player]} for player in (0, 1))
    return first, second


@pytest.mark.parametrize(
    ("moves", "low", "high"),
    [("pp", -1, 1), ("ap", 1, 1), ("aa", -2, 2), ("pap", -1, -1), ("paa", -2, 2)],
)
def test_the_winner_gets_what_the_loser_pays(moves: str, low: float, high: float) -> None:
    for cards in permutations(CARDS, 2):
        environment = dealt(*cards)
        chips = high if CARDS.index(cards[0]) > CARDS.index(cards[1]) else low
        assert play(environment, moves) == {"first": chips, "second": -chips}
        assert environment.success and environment.role_success == {"first": chips > 0, "second": chips < 0}


@pytest.mark.parametrize("answer", ["", "call", "bet bet", "king", "<think>bet</think>"])
def test_an_answer_against_the_rules_loses_two_chips(answer: str) -> None:
    environment = dealt("king", "jack")
    step = environment.act("first", answer)
    assert dict(step.rewards) == {"first": -2.0, "second": 2.0} and step.done and not step.success
    environment = dealt("king", "jack")
    environment.act("first", "<think>strong</think> bet")
    step = environment.act("second", "check")
    assert dict(step.rewards) == {"first": 2.0, "second": -2.0} and not environment.success


def test_players_see_their_own_card_and_the_moves() -> None:
    environment = dealt("king", "jack")
    assert environment.observe("first") == "king"
    environment.act("first", "check")
    assert environment.observe("second") == "jack check"
    environment.act("second", "bet")
    assert environment.observe("first") == "king check bet"


def test_every_deal_is_evaluated_as_often() -> None:
    environment, deals = KuhnPokerEnvironment(KuhnPoker(), seed=3), []
    for task in range(12):
        environment.reset(task, "eval")
        deals.append(environment.instance.cards)
    assert sorted(deals) == sorted([*permutations(CARDS, 2)] * 2)


def test_demonstrations_have_every_situation_and_every_move() -> None:
    drawn = demonstrations(KuhnPoker(), 0)
    pairs = {next(drawn) for _ in range(4000)}
    expected = {
        (seen, WORDS[move][seen.endswith("bet")])
        for player in (0, 1)
        for seen in SEEN[player]
        for move in "pa"
    }
    assert expected <= pairs and {seen for seen, _ in pairs} == set(UNIFORM)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1 / 3])
def test_the_first_player_loses_an_eighteenth_of_a_chip(alpha: float) -> None:
    first, second = equilibrium(alpha)
    assert value(first, second) == pytest.approx(-1 / 18)
    assert exploitability(first, second) == pytest.approx(0.0, abs=1e-12)


def test_the_solver_agrees_with_the_environment() -> None:
    """The value of uniform play is the mean over all hands, weighed by their probability; its exploitability is known, 11/24."""
    total = 0.0
    for cards, moves in product(permutations(CARDS, 2), ("pp", "ap", "aa", "pap", "paa")):
        total += play(dealt(*cards), moves)["first"] * 0.5 ** len(moves) / 6
    assert value(UNIFORM, UNIFORM) == pytest.approx(total)
    assert exploitability(UNIFORM, UNIFORM) == pytest.approx(11 / 24)
