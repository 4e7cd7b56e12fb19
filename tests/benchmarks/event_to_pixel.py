"""From the trainer's call to the browser's pixel, with many viewers on the run.

    python -m tests.benchmarks.event_to_pixel [--viewers 200 1000] [--seconds 20] [--repeats 1]
    python -m tests.benchmarks.event_to_pixel --viewers 1000 --runs 100 --rate 1      (ten viewers of each run)

A whole stack of its own; a trainer that logs four metrics ten times a second through `import troupe`; viewers on websockets
in a process of their own; and Chromium on the run's page. The metric that is watched holds the moment of its own emission.
A point is drawn when the browser has painted the frame after Plotly drew it. Prints percentiles over the updates of a run. A lost
update is an error. "CPU" is that of all processes: stack, viewers, browser and trainer.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
from playwright.sync_api import Page, sync_playwright

from tests.benchmarks.results import Benchmark, Side, run_program
from tests.conftest import CHROMIUM
from tests.end_to_end.running_stack import RunningStack
from tests.end_to_end.test_browser_stack import login_link
from troupe_client.reporting.client import ClientRun, run_begin

KEY = "train/return"
BEFORE = 30
"""Updates that are not counted: pages load, sockets connect."""
RATE = 10.0
"""Updates a second."""
LISTEN = """
() => {
  window.drawn = {};
  const plot = document.querySelector(".chart:has([data-last='train/return']) .plot");
  plot.on("plotly_afterplot", () => {
    const steps = plot.data.at(-1).x;
    requestAnimationFrame(() => setTimeout(() => {
      for (const step of steps) window.drawn[step] ??= Date.now() / 1000;
    }));
  });
}
"""


SHORT, SMALL = ((200,), 3.0), ((3,), 0.5)
"""Numbers of viewers and seconds of the short set, and of a trial."""
FIGURES = {
    "call to socket, p50": "ms",
    "call to socket, p95": "ms",
    "call to pixel, p50": "ms",
    "call to pixel, p95": "ms",
    "CPU of the servers per update": "CPU ms",
    "CPU per update": "CPU ms",
}


@dataclass(frozen=True)
class Load:
    """Number of runs, updates of each of them a second, and for how many seconds."""

    runs: int
    rate: float
    seconds: float


def benchmark(
    *,
    small: bool = False,
    viewers: Sequence[int] = SHORT[0],
    seconds: float = SHORT[1],
    runs: int = 1,
    rate: float = RATE,
) -> Benchmark:
    """Each number of viewers is a side."""
    if small:
        viewers, seconds = SMALL
    missing = "" if CHROMIUM else "there is no Chromium; apt-get install chromium"
    return Benchmark(
        about=f"delay from the trainer's call to viewers' sockets and to a browser's pixel, {rate:g} updates a second of {runs} runs",
        units={f"{count} viewers, {name}": unit for count in viewers for name, unit in FIGURES.items()},
        open_sides=lambda: open_sides(viewers, Load(runs, rate, seconds)),
        settings={"viewers": list(viewers), "runs": runs, "seconds": seconds, "updates a second": rate},
        missing=missing,
    )


@contextmanager
def open_sides(viewers: Sequence[int], load: Load) -> Iterator[Mapping[str, Side]]:
    """A stack and a browser that is logged in."""
    with ExitStack() as ends:
        stack = RunningStack(TROUPE_LAUNCHER="local")
        ends.callback(stack.remove)
        stack.start()
        os.environ |= {"TROUPE_URL": stack.url, "TROUPE_TOKEN": stack.token, "TROUPE_HOME": str(stack.home)}
        playwright = ends.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        ends.callback(browser.close)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(login_link(stack))
        yield {f"{count} viewers": partial(measure, stack, page, count, load) for count in viewers}


def measure(stack: RunningStack, page: Page, viewers: int, load: Load) -> Mapping[str, float]:
    """Runs with so many viewers; the browser shows the first run. Raises ValueError if a viewer did not receive each update."""
    runs = [run_begin(name=f"{viewers} viewers") for _ in range(load.runs)]
    run = runs[0]
    sent: dict[int, float] = {}
    emit(runs, sent, range(3), RATE)
    time.sleep(1.0)
    page.goto(f"{stack.url}/runs/{run.id}/")
    page.locator(f".chart:has([data-last='{KEY}']) path.js-line").first.wait_for(
        state="attached", timeout=60_000
    )
    page.evaluate(LISTEN)
    cookies = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in page.context.cookies(stack.url))
    address = ",".join(f"{stack.url.replace('http', 'ws', 1)}/ws/runs/{one.id}/" for one in runs)
    words = [sys.executable, "-m", "tests.benchmarks.viewers", str(viewers), address, KEY, str(BEFORE)]
    counted = range(BEFORE, BEFORE + round(load.seconds * load.rate))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        process.stdin.write(cookies + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        emit(runs, sent, range(3, BEFORE), RATE)
        before = work(stack)
        emit(runs, sent, counted, load.rate)
        after = work(stack)
        page.wait_for_function("step => window.drawn[step]", arg=counted[-1], timeout=60_000)
        time.sleep(2.0)
        process.stdin.write("\n")
        process.stdin.flush()
        received: dict[str, Any] = json.loads(process.stdout.read())
    drawn = {int(step): at for step, at in page.evaluate("() => window.drawn").items()}
    for one in runs:
        one.finish()
    missing = sum(len(set(counted) - set(steps)) for steps in received["seen"])
    if missing and not received["resyncs"]:
        raise ValueError(f"{missing} updates were lost")
    figures = [
        *percentiles(received["delays"]),
        *percentiles(sorted(drawn[step] - sent[step] for step in counted)),
        sum(after[name] - before.get(name, 0.0) for name in after if name.startswith("webapp."))
        / len(counted)
        * 1e3,
        sum(after[name] - before.get(name, 0.0) for name in after) / len(counted) * 1e3,
    ]
    return {f"{viewers} viewers, {name}": value for name, value in zip(FIGURES, figures, strict=True)}


def percentiles(delays: list[float]) -> list[float]:
    """Return p50 and p95 of sorted delays, in ms."""
    return [delays[min(len(delays) - 1, len(delays) * share // 100)] * 1e3 for share in (50, 95)]


def emit(runs: Sequence[ClientRun], sent: dict[int, float], steps: range, rate: float) -> None:
    """Updates of each run at this rate."""
    start = time.monotonic()
    for place, step in enumerate(steps):
        time.sleep(max(0.0, start + place / rate - time.monotonic()))
        sent[step] = time.time()
        for run in runs:
            values = {KEY: time.time(), "train/success": 0.5, "policy/p/loss": 0.1, "policy/p/entropy": 1.0}
            run.log(values, step)


def work(stack: RunningStack) -> dict[str, float]:
    """CPU seconds of every part so far, by name."""
    spent: dict[str, float] = {}
    for process in [*stack.tree(), *psutil.Process().children(recursive=True), psutil.Process()]:
        with suppress(psutil.Error):
            words = process.cmdline()
            name = next((word for word in words if word.startswith(("webapp.", "tests."))), process.name())
            times = process.cpu_times()
            spent[f"{name} {process.pid}"] = times.user + times.system
    return spent


if __name__ == "__main__":
    run_program(
        "event_to_pixel",
        benchmark,
        __doc__,
        viewers={"type": int, "nargs": "+", "default": [200, 1000]},
        runs={"type": int, "default": 1, "help": "runs that the viewers are divided among"},
        rate={"type": float, "default": RATE, "help": "updates of each run a second"},
        seconds={"type": float, "default": 20.0},
        repeats={"default": 1},
    )
