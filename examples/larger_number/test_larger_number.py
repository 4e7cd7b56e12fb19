"""larger_number: rewards by hand, splits."""

from examples.larger_number.larger_number import PAIRS, LargerNumber, LargerNumberGame, Pair


def test_only_the_larger_number_is_rewarded() -> None:
    game = LargerNumberGame(LargerNumber(right_reward=2.0), seed=0)
    for answer, reward in (("7", 2.0), ("3", 0.0), ("seven", 0.0)):
        game.start(Pair(3, 7), "by hand")
        assert game.observe("player") == "3 7"
        step = game.act("player", answer)
        assert (step.team_reward, step.success, step.done) == (reward, reward > 0, True)


def test_a_pair_is_in_one_split() -> None:
    config = LargerNumber()
    held_out = {pair.identity for pair in PAIRS.held_out(config)}
    game = LargerNumberGame(config, 0)
    for task in range(200):
        game.reset(task, "train")
        assert game.pair.identity not in held_out
