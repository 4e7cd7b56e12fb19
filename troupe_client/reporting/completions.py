"""Transcripts from TRL: with `log_completions=True`, its trainers write the completions of a step to a file.

The file is written after the callbacks have seen the values of the step, so it is read at the next event of the trainer.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from troupe_client.reporting.client import ClientRun

_REWARD = re.compile(r"(?:eval_)?rewards/(.+)/mean")
"""The mean of a reward function among the values of a step."""
Row = Mapping[str, Any]


class Completions:
    """The file of the last logged step of a trainer."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._before = 0
        self._step = 0
        self._kind = "train"
        self._weights: dict[str, float] = {}
        self._reported = ""

    def expect(self, args: Any, step: int, logs: Mapping[str, Any]) -> None:
        """Note that the trainer has logged values and is about to write its file."""
        names = [match[1] for match in map(_REWARD.fullmatch, logs) if match]
        if not names or not getattr(args, "log_completions", False):
            return
        self._file = Path(args.output_dir, "completions", f"completions_{step:05d}.parquet")
        self._before = _written(self._file)
        self._step, self._kind = step, "eval" if any(name.startswith("eval_") for name in logs) else "train"
        self._weights = dict(zip(names, args.reward_weights or [1.0] * len(names), strict=False))

    def report(self, run: ClientRun) -> None:
        """Report an episode for each completion of the file, if it has been written, unless they are those of the step before."""
        file, self._file = self._file, None
        if file is None or _written(file) == self._before:
            return
        import pyarrow.parquet

        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(file).to_pylist()
        same = sha256(repr([{**row, "step": 0} for row in rows]).encode()).hexdigest()
        if same == self._reported:
            return
        self._reported = same
        for row in rows:
            rewards = {name: value for name in self._weights if (value := _number(row.get(name))) is not None}
            total = sum(self._weights[name] * value for name, value in rewards.items())
            task = sha256(repr(row["prompt"]).encode()).hexdigest()[:12]
            turns = _turns(row, total)
            run.log_episode(turns=turns, step=self._step, kind=self._kind, task=task)


def _turns(row: Row, reward: float) -> list[dict[str, Any]]:
    """Return a turn for each answer of the completion; the last one has reward and advantage."""
    prompt, completion = _messages(row["prompt"], "user"), _messages(row["completion"], "assistant")
    messages = [*prompt, *completion]
    answers = [n for n in range(len(prompt), len(messages)) if messages[n]["role"] == "assistant"]
    turns: list[dict[str, Any]] = [
        {"messages": messages[:n], "response": messages[n]["content"]} for n in answers
    ]
    if turns:
        turns[-1] |= {"reward": reward, "advantage": row.get("advantage")}
    return turns


def _messages(text: str | Sequence[Row], role: str) -> Sequence[Row]:
    return [{"role": role, "content": text}] if isinstance(text, str) else text


def _number(value: Any) -> float | None:
    """A finite number; None for the NaN and None of a reward function that does not judge a completion."""
    return value if isinstance(value, int | float) and isfinite(value) else None


def _written(file: Path) -> int:
    """When a file was written; 0 if there is none."""
    return file.stat().st_mtime_ns if file.exists() else 0
