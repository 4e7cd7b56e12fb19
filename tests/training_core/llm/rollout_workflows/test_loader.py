"""The endless loader: every row once per pass, and the same rows after a restart."""

import pytest

from training_core.llm.rollout_workflows.inference_engine import RestartingLoader


def test_a_loader_begins_again_and_goes_on_where_it_was() -> None:
    loader = RestartingLoader(list(range(5)), 3, seed=1)
    seen = [next(loader) for _ in range(5)]
    flat = [row for batch in seen for row in batch]
    assert [sorted(flat[start : start + 5]) for start in (0, 5, 10)] == [list(range(5))] * 3
    assert flat[:5] != flat[5:10], "shuffled anew"
    assert loader.epoch == 3
    other = RestartingLoader(list(range(5)), 3, seed=1)
    next(other)
    third = RestartingLoader(list(range(5)), 3, seed=1)
    third.load_state_dict(other.state_dict())
    assert [next(third), next(third)] == seen[1:3]
    with pytest.raises(ValueError, match="no rows"):
        RestartingLoader([], 1)
