"""Bounded staleness by hand: how many tasks may begin, and which."""

import pytest

from training_core.config.rollout import Rollout
from training_core.llm.serving.admission import Admission, TaskQueue


@pytest.mark.parametrize(
    ("staleness", "version", "accepted", "running", "room"),
    [
        (0, 0, 0, 0, 4),  # the first batch may begin
        (0, 0, 0, 4, 0),  # and nothing else
        (0, 0, 4, 0, 0),  # nor after it, until it was learnt from
        (0, 1, 4, 0, 4),
        (1, 0, 4, 0, 4),  # one batch ahead: (1 + 0 + 1) * 4 - 4
        (1, 0, 3, 4, 1),  # (1 + 0 + 1) * 4 - 7
        (2, 3, 10, 5, 9),  # (2 + 3 + 1) * 4 - 15
        (4, 0, 0, 12, 3),  # fresh enough for 8, but at most 15 at a time
        (0, 0, 2, 6, -4),  # too many are running: a bound was lowered
    ],
)
def test_capacity_by_hand(staleness: int, version: int, accepted: int, running: int, room: int) -> None:
    tasks = Admission(staleness, batch=4, max_concurrent=15)
    tasks.accepted, tasks.running = accepted, set(range(running))
    assert tasks.room(version) == room


def admission(iterations: int = 10, **fields: int) -> TaskQueue:
    return TaskQueue(Rollout(tasks=4, **fields), iterations)


def test_without_staleness_each_iteration_learns_from_its_own_tasks() -> None:
    tasks = admission()
    for iteration in range(3):
        begun = tasks.begin(iteration)
        assert begun == list(range(4 * iteration, 4 * iteration + 4))
        assert tasks.begin(iteration) == []
        tasks.accept(begun)
        assert tasks.begin(iteration) == []
        tasks.learn(begun)


def test_staleness_one_allows_one_batch_ahead() -> None:
    tasks = admission(staleness=1)
    first = tasks.begin(0)
    tasks.accept(first)
    second = tasks.begin(0)
    assert second == [4, 5, 6, 7]
    tasks.learn(first)
    tasks.accept(second)
    assert tasks.begin(0) == []
    assert tasks.begin(1) == [8, 9, 10, 11]


def test_a_rejected_task_frees_its_place_for_the_next() -> None:
    tasks = admission()
    begun = tasks.begin(0)
    tasks.accept(begun[:3])
    tasks.reject(begun[3:])
    assert tasks.left(0) == 1
    assert tasks.begin(0) == [4]
    tasks.reject([0])  # accepted before, and too old by now
    assert tasks.accepted == 2
    tasks.accept([4])
    assert tasks.begin(0) == [5]


def test_a_small_wave_waits_while_others_play() -> None:
    tasks = admission(staleness=1, max_concurrent=4, wave=2)
    assert [tasks.begin(0), tasks.begin(0), tasks.begin(0)] == [[0, 1], [2, 3], []]
    tasks.accept([0])
    assert tasks.begin(0) == [], "one place is free: less than a wave, and others still play"
    tasks.accept([1, 2, 3])
    assert tasks.begin(0) == [4, 5]


def test_a_wave_has_tasks_of_one_iteration() -> None:
    tasks = admission(staleness=2, max_concurrent=12, wave=3)
    assert [tasks.begin(0) for _ in range(4)] == [[0, 1, 2], [3], [4, 5, 6], [7]]


def test_no_task_begins_beyond_the_last_iteration() -> None:
    tasks = admission(iterations=2, staleness=8, max_concurrent=100, wave=4)
    assert [tasks.begin(0) for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], []]
    tasks.reject([7])
    assert tasks.begin(0) == []
    tasks.accept([0, 1, 2, 3, 4, 5, 6])
    assert tasks.begin(0) == [8], "the last batch lacks one"


def test_the_interval_of_publications_counts_as_one_batch() -> None:
    tasks = admission(publish_every=2)
    for iteration in (0, 1):  # version 0 twice
        begun = tasks.begin(iteration)
        assert begun == list(range(4 * iteration, 4 * iteration + 4))
        tasks.accept(begun)
        tasks.learn(begun)
    assert tasks.left(1) == 0
    assert tasks.left(2) == 4


def test_begun_tasks_begin_again_after_a_restart() -> None:
    tasks = admission(staleness=2, max_concurrent=8, wave=4)
    first, second = tasks.begin(0), tasks.begin(0)
    tasks.accept(first)
    tasks.learn(first)
    tasks.accept(second[:2])
    state = tasks.state()
    assert state == {"tasks": 4, "accepted": 4, "next": 8, "again": [4, 5, 6, 7]}
    resumed = admission(staleness=2, max_concurrent=8, wave=4)
    resumed.restore(1, state | {"again": [5, 6]})
    assert [resumed.begin(1), resumed.begin(1)] == [[5, 6], [8, 9, 10, 11]]
    assert resumed.accepted == 4


def test_a_checkpoint_without_admission_continues_after_its_iterations() -> None:
    for state in (None, {"tasks": 6, "accepted": 18, "next": 18, "again": [1]}):
        tasks = admission()
        tasks.restore(3, state)
        assert tasks.begin(3) == [12, 13, 14, 15]


def test_without_a_bound_only_running_tasks_count() -> None:
    tasks = Admission(None, batch=1, max_concurrent=3)
    tasks.start([0, 1])
    assert tasks.room(0) == 1
    tasks.accept([0])
    tasks.reject([1])
    assert (tasks.room(0), tasks.accepted) == (3, 1)
