"""A callback for transformers' trainers, and for TRL's, which are based on them."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from troupe_client.reporting.client import ClientRun


class TroupeCallback(TrainerCallback):
    """Reports what the trainer logs, under the same names. Ends training after Stop."""

    def __init__(self, begin: Callable[..., ClientRun], options: dict[str, Any]) -> None:
        self._begin, self._options = begin, options
        self._run: ClientRun | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the run, with the trainer's arguments as its config."""
        if state.is_world_process_zero:
            defaults = {
                "config": args.to_sanitized_dict(),
                "steps": max(state.max_steps, 0),
                "name": args.run_name or "",
            }
            self._run = self._begin(**(defaults | self._options))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report numbers as curves; other values are ignored."""
        numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, int | float)}
        if self._run and numbers:
            self._run.log(
                {f"train/{key}" if "/" not in key else key: value for key, value in numbers.items()},
                state.global_step,
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop training after Stop on the run's page."""
        if self._run and self._run.should_stop():
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Finish the run."""
        if self._run:
            self._run.finish()
            self._run = None
