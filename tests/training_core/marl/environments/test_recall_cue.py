"""recall_cue: solved by whoever remembers, by nobody else."""

import numpy as np
from pydantic import TypeAdapter

from training_core.boards import Board
from training_core.marl.environments.config import RecallCue
from training_core.marl.environments.registry import make_environments


def test_the_cue_is_seen_once_and_asked_for_at_the_end() -> None:
    environment = make_environments(RecallCue(num_agents=3, num_cues=5, delay=4), 6)
    first = environment.reset(0).observations["agents"]
    assert first.shape == (6, 3, 6)
    assert (first[:, :, :5].sum(axis=2) == 1.0).all()
    assert not first[:, :, 5].any()
    cues = first[:, :, :5].argmax(axis=2)
    assert len(np.unique(cues)) == 5, "all cues are drawn"
    for step in range(1, 5):
        transition = environment.step({"agents": cues})
        seen = transition.view.observations["agents"]
        assert not seen[:, :, :5].any(), "nothing of the cue is seen after it"
        assert (seen[:, :, 5] == (step == 4)).all()
        assert not transition.rewards["agents"].any(), "choices before the end earn nothing"
        assert not transition.terminated.any()
    wrong = cues.copy()
    wrong[2, 1] = (cues[2, 1] + 1) % 5
    last = environment.step({"agents": wrong})
    expected = np.ones((6, 3))
    expected[2, 1] = 0.0
    assert last.rewards["agents"].tolist() == expected.tolist()
    assert last.terminated.all()
    assert not last.truncated.any()
    assert last.final is not None
    assert not last.final.observations["agents"].any()
    fresh = last.view.observations["agents"]
    assert (fresh[:, :, :5].sum(axis=2) == 1.0).all(), "the next episode shows its cues"
    assert not np.array_equal(fresh, first)


def test_the_seed_decides_and_a_delay_of_one_asks_at_once() -> None:
    environment = make_environments(RecallCue(delay=1), 4)
    first = environment.reset(3).observations["agents"]
    assert np.array_equal(first, make_environments(RecallCue(delay=1), 4).reset(3).observations["agents"])
    seen = environment.step({"agents": np.zeros((4, 2), dtype=np.int64)}).view.observations["agents"]
    assert (seen[:, :, -1] == 1.0).all()
    assert environment.spec.max_steps == 2


def test_the_board_says_each_agents_cue() -> None:
    environment = make_environments(RecallCue(delay=1), 2)
    cues = environment.reset(0).observations["agents"].argmax(axis=2)
    board = TypeAdapter(Board).validate_python(environment.board(1))
    assert [line.text for line in getattr(board, "lines")] == [  # noqa: B009
        f"cue {cue}, shown now" for cue in cues[1]
    ]
    environment.step({"agents": cues})
    assert "choose now" in str(environment.board(0))
    moved = environment.step({"agents": cues}, [1])
    assert str(moved.last_boards[1]).count(", over") == 2 and "shown now" in str(environment.board(1))
    environment.close()
