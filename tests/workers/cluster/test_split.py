"""Prompts are split over rollout workers in order, nothing lost."""

import pytest

from training_core.types import NoiseKey, Prompt


@pytest.mark.parametrize(
    ("prompts", "parts", "sizes"), [(7, 3, [3, 2, 2]), (2, 3, [1, 1, 0]), (6, 1, [6]), (0, 2, [0, 0])]
)
def test_parts_are_contiguous_and_even(prompts: int, parts: int, sizes: list[int]) -> None:
    from workers.cluster.remote_policy import split

    made = [Prompt([number], 1, NoiseKey(0, 0, 0, number, 0, 0)) for number in range(prompts)]
    done = split(made, parts)
    assert [len(part) for part in done] == sizes
    assert [prompt for part in done for prompt in part] == made
