"""Output for a person at a terminal, and the lines about a run's progress: for the terminal and for the run's log."""

import sys
from collections.abc import Iterator, Mapping
from math import isnan, nan
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from training_core.config.marl import MarlConfig


def summary_lines(config: MarlConfig, iteration: int, values: Mapping[str, float]) -> Iterator[str]:
    """A line of sampled and greedy returns, then a line per trained policy about its last update, if there was one.

    With several roles, the first line also has each role's greedy reward.
    """

    def value(name: str) -> float:
        return values.get(name, nan)

    head = f"{config.environment.type} | {config.algorithm.type} | Iter {iteration}"
    policies = config.trained_policies
    returns = [
        f"eval_return={value('eval_sampled/return'):.2f} ± {value('eval_sampled/return_std'):.2f}",
        f"eval_len={value('eval_sampled/length'):.1f}",
        f"greedy return={value('eval/return'):.2f} ± {value('eval/return_std'):.2f}",
        f"EV={value(f'policy/{policies[0]}/explained_variance'):.3f}",
    ]
    if len(config.team.roles) > 1:
        returns += [f"{role}={value(f'eval/{role}/reward'):.2f}" for role in config.role_order]
    yield f"[{head}] {' | '.join(returns)}"
    for policy in policies:
        if f"policy/{policy}/actor_loss" not in values:
            continue  # no update yet: the first evaluation, or that of the checkpoint that the run forks
        name = f"{policy}: " if len(policies) > 1 else ""
        figures = {
            figure: value(f"policy/{policy}/{metric}")
            for figure, metric in {
                "EV": "explained_variance",
                "KL": "kl",
                "clip": "clip_fraction",
                "H": "entropy",
                "ratio": "ratio_mean",
                "spread": "ratio_std",
                "Vloss": "value_loss",
                "Aloss": "actor_loss",
            }.items()
        }
        yield name + (
            "EV={EV:.3f} KL={KL:.4f} clip={clip:.2f} H={H:.2f} Ratio={ratio:.3f}±{spread:.3f} "
            "Vloss={Vloss:.3f} Aloss={Aloss:.3f}"
        ).format(**figures)


def iteration_line(number: int, values: Mapping[str, float], shaped: bool = False) -> str:
    """One iteration as a line of text."""
    seconds = values.get("time/iteration", 0.0)
    return f"iteration {number}: {figures_text('train', values, shaped)}, {seconds:.2f} s"


def evaluation_line(number: int, values: Mapping[str, float], shaped: bool = False) -> str:
    """One evaluation as a line of text."""
    prefix = next(iter(values)).partition("/")[0] if values else "eval"
    how = "sampled" if prefix == "eval_sampled" else "greedy"
    lag = values.get(f"{prefix}/lag", 0.0)
    later = f" ({lag:g} iteration{'s' * (lag != 1)} later)" if lag else ""
    return f"evaluation after iteration {number}, {how}: {figures_text(prefix, values, shaped)}{later}"


def figures_text(prefix: str, values: Mapping[str, float], shaped: bool = False) -> str:
    success, gain = values.get(f"{prefix}/success"), values.get(f"{prefix}/return")
    if gain is not None and isnan(gain):
        return "no episode was completed"
    parts = [
        f"success {success:.2f}" if success is not None and not isnan(success) else "",
        f"return{' (shaped)' if shaped else ''} {gain:.3f}" if gain is not None else "",
    ]
    return ", ".join(filter(None, parts)) or "no episode was completed"


def model_line(policy: str, facts: Mapping[str, Any]) -> str:
    """A policy's base model as a line of text."""
    parameters = facts.get("parameters")
    size = f", {parameters:,} parameters" if isinstance(parameters, int) else ""
    sizes = facts.get("sizes", {})
    if sizes:
        size += ", optimiser states on the host between updates, no store during them" * sizes["offload"]
        size += f", {sizes['micro_batch_tokens']:,} tokens in a forward pass, {sizes['max_batch']:,} answers at a time"
    return f"policy {policy}: {facts.get('name', 'a model')}{size}"


def checkpoint_line(iteration: int, size: int, *, best: bool) -> str:
    """A written checkpoint as a line of text; size in bytes."""
    return f"checkpoint of iteration {iteration}: {size / 1e6:.1f} MB{', the best so far' if best else ''}"


class Display(Protocol):
    """Output for a person at a terminal."""

    def note(self, text: str) -> None:
        """Print one line."""
        ...

    def loading(self, done: float, text: str) -> None:
        """A base model is being made: the share done (0 to 1), and the current step."""
        ...

    def iteration(self, number: int, values: Mapping[str, float]) -> None:
        """An iteration is complete; `values` are its metrics."""
        ...


class Bar:
    """A rich progress bar: iteration, success, return, time left. The lines of the run's log scroll above it.

    `shaped`: the return includes shaped rewards.
    """

    def __init__(self, iterations: int, shaped: bool = False, console: Console | None = None) -> None:
        self._shaped = shaped
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task("starting", total=iterations, figures="")
        self._loading: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def loading(self, done: float, text: str) -> None:
        """Show a separate bar, removed when the model is complete."""
        if self._loading is None:
            self._loading = self._progress.add_task("base model", total=100, figures="")
        self._progress.update(self._loading, completed=int(100 * done), figures=text)
        if done >= 1.0:
            self._progress.remove_task(self._loading)
            self._loading = None

    def iteration(self, number: int, values: Mapping[str, float]) -> None:
        self._progress.update(
            self._task,
            completed=number,
            description="training",
            figures=figures_text("train", values, self._shaped),
        )


class Lines:
    """The lines of the run's log on standard output, for the log of a job."""

    def __init__(self) -> None:
        self._stream = sys.stdout
        """The stream itself: what is written to a reported one would be a second line of the run's log."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def note(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def loading(self, done: float, text: str) -> None:
        self.note(f"base model, {done:.0%}: {text}")

    def iteration(self, number: int, values: Mapping[str, float]) -> None:
        """Its line in the run's log is printed as a note."""
