"""The coding environment: a program and tests for it."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection
from training_core.config.effects import Effects, both, gives_tasks, needs, where


class Coding(EnvironmentSection):
    """A tester writes tests for a task and a coder writes the program; both see the test results and try again."""

    roles: ClassVar[tuple[str, ...]] = ("tester", "coder")
    sandboxed: ClassVar[bool] = True
    file_fields: ClassVar[tuple[str, ...]] = ("problems",)
    task_fields: ClassVar[tuple[str, ...]] = ("problems",)
    play_fields: ClassVar[tuple[str, ...]] = (
        "hidden_tests",
        "max_turns",
        "tests_per_turn",
        "test_seconds",
        "memory_mib",
    )
    local_reward_fields: ClassVar[tuple[str, ...]] = ("pass_reward", "test_reward", "malformed_reward")
    team_reward_fields: ClassVar[tuple[str, ...]] = ("solved_reward", "fail_reward")
    effects: ClassVar[Effects] = needs("steps largest", both(where("problems", ""), gives_tasks))
    type: Literal["coding"] = "coding"
    """Programs against tests, run in a sandbox."""
    problems: str = ""
    """JSONL file of problems, below TROUPE_HOME/data on the worker's machine; empty generates small problems from the seed."""
    steps: int = Field(2, ge=1, le=4)
    """Operations that a generated program must chain."""
    largest: int = Field(5, ge=2, le=99)
    """Largest number in a generated task and largest input of its tests."""
    hidden_tests: int = Field(4, ge=1, le=64)
    """Hidden tests per generated task; for problems from a file, at most this many per problem."""
    max_turns: int = Field(2, ge=1, le=32)
    """Turns of the whole team before the episode ends."""
    tests_per_turn: int = Field(2, ge=1, le=16)
    """Maximum number of tests that the tester writes in one turn."""
    pass_reward: float = 1.0
    """Local reward of the coder times the share of hidden tests that its program passes."""
    test_reward: float = 1.0
    """Local reward of the tester times the share of its tests that the known solution passes."""
    malformed_reward: float = -0.10
    """Local reward for an answer that is not a program or contains no test."""
    solved_reward: float = 1.0
    """Team reward when the program passes every hidden test at the end."""
    fail_reward: float = 0.0
    """Team reward when the program does not pass every hidden test at the end (usually zero or negative)."""
    test_seconds: float = Field(1.0, gt=0.0, le=60.0)
    """CPU time limit of a program on one test in seconds; the wall time limit is five times as long."""
    memory_mib: int = Field(256, ge=64, le=16384)
    """Memory limit of a program in MiB, including the interpreter."""
