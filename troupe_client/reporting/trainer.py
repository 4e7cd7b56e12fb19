"""A callback for transformers' trainers, and for TRL's, which are based on them."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback

from troupe_client.reporting.client import ClientRun
from troupe_client.reporting.completions import Completions

logger = logging.getLogger("troupe")
PREFIXES = {"eval_": "eval/", "test_": "test/"}
"""Prefixes of the trainer's names, and sections of metrics, as in transformers' own loggers."""


class TroupeCallback(TrainerCallback):
    """Reports what the trainer logs, before, during and after training. Ends training after Stop.

    It uses the open run, which it leaves open; without one it starts its own, which ends with the program or by `troupe.finish`.
    """

    _begun: ClientRun | None = None
    """The last run that a callback has started; another trainer starts another one."""

    def __init__(
        self,
        begin: Callable[..., ClientRun],
        current: Callable[[], ClientRun | None],
        options: dict[str, Any],
    ) -> None:
        self._begin, self._current, self._options = begin, current, options
        self._run: ClientRun | None = None
        self._completions = Completions()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Use the open run, or start one with the trainer's arguments as its config."""
        if state.is_world_process_zero and (self._run is None or self._run.state != "running"):
            self._run = self._opened(args, state)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report numbers as curves."""
        if not state.is_world_process_zero or not logs:
            return
        if self._run is None:  # evaluate() before train()
            self._run = self._opened(args, state)
        self._report_completions()
        if self._run.state == "running":
            self._run.log(named(logs), state.global_step)
            self._completions.expect(args, state.global_step, logs)
        else:
            logger.warning("The trainer's values are not reported: run %s has ended", self._run.id)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Report the completions of the step before."""
        self._report_completions()

    on_evaluate = on_train_end = on_step_begin

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop training after Stop on the run's page."""
        if self._run and self._run.state == "running" and self._run.should_stop():
            control.should_training_stop = True
        return control

    def _report_completions(self) -> None:
        if self._run and self._run.state == "running":
            self._completions.report(self._run)

    def _opened(self, args: Any, state: Any) -> ClientRun:
        run = self._current()
        if run is not None and run.state == "running" and run is not TroupeCallback._begun:
            return run
        defaults = {
            "config": args.to_dict(),
            "steps": max(state.max_steps, args.max_steps, 0),  # the state has it from train() on
            "name": getattr(args, "run_name", None) or "",
        }
        TroupeCallback._begun = self._begin(**(defaults | self._options))
        return TroupeCallback._begun


def named(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the sections of transformers: eval_loss becomes eval/loss, loss becomes train/loss."""
    out = {}
    for key, value in logs.items():
        prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")
        section = PREFIXES.get(prefix, "" if "/" in key else "train/")
        out[section + key.removeprefix(prefix)] = value
    return out
