"""What transformers' trainers (and TRL's, which are built on them) call while they train."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from troupe_client.reporting.client import ClientRun


class TroupeCallback(TrainerCallback):
    """Reports what the trainer logs, by its names; ends training when Stop was pressed."""

    def __init__(self, begin: Callable[..., ClientRun], options: dict[str, Any]) -> None:
        self._begin, self._options = begin, options
        self._run: ClientRun | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin the run, with the trainer's arguments as its config."""
        if state.is_world_process_zero:
            given = {
                "config": args.to_sanitized_dict(),
                "steps": max(state.max_steps, 0),
                "name": args.run_name or "",
            }
            self._run = self._begin(**(given | self._options))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Numbers go to curves; what is no number is left out."""
        numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, int | float)}
        if self._run and numbers:
            self._run.log(
                {f"train/{key}" if "/" not in key else key: value for key, value in numbers.items()},
                state.global_step,
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop when asked."""
        if self._run and self._run.should_stop():
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Deliver the rest."""
        if self._run:
            self._run.finish()
            self._run = None
