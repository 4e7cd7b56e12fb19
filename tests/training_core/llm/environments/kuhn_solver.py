"""Kuhn poker, solved by enumeration: values, best responses and exploitability of strategies. Independent of the environment's rules.

A strategy is, by what its player sees, the probability of each of the two allowed moves, passive (check, fold) and active (bet, call);
the rest is an answer against the rules, which costs two chips.
"""

from collections.abc import Mapping
from itertools import permutations, product
from pathlib import Path

Strategy = Mapping[str, tuple[float, float]]
CARDS = ("jack", "queen", "king")
SEEN = {
    0: [f"{card}{played}" for card in CARDS for played in ("", " check bet")],
    1: [f"{card}{played}" for card in CARDS for played in (" check", " bet")],
}
"""What each player may see when it moves."""


def value(first: Strategy, second: Strategy) -> float:
    """Expected chips of the first player in a hand."""
    return sum(_chips((first, second), cards, "") for cards in permutations(CARDS, 2)) / 6


def _chips(players: tuple[Strategy, Strategy], cards: tuple[str, ...], played: str) -> float:
    """`played` has a letter for a move: p for check and fold, a for bet and call."""
    if played in ("pp", "aa", "paa"):
        stake = 1 if played == "pp" else 2
        return stake if CARDS.index(cards[0]) > CARDS.index(cards[1]) else -stake
    if played in ("ap", "pap"):
        return 1.0 if played == "ap" else -1.0
    mover = len(played) % 2
    seen = " ".join([cards[mover], *({"p": "check", "a": "bet"}[move] for move in played)])
    passive, active = players[mover][seen]
    fouls = (1.0 - passive - active) * (2.0 if mover else -2.0)
    return (
        fouls + passive * _chips(players, cards, played + "p") + active * _chips(players, cards, played + "a")
    )


def best_replies(first: Strategy, second: Strategy) -> tuple[float, float]:
    """(most that a first player wins against `second`, most that a second player wins against `first`)."""
    pure = [
        [dict(zip(SEEN[player], moves, strict=True)) for moves in product(((1.0, 0.0), (0.0, 1.0)), repeat=6)]
        for player in (0, 1)
    ]
    return max(value(own, second) for own in pure[0]), max(-value(first, own) for own in pure[1])


def exploitability(first: Strategy, second: Strategy) -> float:
    """What a best reply wins on average over both chairs: 0 in an equilibrium."""
    return sum(best_replies(first, second)) / 2


def strategy_of(policy: Path | str, player: int) -> dict[str, tuple[float, float]]:
    """The strategy of a trained tiny model, exactly: probabilities of one word and the end of the answer, in every situation."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(policy), AutoTokenizer.from_pretrained(policy)

    def probabilities(ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)  # type: ignore[no-any-return]

    def says(seen: str, word: str) -> float:
        turns = [{"role": "user", "content": seen}]
        prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)[
            "input_ids"
        ]
        token = tokenizer.convert_tokens_to_ids(word)
        ends = probabilities([*prompt, token])[tokenizer.eos_token_id]
        return float(probabilities(prompt)[token] * ends)

    moves = {True: ("fold", "call"), False: ("check", "bet")}
    return {seen: tuple(says(seen, word) for word in moves[seen.endswith("bet")]) for seen in SEEN[player]}  # type: ignore[misc]
