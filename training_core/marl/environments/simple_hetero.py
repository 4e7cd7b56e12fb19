"""simple_hetero: scouts see a noisy hint of a hidden target and signal; workers see the mean signal of the previous
step and choose.

MARLKit's document only names the game; the rest is defined here. The target is drawn at the start and is constant. A
scout observes [step / max_cycles, one-hot target + Gaussian noise, drawn in each step] and sends one of num_signals
signals, whose meaning the agents learn. A worker observes the mean over scouts of the one-hot signals of the previous
step (zeros at first) and chooses one of num_targets tasks. Reward of the team per step: match_reward per worker that
chose the target, less mismatch_penalty per worker that did not; every agent gets an equal share. Observations are
padded with zeros, actions with masked choices: sizes differ on purpose.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from training_core.marl.environments.base import Actions, Choices, Flags, Reals, RoleSpec, Spec, View
from training_core.marl.environments.config import SimpleHetero
from training_core.marl.environments.episodes import draws
from training_core.marl.environments.games import Integers


class HeteroGame:
    """The rules. Scouts come first."""

    last_step = "truncated"

    def __init__(self, section: SimpleHetero, count: int) -> None:
        self._section, self._count = section, count
        self.scouts = tuple(f"scout_{number}" for number in range(section.num_scouts))
        self.workers = tuple(f"worker_{number}" for number in range(section.num_workers))
        self.scout_dim, self.worker_dim = 1 + section.num_targets, section.num_signals
        width, choices = max(self.scout_dim, self.worker_dim), max(section.num_signals, section.num_targets)
        role = RoleSpec((*self.scouts, *self.workers), width, Choices(choices))
        self.spec = Spec({"agents": role}, max_steps=section.max_cycles)
        allowed = [section.num_signals] * section.num_scouts + [section.num_targets] * section.num_workers
        self._mask = np.arange(choices) < np.array(allowed)[:, None]
        self._target = np.zeros(count, dtype=np.int64)
        self._heard = np.zeros((count, section.num_signals))
        self._chosen = np.full((count, section.num_workers), -1)
        self._seeds = np.zeros(count, dtype=np.int64)

    def begin(self, rows: Integers, seeds: Integers) -> None:
        self._seeds[rows] = seeds
        self._target[rows] = (draws(seeds, -1, 1)[:, 0] * self._section.num_targets).astype(np.int64)
        self._heard[rows], self._chosen[rows] = 0.0, -1

    def play(self, actions: Mapping[str, Actions], steps: Integers) -> tuple[dict[str, Reals], Flags]:
        section, taken = self._section, np.array(actions["agents"], dtype=np.int64)
        signals, self._chosen = taken[:, : section.num_scouts], taken[:, section.num_scouts :]
        self._heard = (signals[:, :, None] == np.arange(section.num_signals)).mean(axis=1)
        right = (self._chosen == self._target[:, None]).sum(axis=1)
        team = right * section.match_reward - (section.num_workers - right) * section.mismatch_penalty
        agents = section.num_scouts + section.num_workers
        shares = np.repeat((team / agents)[:, None], agents, axis=1).astype(np.float32)
        return {"agents": shares}, np.zeros(self._count, dtype=bool)

    def view(self, steps: Integers) -> View:
        section, role = self._section, self.spec.roles["agents"]
        seen = np.zeros((self._count, len(role.agents), role.observation_dim), dtype=np.float32)
        hints = (self._target[:, None] == np.arange(section.num_targets))[:, None] + self._noise(steps)
        seen[:, : section.num_scouts, 0] = (steps / section.max_cycles)[:, None]
        seen[:, : section.num_scouts, 1 : self.scout_dim] = hints
        seen[:, section.num_scouts :, : self.worker_dim] = self._heard[:, None]
        return View({"agents": seen}, {"agents": np.repeat(self._mask[None], self._count, axis=0)})

    def board(self, row: int) -> dict[str, Any] | None:
        """Tasks as columns: the target in the first row, workers' choices below, one row each."""
        section = self._section
        cells = [(0, int(self._target[row]), "goal")]
        cells += [
            (1 + worker, int(task), self.workers[worker])
            for worker, task in enumerate(self._chosen[row])
            if task >= 0
        ]
        return {
            "kind": "grid",
            "rows": 1 + section.num_workers,
            "columns": section.num_targets,
            "cells": [cell for cell in cells if cell[1] < section.num_targets],
        }

    def _noise(self, steps: Integers) -> Reals:
        """(B, scouts, targets) Gaussian numbers by seed and step (Box and Muller 1958)."""
        scouts, targets = self._section.num_scouts, self._section.num_targets
        even = draws(self._seeds, steps, 2 * scouts * targets).reshape(self._count, 2, scouts, targets)
        noise = np.sqrt(-2.0 * np.log1p(-even[:, 0])) * np.cos(2.0 * np.pi * even[:, 1])
        scaled: Reals = (self._section.hint_noise * noise).astype(np.float32)
        return scaled
