"""Checks before a launch: each runs the code that the driver would run, and a failed one does not hide the others."""

import json
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from training_core.errors import TroupeError
from training_core.llm.base_models.folder_creation import Progress
from workers.telemetry.faults import fault_of, has_traceback, sentence

State = Literal["passed", "warning", "failed", "unknown"]


class Unchecked(TroupeError):
    """A check cannot be made here, or not before the launch; the message states why."""


class Doubtful(TroupeError):
    """A launch would not fail, but the run may not work as expected; the message states why, and the remedy."""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    """What is checked, in a few words."""
    state: State
    text: str
    """One sentence: what was found, the cause of a warning or a failure, or why it is not known."""
    remedy: str = ""
    """One sentence; only of a warning or a failed check."""


Step = tuple[str, Callable[[], str]]
"""Name of a check, and the function that makes it: it returns what was found and raises for a failure, Doubtful or Unchecked."""


def make_checks(steps: Iterable[Step], progress: Progress) -> list[Check]:
    """Make all checks in order. Tracebacks of failures go to standard error."""
    listed = list(steps)
    results = []
    for index, (name, make) in enumerate(listed):
        progress(index / len(listed), name)
        results.append(_result(name, make))
    return results


def _result(name: str, make: Callable[[], str]) -> Check:
    try:
        return Check(name, "passed", sentence(make()))
    except Unchecked as unknown:
        return Check(name, "unknown", sentence(str(unknown)))
    except Doubtful as doubt:
        fault = fault_of(doubt)
        return Check(name, "warning", fault.cause, fault.remedy)
    except (Exception, SystemExit) as error:  # code of the user, which may also end the process
        if has_traceback(error):
            traceback.print_exc()
        fault = fault_of(error)
        return Check(name, "failed", fault.cause, fault.remedy)


def printed(checks: Sequence[Check], *, as_json: bool = False) -> str:
    """The checks as lines of text, a remedy below its failure; or as JSON."""
    if as_json:
        return (
            json.dumps({"checks": [asdict(check) for check in checks], "failed": failed(checks)}, indent=2)
            + "\n"
        )
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:8}{check.name:{width}}  {check.text}")
        lines += [f"{'':8}{'':{width}}  {check.remedy}"] if check.remedy else []
    return "\n".join(lines) + "\n"


def failed(checks: Iterable[Check]) -> bool:
    """Whether a launch would fail."""
    return any(check.state == "failed" for check in checks)
