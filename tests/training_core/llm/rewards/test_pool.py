"""Reward functions in real processes: sync and async, hanging, crashing, raising."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from training_core.config.rewards import REWARD_CONFIGS, CustomReward, MathReward
from training_core.errors import EnvironmentFailure
from training_core.llm.rewards import pool as pool_module
from training_core.llm.rewards.pool import REWARDS, RewardPool, RewardResult, reward_pool

FUNCTIONS = "tests.training_core.llm.rewards.reward_functions"


@contextmanager
def judged_by(name: str, **settings: Any) -> Iterator[RewardPool]:
    pool = RewardPool(CustomReward(path=f"{FUNCTIONS}:{name}", **{"processes": 1, "retries": 0} | settings))
    try:
        yield pool
    finally:
        pool.close()


def request(completions: str, **data: Any) -> dict[str, Any]:
    return {"prompt": "?", "completions": completions, "prompt_ids": [], "completion_ids": [], **data}


def test_every_type_of_reward_is_registered() -> None:
    assert set(REWARDS) == set(REWARD_CONFIGS) == {"math", "custom", "judge"}


def test_functions_coroutines_and_objects_are_called_with_the_data() -> None:
    with judged_by("length") as pool:
        assert pool.score(request("abcde", label="x")) == RewardResult(0.5)
    with judged_by("later") as pool:
        assert [pool.score(request(said, label="yes")).reward for said in ("yes", "no")] == [1.0, 0.0]
    with judged_by("in_one_loop") as pool:
        assert [pool.score(request("")).reward for _ in range(2)] == [1.0, 1.0]
    with judged_by("Scaled", args={"factor": 2.0}) as pool:
        assert [pool.score(request("")).reward for _ in range(3)] == [2.0, 4.0, 6.0]


def test_arguments_are_not_in_the_list_of_processes() -> None:
    with judged_by("pid", args={"key": "s3cr3t"}) as pool:
        command = Path(f"/proc/{pool.score(request('')).reward:.0f}/cmdline").read_text()
    assert FUNCTIONS in command and "s3cr3t" not in command


def test_one_that_hangs_is_ended_earns_nothing_and_leaves_the_others_alone() -> None:
    with judged_by("hangs", timeout=3.0, retries=3) as pool:
        assert pool.score(request("quick")) == RewardResult(1.0)
        assert pool.score(request("hang")) == RewardResult(0.0, timed_out=True)
        assert pool.score(request("quick")) == RewardResult(1.0), "by a new process"


def test_one_that_crashes_is_tried_again_and_then_fails_the_episode() -> None:
    with judged_by("crashes", retries=2) as pool:
        with pytest.raises(EnvironmentFailure, match=r"its process died \(.*\) \(3 tries\)"):
            pool.score(request("crash"))
        assert pool.score(request("fine")) == RewardResult(1.0)


def test_a_crash_that_does_not_come_again_costs_nothing(tmp_path: Path) -> None:
    with judged_by("works_the_second_time", retries=1) as pool:
        assert pool.score(request("", folder=str(tmp_path))) == RewardResult(0.5)


@pytest.mark.parametrize(
    ("name", "said"),
    [("raises", "ValueError: no such unit"), ("nothing_of_the_kind", "has no 'nothing_of_the_kind'")],
)
def test_what_a_function_raises_is_told(name: str, said: str) -> None:
    with judged_by(name) as pool, pytest.raises(EnvironmentFailure, match=said):
        pool.score(request(""))


def test_a_result_must_be_a_number_and_prints_do_not_interfere() -> None:
    with judged_by("says_text") as pool:
        assert pool.score(request("number")).reward == 1.0
        with pytest.raises(EnvironmentFailure, match="a reward must be a number, not str"):
            pool.score(request("text"))


def test_a_dict_is_a_reward_with_parts() -> None:
    with judged_by("in_parts") as pool:
        assert pool.score(request("north")) == RewardResult(1.5, parts={"right": 1.0, "short": 0.5})
        assert pool.score(request("n/a")) == RewardResult(None)
        with pytest.raises(EnvironmentFailure, match="needs the key 'reward'; it has \\['right'\\]"):
            pool.score(request("wrong"))
    with judged_by("each_in_parts", scores="group") as pool:
        results = pool.score_group(request("") | {"completions": ["a", "bb"], "completion_ids": [[], []]})
        assert results == [RewardResult(1.0, parts={"length": 1.0}), RewardResult(2.0, parts={"length": 2.0})]


def test_none_is_no_reward_and_is_not_asked_again() -> None:
    with judged_by("AppliesToNothing", retries=2) as pool:
        assert pool.score(request("n/a")) == RewardResult(None)


def test_a_group_is_scored_in_one_call() -> None:
    group = {"completions": ["1", "boom", "5"], "completion_ids": [[1], [2], [3, 4]]}
    with judged_by("above_mean", scores="group") as pool:
        assert [result.reward for result in pool.score_group(group)] == [-1.99, None, 2.02]
    with (
        judged_by("one_for_all", scores="group") as pool,
        pytest.raises(EnvironmentFailure, match="must be a list, not float"),
    ):
        pool.score_group(group)
    with judged_by("two", scores="group") as pool, pytest.raises(EnvironmentFailure, match="2 results for 3"):
        pool.score_group(group)


def test_judgements_are_spread_over_processes_of_their_own() -> None:
    with judged_by("pid", processes=2) as pool, ThreadPoolExecutor(4) as threads:
        seen = {judgement.reward for judgement in threads.map(pool.score, [request("")] * 20)}
    assert 1 <= len(seen) <= 2 and float(os.getpid()) not in seen
    for pid in seen:  # the pool is closed
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.extended
def test_imports_and_making_do_not_count_against_the_judgement() -> None:
    with judged_by("SlowToMake", timeout=3.0) as pool:
        assert pool.score(request("first")) == RewardResult(1.0)
        assert pool.score(request("hang")) == RewardResult(0.0, timed_out=True)
        assert pool.score(request("next")) == RewardResult(1.0), "by a new process, which had to be made, too"


def test_a_judgement_in_a_new_process_has_no_more_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_STARTUP", 600.0)  # which the judgement must not get
    with judged_by("hangs", timeout=0.5) as pool:
        assert [pool.score(request("hang")).timed_out for _ in range(4)] == [True] * 4


def test_a_process_that_is_never_ready_fails_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_STARTUP", 0.05)
    with (
        judged_by("SlowToMake", retries=1) as pool,
        pytest.raises(EnvironmentFailure, match=r"not ready after 0.05 s\) \(2 tries\)"),
    ):
        pool.score(request("first"))


def test_memory_of_a_process_is_limited_where_the_config_says_so() -> None:
    with judged_by("greedy", memory_mib=1024) as pool:
        with pytest.raises(EnvironmentFailure, match="MemoryError"):
            pool.score(request("2000"))
        assert pool.score(request("10")) == RewardResult(1.0)


def test_hostile_answers_are_refused_without_losing_a_process() -> None:
    pool = RewardPool(MathReward(processes=2, timeout=60.0))
    try:
        with ThreadPoolExecutor(4) as threads:
            towers = [
                request(rf"\boxed{{9^{{9^{{9^{{{number}}}}}}}}}", label="17") for number in range(2, 18)
            ]
            assert set(threads.map(pool.score, towers)) == {RewardResult(0.0)}
    finally:
        pool.close()


def test_the_math_rule_judges_by_value_and_by_algebra() -> None:
    pool = reward_pool(MathReward(processes=1))
    assert pool is reward_pool(MathReward(processes=1)), "environments of one process share it"
    cases = [
        (r"so \boxed{\frac{1}{2}}", "0.5", 1.0), ("the answer is 7", "7", 1.0), (r"\boxed{6}", "7", 0.0), ("hm", "7", 0.0),
        (r"\boxed{(x+1)^2}", "x^2+2x+1", 1.0), (r"\boxed{72}", "48+24=72\n#### 72", 1.0), (r"\boxed{2\pi}", r"3\pi", 0.0),
    ]  # fmt: skip
    for said, label, reward in cases:
        assert pool.score(request(said, label=label)).reward == reward, (said, label)
    strict = reward_pool(MathReward(processes=1, strict=True))
    assert strict.score(request("the answer is 7", label=7)).reward == 0.0
    assert strict.score(request("#### 7", label=7)).reward == 1.0
