"""A channel on a real file: groups, deliveries, restarts, time-outs."""

from pathlib import Path
from typing import Any

import pytest

from tests.workers.rollout_buffer.test_rules import record
from workers.rollout_buffer.buffer import BufferFull, Channel, Store
from workers.rollout_buffer.rules import BufferLimits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


PAIRS = BufferLimits(group_size=2)


def make(tmp_path: Path, clock: Clock | None = None, limits: BufferLimits = PAIRS, **hooks: Any) -> Channel:
    return Channel("", Store(tmp_path / "records.sqlite"), limits, hooks, clock or Clock())


def write(channel: Channel, *records: tuple[str, float, str]) -> None:
    for instance, reward, uid in records:
        channel.write(record(instance, reward, uid))


def uids(records: list[dict[str, Any]]) -> list[str]:
    return [each["uid"] for each in records]


def test_a_restart_keeps_open_and_ready_groups_and_the_totals(tmp_path: Path) -> None:
    channel = make(tmp_path)
    write(channel, ("a", 1.0, "a1"), ("b", 1.0, "b1"), ("a", 0.0, "a2"))
    again = make(tmp_path)
    write(again, ("b", 0.0, "b2"))
    delivery = again.read(None)
    assert uids(delivery.records) == ["a1", "a2", "b1", "b2"]
    assert delivery.meta_info["finished_groups"] == ["a", "b"]
    assert again.stats()["total_written"] == 4
    assert make(tmp_path).read(None).records == []
    assert make(tmp_path).done_instances() == ["a", "b"]


def test_an_unacknowledged_delivery_is_repeated(tmp_path: Path) -> None:
    channel = make(tmp_path)
    write(channel, ("a", 1.0, "a1"), ("a", 0.0, "a2"))
    first = channel.read(0)
    write(channel, ("b", 1.0, "b1"), ("b", 0.0, "b2"))
    again = make(tmp_path)  # both processes died before the reader had it
    assert again.read(0) == first
    second = again.read(first.number)
    assert uids(second.records) == ["b1", "b2"] and second.number == first.number + 1
    assert again.read(second.number).records == []
    assert again.stats()["total_read"] == 4 and again.done_instances() == ["a", "b"]


def test_a_repeated_write_has_no_effect(tmp_path: Path) -> None:
    channel = make(tmp_path)
    write(channel, ("a", 1.0, "a1"), ("a", 1.0, "a1"), ("a", 0.0, "a2"))
    assert len(channel.read(None).records) == 2
    write(make(tmp_path), ("a", 1.0, "a1"))
    assert make(tmp_path).stats()["current_size"] == 0, "known even after it was handed over"


def fill(channel: Channel, instance: str, *rewards: float) -> None:
    for place, reward in enumerate(rewards):
        channel.write(record(instance, reward, f"{instance}-{place}-{channel.stats()['total_written']}"))


def instances(channel: Channel, most: int | None = None) -> list[str]:
    return list(channel.read(None, most).meta_info["finished_groups"])


def figures(channel: Channel) -> tuple[int, int, int, int]:
    """Records, open groups, ready groups, dropped groups."""
    stats = channel.stats()
    return stats["current_size"], stats["open_groups"], stats["ready_groups"], stats["groups_dropped"]


def test_a_complete_group_is_ready_and_the_next_record_opens_another(tmp_path: Path) -> None:
    channel = make(tmp_path)
    fill(channel, "a", 1.0, 0.0, 0.5)
    assert figures(channel) == (3, 1, 1, 0)
    assert [each["reward"] for each in channel.peek()] == [1.0, 0.0]


def test_a_complete_group_with_too_few_valid_records_is_dropped(tmp_path: Path) -> None:
    channel = make(tmp_path, limits=BufferLimits(group_size=4))
    fill(channel, "a", 1.0, -1.0, -2.0, 0.0)  # 2 of 4 are greater than -1; 0.7 are needed
    assert figures(channel) == (0, 0, 0, 1)
    fill(channel, "b", 1.0, -1.0, 0.0, 0.0)  # 3 of 4
    assert instances(channel) == ["b"]


def test_a_full_channel_completes_open_groups_and_accepts_others_after_a_read(tmp_path: Path) -> None:
    channel = make(tmp_path, limits=BufferLimits(group_size=2, max_records=1))
    fill(channel, "a", 1.0)
    with pytest.raises(BufferFull):
        fill(channel, "b", 1.0)
    fill(channel, "a", 0.0)
    channel.read(None)
    fill(channel, "b", 1.0)
    assert channel.stats()["current_size"] == 1


def test_groups_are_taken_oldest_first_one_per_instance(tmp_path: Path) -> None:
    channel = make(tmp_path)
    for instance in ("a", "b", "a", "c"):
        fill(channel, instance, 1.0, 0.0)
    assert instances(channel) == ["a", "b"]
    assert instances(channel, 1) == ["a"], "at least one"
    assert instances(channel, 10) == ["c"]


def test_a_plugins_rule_replaces_the_default(tmp_path: Path) -> None:
    channel = make(tmp_path, is_valid_group=lambda instance, group: (instance == "good", len(group) == 2))
    fill(channel, "bad", 1.0, 1.0)
    fill(channel, "good", 1.0, 1.0)
    assert figures(channel)[3] == 1 and instances(channel) == ["good"]


def test_groups_time_out_by_the_clock_and_are_kept_with_enough_records(tmp_path: Path) -> None:
    clock = Clock()
    channel = make(tmp_path, clock, BufferLimits(group_size=4, timeout=300.0))
    fill(channel, "enough", 1.0, 0.0, 0.5)  # 3 of 4 >= 0.7
    fill(channel, "few", 1.0)
    clock.now = 200.0
    fill(channel, "fresh", 1.0)
    clock.now = 300.0
    assert figures(channel) == (5, 3, 0, 0)
    clock.now = 300.5
    delivery = channel.read(None)
    assert delivery.meta_info["finished_groups"] == ["enough"]
    assert sum(each["reward"] for each in delivery.records) == pytest.approx(0.0)
    assert channel.stats()["groups_timed_out"] == 2 and figures(channel) == (1, 1, 0, 1)
    assert channel.done_instances() == ["enough"], "what was dropped is not done"


def test_deliveries_have_raw_rewards_and_no_invalid_records(tmp_path: Path) -> None:
    channel = make(tmp_path, limits=BufferLimits(group_size=4))
    fill(channel, "a", 1.0, 0.0, -1.0, 0.0)
    delivery = channel.read(None)
    assert [each["raw_reward"] for each in delivery.records] == [1.0, 0.0, 0.0]
    assert sum(each["reward"] for each in delivery.records) == pytest.approx(0.0)
    assert delivery.meta_info["total_samples"] == 4
    assert delivery.meta_info["avg_reward"] == pytest.approx(1 / 3)


def test_a_failing_hook_loses_no_record(tmp_path: Path) -> None:
    def breaks(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
        raise RuntimeError("a stranger's bug")

    channel = make(tmp_path, normalize_group_data=breaks)
    write(channel, ("a", 1.0, "a1"), ("a", 0.0, "a2"))
    with pytest.raises(RuntimeError, match="a stranger's bug"):
        channel.read(None)
    channel.configure(BufferLimits(group_size=2), {})
    assert uids(channel.read(None).records) == ["a1", "a2"]


def test_a_new_rollout_clears_finished_groups_and_keeps_records(tmp_path: Path) -> None:
    channel = make(tmp_path)
    write(channel, ("a", 1.0, "a1"), ("a", 0.0, "a2"), ("b", 0.0, "b1"))
    channel.read(None)
    channel.restart(empty=False)
    assert channel.done_instances() == [] and channel.begun() == {"b": 1}
    channel.restart(empty=True)
    assert channel.stats()["current_size"] == 0


def test_redelivered_groups_are_not_generated_again(tmp_path: Path) -> None:
    """It knew of the first delivery when its checkpoint was written, and had the second one when it died."""
    channel = make(tmp_path)
    write(channel, ("a", 1.0, "a1"), ("a", 0.0, "a2"))
    first = channel.read(0).number
    write(channel, ("b", 1.0, "b1"), ("b", 0.0, "b2"))
    second = channel.read(first)
    channel.restart(empty=False, acknowledged=first)
    assert channel.done_instances() == ["b"], "a is in the reader's own list"
    assert channel.read(first) == second
    channel.restart(empty=False, acknowledged=second.number)
    assert channel.done_instances() == [] and channel.read(second.number).records == []


def test_a_reader_without_a_delivery_number_skips_nothing_twice(tmp_path: Path) -> None:
    channel = make(tmp_path)
    write(channel, ("a", 1.0, "a1"), ("a", 0.0, "a2"))
    channel.read(0)
    channel.restart(empty=False)
    assert channel.done_instances() == []
