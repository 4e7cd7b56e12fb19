"""Parts of prompts for rollout workers, in order, nothing lost; a lock that travels."""

import pickle
import threading

import pytest

from training_core.types import NoiseKey, Prompt


@pytest.mark.parametrize(
    ("prompts", "parts", "sizes"), [(7, 3, [3, 2, 2]), (2, 3, [1, 1, 0]), (6, 1, [6]), (0, 2, [0, 0])]
)
def test_parts_are_contiguous_and_even(prompts: int, parts: int, sizes: list[int]) -> None:
    from workers.actors.remote_policy import split

    made = [Prompt([number], 1, NoiseKey(0, 0, 0, number, 0, 0)) for number in range(prompts)]
    done = split(made, parts)
    assert [len(part) for part in done] == sizes
    assert [prompt for part in done for prompt in part] == made


def test_a_mutex_is_unlocked_after_unpickling_and_excludes_others() -> None:
    from workers.actors.members import Mutex  # imports Ray, which the cluster of other tests does first

    mutex = Mutex()
    with mutex:
        copy = pickle.loads(pickle.dumps(mutex))
    order = []
    with copy:
        thread = threading.Thread(target=lambda: (copy.__enter__(), order.append("other")))  # type: ignore[func-returns-value]
        thread.start()
        order.append("holder")
    thread.join()
    assert order == ["holder", "other"]
