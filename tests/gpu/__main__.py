"""The GPU program: `python -m tests.gpu [step ... | --first-call | --second-call] [--small] [--out FOLDER | --record] ...`.

Correctness first, then figures, then learning. Every step runs in a process of its own for at most 8 minutes and writes
one JSON file; a program that was interrupted continues with the first step without a result. See docs/operate/gpu.md.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.benchmarks.folders import OWN_RESULTS, RESULTS, add_result_folder
from tests.benchmarks.results import read_result
from tests.gpu.registry import CALLS, STEPS
from tests.gpu.results import FAILED, broken_bounds
from tests.gpu.runner import run_call, run_steps

PART = "gpu"
"""Folder of the steps among the results."""
RECORDED = RESULTS / PART
SMALL_PART = "gpu-small"
"""The same for `--small`, whose results are never recorded."""
BUDGET = 45 * 60.0


def main(words: Sequence[str] | None = None) -> int:
    """Run the steps; the exit status is 1 if one failed or broke a bound."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=(__doc__ or "").splitlines()[2])
    parser.add_argument("steps", nargs="*", metavar="step", help="names of steps; default: all")
    parser.add_argument("--small", action="store_true", help="tiny shapes on the CPU, which check the code")
    add_result_folder(parser, PART)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds after which no step starts")
    for name, call in CALLS.items():
        steps = ", ".join((*call.together, *call.then))
        parser.add_argument(
            f"--{name}-call",
            dest="call",
            action="store_const",
            const=call,
            help=f"within {call.seconds:.0f} s: {steps}",
        )
    parser.add_argument("--again", action="store_true", help="repeat finished steps")
    parser.add_argument("--list", action="store_true", help="list the steps and their bounds")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.steps if name not in STEPS]
    if unknown:
        parser.error(f"there is no step {', '.join(unknown)}; --list lists the steps")
    if arguments.small and arguments.out == RECORDED:
        parser.error("results of --small are not recorded; omit --record")
    if arguments.call and (arguments.steps or arguments.again or arguments.budget != BUDGET):
        parser.error("a call has its own steps and time; omit names of steps, --again and --budget")
    if arguments.list:
        print("\n".join(listed()))
        return 0
    names = arguments.steps or list(STEPS)
    out = arguments.out
    if arguments.small and out == OWN_RESULTS / PART:
        out = OWN_RESULTS / SMALL_PART
    if arguments.call:
        run_call(arguments.call, out, small=arguments.small)
        names = [*arguments.call.together, *arguments.call.then]
    else:
        run_steps(names, out, small=arguments.small, again=arguments.again, budget=arguments.budget)
    results = [result for name in names if (result := read_result(out, name))]
    return int(any(result["state"] == FAILED or broken_bounds(result) for result in results))


def listed() -> list[str]:
    """A line for every step, and its bounds."""
    lines = []
    for name, step in STEPS.items():
        needs = f" (needs {', '.join(step.needs)})" if step.needs else ""
        lines.append(f"{name:<24} {step.seconds:>4} s  {step.about}{needs}")
        lines += [f"{'':<32} {bound.text}" for bound in step.bounds]
    return lines


if __name__ == "__main__":
    sys.exit(main())
