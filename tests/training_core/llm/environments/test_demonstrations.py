"""The demonstrations: what a role sees is what it will see, and what is said is half right and often wrong."""

from collections import Counter
from itertools import islice

import pytest

from training_core.llm.environments.plan_path.demonstrations import NOISE, plan_path_demonstrations
from training_core.llm.environments.plan_path.game import PlanPath
from training_core.llm.environments.plan_path.wording import COMPASS, MOVES

CONFIG = PlanPath()
PAIRS = list(islice(plan_path_demonstrations(CONFIG, 0), 12000))


def test_roles_take_turns_and_speak_their_own_words() -> None:
    for place, (seen, said) in enumerate(PAIRS):
        assert seen.startswith("up ") if place % 2 else seen.startswith("goal ")
        assert set(said.split()) <= (set(MOVES) if place % 2 else set(COMPASS))
        assert 1 <= len(said.split()) <= CONFIG.moves_per_turn


def test_the_planner_knows_the_axis_but_not_the_way() -> None:
    said = Counter(said.split()[0] for seen, said in PAIRS[::2] if seen.split()[2:] == ["east"])
    total = sum(said.values())
    # NOISE of the words are any of four, the others east or west by a coin
    assert said["east"] / total == pytest.approx(0.5 - NOISE / 4, abs=0.06)
    assert said["west"] / total == pytest.approx(0.5 - NOISE / 4, abs=0.06)
    assert said["north"] / total == pytest.approx(NOISE / 4, abs=0.05)


def test_the_executor_steps_round_a_wall_without_going_back() -> None:
    """Whichever way north is taken to be, one of up and down is blocked here: often a step aside comes first."""
    said = Counter(
        said.split()[0]
        for seen, said in PAIRS[1::2]
        if "up wall down free left free right free" in seen and seen.split("plan ")[1].startswith("north")
    )
    total = sum(said.values())
    assert total > 30
    assert (said["left"] + said["right"]) / total > 0.4
    assert said["down"] / total > 0.08
    assert said["up"] / total < 0.2
