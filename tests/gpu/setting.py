"""The setting that a step runs in: its device, its size, and its folders."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Figures = dict[str, Any]
"""Numbers, texts and lists by name, as JSON stores them."""


@dataclass(frozen=True)
class Setting:
    """Where and how large a step runs."""

    device: torch.device
    small: bool
    """Tiny shapes on the CPU, which check the code and give no figures of a card."""
    folder: Path
    """For what several steps use, such as the base model of the learning runs."""
    draft: Path
    """The step's figures so far."""

    def pick(self, whole: Any, small: Any) -> Any:
        """A size for this setting."""
        return small if self.small else whole

    def note(self, figures: Figures) -> None:
        """Store the figures so far, which remain if the step is ended at its time limit."""
        self.draft.write_text(json.dumps(figures))


def make_setting(small: bool, out: Path, step: str) -> Setting:
    """The setting of a step that writes its results into `out`. Raises SystemExit without a CUDA device."""
    if not small and not torch.cuda.is_available():
        raise SystemExit("no CUDA device was detected; run on a machine with one, or add --small")
    shared = out / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    device = torch.device("cpu" if small else "cuda")
    return Setting(device, small, shared, out / f"{step}.draft.json")
