"""A demonstration run, made of realistic events that go through ingest as a driver's would.

`python -m tests.end_to_end.seed` fills the database that DATABASE_URL names, for looking at pages by hand.
"""

import json
import math
import random
from collections.abc import Iterable, Iterator
from typing import Any

from troupe_client.reporting.media import Histogram, Image, Table, Text
from workers.provenance.repository import packed_diff
from workers.telemetry.faults import Fault

Event = dict[str, Any]
ROLES = ("planner", "executor")
WORDS = ("right", "down", "left", "up")
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
START = 1_760_000_000.0
HOSTILE = "<script>window.hacked = 1</script> javascript:alert(1) <img src=x onerror=window.hacked=1>"


class Story:
    """Events of one attempt of a run, numbered as by a driver.

    Equal attempts and seeds draw equal episodes, whatever the run's random id is: a test sees the same data each time.
    """

    def __init__(self, run: str, attempt: int = 1, seed: int = 0, start: float = START) -> None:
        self.run, self.attempt, self.now = run, attempt, start
        self.draw = random.Random(f"{attempt}-{seed}")
        self._seq = 0

    def event(self, type_: str, **fields: Any) -> Event:
        """One event, half a second after the last."""
        self._seq += 1
        self.now += 0.02
        head = {
            "run": self.run, "attempt": self.attempt, "producer": f"seed-{self.attempt}", "seq": self._seq,
        }  # fmt: skip
        return {"type": type_, **head, "time": self.now, **fields}

    def opening(self) -> Iterator[Event]:
        """The driver's first words."""
        base = {
            "name": "var/models/tiny", "model": "tiny", "architecture": "LlamaForCausalLM", "parameters": 221_696,
            "vocabulary": 28, "demonstrations": 25_600, "demonstration_noise": 0.35, "loss": 0.7812, "steps": 400,
        }  # fmt: skip
        facts = {
            "base_models": dict.fromkeys(ROLES, base),
            "packages": {"torch": "2.13.0", "transformers": "5.0.0"},
            "provenance": self.provenance(),
        }
        yield self.event("status", state="running", iteration=0, message="", facts=facts)
        yield self.event("log", level="info", source="driver", message=f"attempt {self.attempt} starts")
        yield self.event(
            "log", level="debug", source="coordinator", message="2 environment workers, 2 policies, colocated"
        )

    def provenance(self) -> dict[str, Any]:
        """Code and machine as a driver reports them: a repository with a change, a package, a data file."""
        diff = "diff --git a/worlds.py b/worlds.py\n--- a/worlds.py\n+++ b/worlds.py\n@@ -1 +1 @@\n-boats = 1\n+boats = 3\n"
        repository = {
            "name": "ourlab", "folder": "/home/ada/ourlab", "commit": "3f1c" * 10, "branch": "main", "changed": ["worlds.py"],
            "untracked": ["notes.md"], "diff": packed_diff(diff)[0], "diff_bytes": len(diff), "diff_sha256": "d" * 64,
        }  # fmt: skip
        machine = {
            "host": "node-1", "system": "Linux", "processor": "EPYC", "cores": 2, "memory": 2**34, "python": "3.11.7",
        }  # fmt: skip
        return {
            "command": "python -m workers.run config.toml", "machine": machine, "repositories": [repository],
            "installed": {"numpy": "2.4.0", "torch": "2.13.0"},
            "code": [{"field": "environment.path", "path": "ourlab.worlds:Boats", "sha256": "c" * 64, "files": 2}],
            "data": [{"field": "environment.problems", "path": "tasks.jsonl", "bytes": 5000, "sha256": "e" * 64}],
        }  # fmt: skip

    def iterations(self, first: int, last: int, whole: int = 2, evaluate: int = 10) -> Iterator[Event]:
        """Iterations first … last - 1, `whole` transcripts each; an evaluation before every tenth."""
        for iteration in range(first, last):
            if iteration % evaluate == 0:
                yield from self.evaluation(iteration)
            self.now += 0.9
            yield self.event("metrics", step=iteration + 1, values=self.numbers(iteration + 1))
            for index in range(whole):
                yield from self.training_episode(iteration + 1, index)
            yield self.event("status", state="running", iteration=iteration + 1, message="")
            if (iteration + 1) % 20 == 0:
                yield self.checkpoint(iteration + 1)

    def media(self, step: int) -> Iterator[Event]:
        """A value of each kind, and a second image."""
        pixels = Image([[0, 255], [255, 0]], caption="a checkerboard").document()
        yield self.event("media", step=step, name="sample", values=[pixels, pixels])
        values = {
            "weights": Histogram(counts=[1, step, 2], edges=[-1, 0, 1, 2]),
            "answers": Table([{"question": f"{n} + 1?", "answer": n + 1 + step} for n in range(30)]),
            "note": Text(f"Said at {step}: {HOSTILE}"),
        }
        for name, value in values.items():
            yield self.event("media", step=step, name=name, values=[value.document()])

    def skill(self, step: int) -> float:
        """Success that rises from 0.3 to 0.93."""
        return 0.3 + 0.63 / (1 + math.exp(-(step - 30) / 9))

    def evaluation(self, step: int) -> Iterator[Event]:
        """Greedy and sampled play of the same tasks, two probes of each."""
        greedy, sampled = min(0.97, self.skill(step) + 0.12), self.skill(step)
        values = {
            "eval/success": greedy, "eval/return": 2 * greedy - 0.2, "eval/length": 4 - 2 * greedy, "eval/failed": 0.0,
            "eval_sampled/success": sampled, "eval_sampled/return": 2 * sampled - 0.3,
        }  # fmt: skip
        yield self.event("metrics", step=step, values=values)
        for kind, share in (("eval", greedy), ("eval_sampled", sampled)):
            for index in range(2):
                yield self.episode(
                    step, index, kind, self.draw.random() < share, f"held-out/{index}", probe=True
                )

    def numbers(self, step: int) -> dict[str, Any]:
        """One iteration's metrics."""
        noise, skill = self.draw.gauss, self.skill(step)
        values: dict[str, Any] = {
            "train/return": 2 * skill - 0.3 + noise(0, 0.06), "train/success": skill + noise(0, 0.03),
            "rollout/tokens_per_second": 8000 + noise(0, 300), "rollout/episodes_per_second": 48 + noise(0, 2),
            "rollout/staleness": 0.0, "rollout/truncated": max(0.0, 0.02 + noise(0, 0.01)), "rollout/failed": 0.0,
            "time/rollout": 0.5 + noise(0, 0.03), "time/update": 0.35 + noise(0, 0.02), "time/sync": 0.01,
            "progress/episodes": 48.0 * step, "progress/tokens": 9300.0 * step, "system/local/cpu_percent": 93.0 + noise(0, 2),
        }  # fmt: skip
        for place, role in enumerate(ROLES):
            values[f"train/{role}/reward"] = skill * (0.8 + 0.3 * place) - 0.2 + noise(0, 0.05)
            values[f"policy/{role}/entropy"] = (
                1.2 * math.exp(-step / (45 + 12 * place)) + 0.12 + abs(noise(0, 0.02))
            )
            values[f"policy/{role}/kl"] = 0.14 * (1 - math.exp(-step / 30)) * (1 + 0.3 * place) + abs(
                noise(0, 0.004)
            )
            values[f"policy/{role}/loss"] = noise(0, 0.02)
            values[f"policy/{role}/grad_norm"] = "NaN" if (step, place) == (17, 0) else abs(noise(0.8, 0.2))
            values[f"policy/{role}/lr"] = 1e-4 + 9e-4 * 0.5 * (1 + math.cos(math.pi * step / 110))
            values[f"groups/{role}/zero_variance"] = min(0.95, 0.1 + 0.5 * skill + noise(0, 0.03))
            values[f"groups/{role}/too_easy"] = max(0.0, 0.6 * skill - 0.1 + noise(0, 0.02))
        return values

    def training_episode(self, step: int, index: int) -> Iterator[Event]:
        """An episode, and what the update learnt about it."""
        task = f"train/{step}-{index}"
        if step == 12 and index == 0:
            yield self.episode(
                step, index, "train", False, task, error="RuntimeError: the grid has no way out"
            )
            return
        episode = self.episode(step, index, "train", self.draw.random() < self.skill(step), task)
        yield episode
        yield self.annotation(episode)

    def annotation(self, episode: Event) -> Event:
        """Group-relative advantages, ratios and entropies near what an update computes."""
        turns = []
        for place, turn in enumerate(episode["turns"]):
            rewards = [each["reward"] for each in turn["candidates"]]
            mean = sum(rewards) / len(rewards)
            std = math.sqrt(sum((each - mean) ** 2 for each in rewards) / (len(rewards) - 1))
            per_token = [
                [round(1 + self.draw.gauss(0, 0.05), 4) for _ in each["token_ids"]]
                for each in turn["candidates"]
            ]
            advantages = [(each - mean) / (std + 1e-6) if std else 0.0 for each in rewards]
            entropies = [[round(abs(each - 1) * 9, 4) for each in row] for row in per_token]
            turns.append(
                {"turn": place, "advantages": advantages, "ratios": per_token, "entropies": entropies}
            )
        return self.event("episode_annotation", episode=episode["episode"], turns=turns, stages={})

    def episode(
        self, step: int, index: int, kind: str, success: bool, task: str, probe: bool = False, error: str = ""
    ) -> Event:
        """One task played to its end on a 5 x 5 grid."""
        started, count = self.now, 8 if kind == "train" else 1
        grid = Grid(random.Random(task))
        turns, total, rewards = [], 0.0, dict.fromkeys(ROLES, 0.0)
        for round_ in range(2 if error else 4):
            for role in ROLES:
                turn = self._turn(grid, role, round_, count, step)
                turns.append(turn)
                reward = turn["candidates"][turn["executed"]]["reward"]
                total, rewards[role] = total + reward, rewards[role] + reward
            if grid.walk(2, toward=success):
                break
        self.now += 0.2
        success = grid.agent == grid.goal
        outcome = f"reached the goal in {round_ + 1} turns" if success else "turns used up"
        outcome = f"failed: {error}" if error else outcome
        return self.event(
            "episode", episode=f"{self.attempt}-{step}-{kind}-{index}", iteration=step, kind=kind, probe=probe, task=task,
            title=grid.title, outcome=outcome, success=success and not error, failed=bool(error), error=error,
            truncated=False, episode_return=round(total, 4), rewards=rewards, versions=dict.fromkeys(ROLES, step),
            tokens=sum(len(each["token_ids"]) for turn in turns for each in turn["candidates"]),
            started=started, ended=self.now, turns=turns, final_board=grid.board(),
        )  # fmt: skip

    def _turn(self, grid: "Grid", role: str, round_: int, count: int, step: int) -> Event:
        saw = (
            f"goal {grid.way()}"
            if role == "planner"
            else f"blocked {grid.blocked()} ; last none ; plan {grid.way()}"
        )
        candidates = [self._candidate(role, step) for _ in range(count)]
        best = max(range(count), key=lambda place: candidates[place]["reward"])
        messages = [{"role": "user", "content": saw}]
        return {
            "index": round_, "role": role, "policy": role, "messages": messages, "prompt_ids": list(range(12)),
            "candidates": candidates, "executed": best, "board": grid.board(),
        }  # fmt: skip

    def _candidate(self, role: str, step: int) -> Event:
        words = [self.draw.choice(WORDS) for _ in range(self.draw.randint(1, 3))]
        tokens = [*words, "<end>"]
        local = round(0.0 if role == "planner" else self.draw.choice((-0.1, 0.24, 0.49)), 2)
        team = round(self.draw.choice((0.0, 0.0, 1.0, 1.5)), 2)
        return {
            "text": " ".join(words), "token_ids": [WORDS.index(word) + 3 for word in words] + [1], "tokens": tokens,
            "logprobs": [round(-abs(self.draw.gauss(0, 0.6)), 4) for _ in tokens], "versions": [step - 1] * len(tokens),
            "stop_reason": "stop", "local_reward": local, "team_reward": team, "reward": local + team,
        }  # fmt: skip

    def checkpoint(self, step: int) -> Event:
        """A checkpoint; the later, the better."""
        return self.event(
            "checkpoint", iteration=step, path=f"checkpoints/{step:06d}", bytes=5_300_000 + step,
            metrics={"eval/success": self.skill(step) + 0.05}, best=True,
        )  # fmt: skip

    def ending(self, iteration: int, state: str = "finished", message: str = "") -> Iterator[Event]:
        """The driver's last words."""
        yield self.event(
            "log", level="info", source="driver", message=f"{state} after {iteration} iterations"
        )
        yield self.event("status", state=state, iteration=iteration, message=message)

    def failing(self, iteration: int, cause: str, remedy: str, traceback: str) -> Iterator[Event]:
        """The end of a driver that raised."""
        yield self.event("log", level="error", source="workers.driver.attempt", message=traceback)
        yield self.event(
            "log", level="info", source="driver", message=f"failed: {Fault(cause, remedy).printed}"
        )
        yield self.event("status", state="failed", iteration=iteration, message=cause, remedy=remedy)


class Grid:
    """A 5 x 5 grid with two walls; the walker goes straight for the goal, or astray."""

    def __init__(self, draw: random.Random) -> None:
        cells = [(row, column) for row in range(5) for column in range(5)]
        self.agent, self.goal, *self.walls = draw.sample(cells, 4)
        self.draw = draw
        self.title = (
            f"5×5, 2 walls, {abs(self.agent[0] - self.goal[0]) + abs(self.agent[1] - self.goal[1])} steps"
        )

    def way(self) -> str:
        """Where the goal lies."""
        down, right = self.goal[0] - self.agent[0], self.goal[1] - self.agent[1]
        words = [f"{abs(right)} {'right' if right > 0 else 'left'}"] if right else []
        words += [f"{abs(down)} {'down' if down > 0 else 'up'}"] if down else []
        return " ".join(words) or "here"

    def blocked(self) -> str:
        """Directions that lead nowhere."""
        return " ".join(word for word in MOVES if not self._free(word)) or "none"

    def _free(self, word: str) -> bool:
        row, column = self.agent[0] + MOVES[word][0], self.agent[1] + MOVES[word][1]
        return 0 <= row < 5 and 0 <= column < 5 and (row, column) not in self.walls

    def walk(self, moves: int, toward: bool) -> bool:
        """Some moves; whether the goal was reached."""
        for _ in range(moves):
            if self.agent == self.goal:
                return True
            free = [word for word in MOVES if self._free(word)]
            if not free:
                return False
            word = min(free, key=self._distance) if toward else self.draw.choice(free)
            self.agent = (self.agent[0] + MOVES[word][0], self.agent[1] + MOVES[word][1])
        return self.agent == self.goal

    def _distance(self, word: str) -> int:
        row, column = self.agent[0] + MOVES[word][0], self.agent[1] + MOVES[word][1]
        return abs(row - self.goal[0]) + abs(column - self.goal[1])

    def board(self) -> Event:
        """As plan_path draws it."""
        cells: list[list[Any]] = [[*wall, "wall"] for wall in sorted(self.walls)]
        cells += [[*self.goal, "goal"], [*self.agent, "agent"]]
        return {"kind": "grid", "rows": 5, "columns": 5, "cells": cells}


def hostile(events: Iterator[Event]) -> Iterator[Event]:
    """The same episodes with a script in every text that an agent or a task may bring."""
    for event in events:
        if event["type"] == "episode":
            event |= dict.fromkeys(("task", "title", "outcome"), HOSTILE[:200]) | {"error": HOSTILE}
            for turn in event["turns"]:
                turn["messages"] = [{"role": "user", "content": HOSTILE}]
                for candidate in turn["candidates"]:
                    candidate |= {"text": HOSTILE, "tokens": [HOSTILE] * len(candidate["tokens"])}
            event["final_board"]["cells"].append([0, 0, HOSTILE])
        if event["type"] == "log":
            event |= {"source": HOSTILE[:80], "message": HOSTILE}
        yield event


def encoded(events: Iterable[Event]) -> bytes:
    """One batch as it travels: a JSON object per line."""
    return "\n".join(json.dumps(event) for event in events).encode()
