"""Take the pictures of docs/start/tour.md from real runs, 1440 pixels wide, light and dark, into docs/images. Needs /usr/bin/chromium.

`python -m docs.make_tour [HOME]` starts a stack of its own, trains the demonstration with two seeds (some minutes on two cores),
and takes each page of the tour (docs/tour.py). With a folder HOME, data is kept there, and runs that an earlier call has trained
are shown again. `python -m docs.make_tour --day` walks through a first day (tests/end_to_end/first_day.py), about four minutes.
"""

import io
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, Playwright, sync_playwright
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from docs.tour import DAY, SHOTS, Shot
from tests.end_to_end.first_day import STEPS, Day, code_of
from tests.end_to_end.hands import Mouse
from tests.end_to_end.running_stack import RunningStack
from training_core.errors import TroupeError
from troupe_client.server_api import Server

IMAGES = Path(__file__).with_name("images")
CHROMIUM = "/usr/bin/chromium"
WIDTH, HEIGHT = 1440, 900
DRAWN = """() => [...document.querySelectorAll(".plot")].every((plot) =>
  plot.getBoundingClientRect().top > innerHeight || plot.querySelector(".scatterlayer .trace"))"""
"""Whether every visible chart has its curves."""
COLOURS = 256
"""Colours per picture: pages have few, and this reduces the files to a third."""
PATIENCE = 600.0
"""Seconds for the stack to start, on a busy machine."""
SEEDS = (0, 1)
ITERATIONS = 32
SMALLER = {"run.iterations": ITERATIONS, "evaluation.every": 5, "evaluation.episodes": 64}
COLUMNS = "progress,train/return,eval/success,eval_sampled/success,run.seed,policy/planner/entropy"


def main(home: Path | None = None) -> None:
    """Start the stack, run the experiments and take the pictures."""
    stack = RunningStack(home)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns) as progress:
            progress.console.print("Starting a separate stack ...")
            server = Server(stack.start(within=PATIENCE).url, stack.token)
            runs = [run["id"] for run in server.call("/api/v1/runs/", tag="tour", sort="created")["results"]]
            if not runs:
                runs = [_launch(server, seed) for seed in SEEDS]
                _dress(server, runs)
            _wait(server, runs, progress)
            words = _words(server, runs)
            _pictures(stack, words, progress)
    finally:
        stack.stop() if home else stack.remove()


def _launch(server: Server, seed: int) -> str:
    """Launch the demonstration and return the id of the run."""
    body = {"preset": "plan_path_duo", "name": f"duo, seed {seed}", "tags": ["tour"]}
    made = server.call("/api/v1/runs/", {**body, "overrides": {**SMALLER, "run.seed": seed}})
    return str(made["id"])


def _wait(server: Server, runs: list[str], progress: Progress) -> None:
    """Wait until all have finished. Raises TroupeError if one ends in another state."""
    tasks = {run: progress.add_task(f"training {run}", total=ITERATIONS) for run in runs}
    states = dict.fromkeys(runs, "")
    while set(states.values()) != {"finished"}:
        for run, task in tasks.items():
            state = server.call(f"/api/v1/runs/{run}/")
            states[run] = state["state"]
            progress.update(task, completed=state["iteration"], description=f"{state['state']:9} {run}")
            if state["state"] in ("failed", "stopped"):
                raise TroupeError(f"run {run} {state['state']}: {state['reason']}")
        time.sleep(1.0)


def _dress(server: Server, runs: list[str]) -> None:
    """Add a note and saved views to the runs."""
    server.call(
        f"/api/v1/runs/{runs[0]}/notes/", {"text": "The planner's entropy falls fast: try a higher bonus."}
    )
    query = {"filter": "tag = tour", "columns": COLUMNS}
    server.call("/api/v1/views/", {"name": "tour", "query": query})
    server.call("/api/v1/views/", {"name": "good ones", "query": {"filter": "eval/success > 0.8"}})


def _words(server: Server, runs: list[str]) -> dict[str, Any]:
    """Return the values for the addresses of the tour."""
    asked = {"kind": "train", "limit": 200}
    episodes = server.call(f"/api/v1/runs/{runs[0]}/episodes/", **asked)["results"]
    whole = [episode for episode in episodes if episode["success"]] or episodes
    first = max(
        whole, key=lambda episode: (episode["iteration"] > ITERATIONS // 4, episode.get("turns") or 0)
    )
    return {"run": runs[0], "runs": ",".join(runs), "episode": first["id"], "columns": COLUMNS}


def _pictures(stack: RunningStack, words: dict[str, Any], progress: Progress) -> None:
    task = progress.add_task("pictures", total=2 * len(SHOTS))
    with sync_playwright() as playwright:
        browser = _browser(playwright)
        page = _page(browser, _login_link(stack))
        for shot, theme in _all():
            progress.update(task, description=f"{shot.name} {theme}")
            _keep(page, shot, theme, stack.url + shot.address.format(**words))
            progress.advance(task)
        browser.close()


def _browser(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])


def _login_link(stack: RunningStack) -> str:
    link = re.search(r"https?://\S+/account/link/\S+", stack.said)
    if link is None:
        raise TroupeError("the stack printed no link")
    return link[0]


def _all() -> Iterator[tuple[Shot, str]]:
    for shot in SHOTS:
        for theme in ("light", "dark"):
            yield shot, theme


def _page(browser: Browser, link: str) -> Page:
    """Log in with the link."""
    page = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
    ).new_page()
    page.goto(link)
    return page


def _keep(page: Page, shot: Shot, theme: str, address: str) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.goto(address)
    page.locator(shot.ready).first.wait_for(timeout=60_000)
    if shot.scroll:
        page.locator(shot.scroll).first.scroll_into_view_if_needed()
    page.wait_for_function(DRAWN, timeout=60_000)
    page.wait_for_timeout(2500)  # what is drawn on a canvas, or settles
    _save(page, f"{shot.name}-{theme}")


def _save(page: Page, name: str) -> None:
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    few = picture.quantize(COLOURS, kmeans=2, dither=Image.Dither.NONE)
    few.save(IMAGES / f"{name}.png", optimize=True)


def first_day() -> None:
    """Walk through the first day and take a picture of each step."""
    stack = RunningStack(TROUPE_DEMO="1", TROUPE_BASE_MODEL="1")
    stack.environment = code_of(stack.environment, Path(tempfile.mkdtemp()))
    try:
        stack.start(within=PATIENCE)
        with sync_playwright() as playwright:
            browser = _browser(playwright)
            page = _page(browser, _login_link(stack))
            page.set_default_timeout(120_000)
            day = Day(stack, page, Mouse(page), _keep_step)
            for step in STEPS:
                step(day)
            browser.close()
    finally:
        stack.remove()


def _keep_step(page: Page, name: str) -> None:
    if name not in DAY:
        raise TroupeError(f"docs/tour.py has no caption for the picture {name!r}: add one to DAY")
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.wait_for_timeout(1000)  # charts are drawn again in the colours of the theme
        _save(page, f"day-{name}-{theme}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--day"]:
        first_day()
    else:
        main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None)
