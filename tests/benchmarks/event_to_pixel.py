"""From the trainer's call to the browser's pixel, with many viewers on the run.

    python -m tests.benchmarks.event_to_pixel [--viewers 200 1000] [--seconds 20]

A whole stack of its own; a trainer that logs four metrics ten times a second through `import troupe`; viewers on websockets
in a process of their own; and Chromium on the run's page. The metric that is watched holds the moment of its own emission.
A point is drawn when the browser has painted the frame after Plotly drew it. Prints percentiles; a clock never fails a run,
a lost update does.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from typing import Any

import psutil
from playwright.sync_api import Page, sync_playwright

import troupe
from tests.end_to_end.running_stack import RunningStack
from tests.end_to_end.test_browser_stack import login_link

CHROMIUM = "/usr/bin/chromium"
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


def measure(stack: RunningStack, page: Page, viewers: int, seconds: float) -> bool:
    """One run with so many viewers: prints the figures; whether every update came to every viewer."""
    run = troupe.init(name=f"{viewers} viewers")
    sent: dict[int, float] = {}
    emit(run, sent, range(3))
    time.sleep(1.0)
    page.goto(f"{stack.url}/runs/{run.id}/")
    page.locator(f".chart:has([data-last='{KEY}']) path.js-line").first.wait_for(timeout=60_000)
    page.evaluate(LISTEN)
    cookies = "; ".join(f"{each['name']}={each['value']}" for each in page.context.cookies(stack.url))
    address = f"{stack.url.replace('http', 'ws', 1)}/ws/runs/{run.id}/"
    words = [sys.executable, "-m", "tests.benchmarks.viewers", str(viewers), address, KEY, str(BEFORE)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        process.stdin.write(cookies + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        emit(run, sent, range(3, BEFORE))
        counted = range(BEFORE, BEFORE + round(seconds * RATE))
        before = work(stack)
        emit(run, sent, counted)
        after = work(stack)
        page.wait_for_function("step => window.drawn[step]", arg=counted[-1], timeout=60_000)
        time.sleep(2.0)
        process.stdin.write("\n")
        process.stdin.flush()
        seen: dict[str, Any] = json.loads(process.stdout.read())
    drawn = {int(step): at for step, at in page.evaluate("() => window.drawn").items()}
    run.finish()
    missing = sum(len(set(counted) - set(steps)) for steps in seen["seen"])
    figures(f"{viewers} viewers, call to socket", seen["delays"])
    figures(f"{viewers} viewers, call to pixel", sorted(drawn[step] - sent[step] for step in counted))
    print(
        f"{viewers} viewers: {len(counted)} updates each, {missing} not delivered, {seen['resyncs']} resyncs, "
        f"{seen['closed']} sockets closed; load {os.getloadavg()[0]:.1f}"
    )
    costs = {name: (spent - before.get(name, 0.0)) / len(counted) for name, spent in after.items()}
    said = ", ".join(
        f"{name} {cost * 1e3:.1f}" for name, cost in sorted(costs.items(), key=lambda item: -item[1])[:6]
    )
    print(f"CPU milliseconds an update: {said}", flush=True)
    return missing == 0 or seen["resyncs"] > 0


def emit(run: Any, sent: dict[int, float], steps: range) -> None:
    """One update every tenth of a second."""
    start = time.monotonic()
    for place, step in enumerate(steps):
        time.sleep(max(0.0, start + place / RATE - time.monotonic()))
        sent[step] = time.time()
        run.log({KEY: sent[step], "train/success": 0.5, "policy/p/loss": 0.1, "policy/p/entropy": 1.0}, step)


def work(stack: RunningStack) -> dict[str, float]:
    """CPU seconds of every part so far, by name: what a loaded machine cannot blur."""
    spent: dict[str, float] = {}
    for process in [*stack.tree(), *psutil.Process().children(recursive=True), psutil.Process()]:
        with suppress(psutil.Error):
            words = process.cmdline()
            name = next((word for word in words if word.startswith(("webapp.", "tests."))), process.name())
            times = process.cpu_times()
            spent[f"{name} {process.pid}"] = times.user + times.system
    together: dict[str, float] = {}
    for name, seconds in spent.items():
        together[name.rpartition(" ")[0]] = together.get(name.rpartition(" ")[0], 0.0) + seconds
    return together


def figures(what: str, delays: list[float]) -> None:
    """Percentiles of sorted delays."""
    at = [delays[min(len(delays) - 1, len(delays) * share // 100)] * 1e3 for share in (50, 95, 99)]
    print(
        f"{what}: p50 {at[0]:.0f} ms, p95 {at[1]:.0f} ms, p99 {at[2]:.0f} ms, longest {delays[-1] * 1e3:.0f} ms"
    )


def main() -> None:
    """For each number of viewers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--viewers", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with ExitStack() as ends:
        stack = RunningStack(TROUPE_LAUNCHER="local").start()
        ends.callback(stack.remove)
        os.environ |= {"TROUPE_URL": stack.url, "TROUPE_TOKEN": stack.token, "TROUPE_HOME": str(stack.home)}
        playwright = ends.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        ends.callback(browser.close)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(login_link(stack))
        delivered = [measure(stack, page, count, options.seconds) for count in options.viewers]
    if not all(delivered):
        raise SystemExit("updates were lost")


if __name__ == "__main__":
    main()
