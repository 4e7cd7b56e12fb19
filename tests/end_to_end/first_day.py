"""The first day of a new user, step by step, in a terminal and in Chromium.

tests/end_to_end/test_first_day.py runs the steps; docs/make_tour.py runs them too, and takes a picture of each.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.end_to_end.hands import Mouse, shown_number
from tests.end_to_end.running_stack import RunningStack
from tests.end_to_end.terminal import CODE, Terminal, write_environment
from troupe_client.server_api import Server

PATIENCE = 300_000
"""Milliseconds for what takes a few seconds on an idle machine; nothing is asserted on them."""
WRONG_WALK = "planner.reward > 0 and executor.reward <= 0"
"""The query for episodes with a right plan and a wrong walk."""
SENTENCE = "The fork keeps the success of its parent."
FORM_LIMIT, COMPARE_LIMIT = 8, 2
"""Most interactions from a run to a launched variation of it, and from a fork to its comparison with the parent."""
ENDED = ("finished", "stopped", "failed")
Keep = Callable[[Page, str], None]


@dataclass
class Day:
    """A person at work: a stack, its terminal and its pages."""

    stack: RunningStack
    page: Page
    hand: Mouse
    keep: Keep
    """Take a picture of the page under a name."""
    facts: dict[str, str] = field(default_factory=dict)
    """Ids of runs and addresses, by the step that has made them."""

    @property
    def api(self) -> Server:
        """The REST API, to wait for what a person would wait for."""
        return Server(self.stack.url, self.stack.token)

    @property
    def terminal(self) -> Terminal:
        """A terminal on the machine of the stack."""
        return Terminal(self.stack)

    def open(self, address: str) -> None:
        """Show a page of the stack."""
        self.page.goto(f"{self.stack.url}{address}")

    def run(self, run: str) -> dict[str, Any]:
        """The state of a run."""
        return dict(self.api.call(f"/api/v1/runs/{run}/"))

    def await_end(self, run: str, state: str) -> None:
        """Wait until a run has ended; fails if it ends in another state."""
        self.stack.until(lambda: self.run(run)["state"] in ENDED)
        ended = self.run(run)
        assert ended["state"] == state, ended["reason"]

    def button(self, name: str) -> Locator:
        """A button by its whole name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        """A link by its whole name."""
        return self.page.get_by_role("link", name=name, exact=True)


def code_of(environment: dict[str, str], folder: Path) -> dict[str, str]:
    """Variables of a stack that may run the code in a folder."""
    return environment | {"TROUPE_IMPORT_PACKAGES": CODE, "PYTHONPATH": str(folder)}


def install(day: Day) -> None:
    """What `make run` prints, and the first commands."""
    for line in ("Troupe starts. Data and logs:", "Troupe is up after", "Press Ctrl-C to stop."):
        assert line in day.stack.said
    for part in ("redis", "postgres", "ray", "web", "worker"):
        assert re.search(rf"ready +{part} +[\d.]+ s", day.stack.said), part
    text = day.terminal.troupe("--help")
    for command in ("launch", "runs", "fork", "compare", "doctor"):
        assert re.search(rf"│ {command} ", text), command
    day.terminal.keep(day, "install", "make run", shown=without_link(day.stack.said))


def without_link(said: str) -> str:
    """The output of `make run` with a shortened login link, which is valid once."""
    return re.sub(r"(/account/link/)\S+", r"\1…", said)


def demonstration(day: Day) -> None:
    """The first page states what Troupe is; the demonstration appears, and its curves move."""
    day.open("/runs/")
    page = day.page
    expect(page.locator("main")).to_contain_text("Troupe trains teams of agents by reinforcement learning")
    day.stack.until(lambda: "The demonstration is running:" in day.stack.said)
    day.open("/runs/")
    day.facts["demonstration"] = demonstration_of(day)
    row = page.locator(f'tr[data-run="{day.facts["demonstration"]}"]')
    expect(row).to_contain_text(re.compile(r"\d+ of\s+100"))
    expect(page.locator("main")).to_contain_text("Troupe trains teams of agents by reinforcement learning")
    expect(row.locator(".state")).to_have_text("running", timeout=PATIENCE)
    day.keep(page, "first-page")
    day.hand.click(row.get_by_role("link", name="Demonstration", exact=True))
    expect(page.locator(".run-head .state")).to_have_text("running", timeout=PATIENCE)
    line = "[...document.querySelectorAll('#chart-reward path.js-line')].at(-1)?.getAttribute('d')"
    page.wait_for_function(f"() => {line}", timeout=PATIENCE)
    before = page.evaluate(line)
    page.wait_for_function(f"before => {line} !== before", arg=before, timeout=PATIENCE)
    expect(page.locator("[data-link]")).to_have_text("live")
    day.keep(page, "demonstration")


def demonstration_of(day: Day) -> str:
    """The id of the demonstration; its variations have the same tag."""
    return str(day.api.call("/api/v1/runs/", tag="demonstration", sort="created")["results"][0]["id"])


def own_change(day: Day) -> None:
    """From the page of a run to a launched run with one changed value."""
    day.open(f"/runs/{demonstration_of(day)}/")
    day.hand.begin()
    day.hand.click(day.link("Run again"))
    day.hand.fill(day.page.get_by_label("group size"), "4")
    expect(day.page.locator("#preview")).to_contain_text("48 tasks × 4 candidates")
    expect(day.page.locator("#preview")).to_contain_text("Ready to launch")
    day.keep(day.page, "own-change")
    day.hand.click(day.button("Launch"))
    expect(day.page.locator("[data-run-head] h1")).to_have_text("Demonstration")
    assert day.hand.count <= FORM_LIMIT
    run = run_shown(day.page)
    config = day.api.call(f"/api/v1/runs/{run}/")["config"]
    assert config["rollout"]["group_size"] == 4
    day.facts["own"] = run


def run_shown(page: Page) -> str:
    """The id of the run in the address."""
    match = re.search(r"/runs/([a-z0-9]{8})/", page.url)
    assert match, page.url
    return match[1]


def wait_for_checkpoint(day: Day) -> None:
    """Shorten the day: stop the demonstration when it has a checkpoint to fork, and the variation of it."""
    page, run = day.page, day.facts["demonstration"]
    day.open(f"/runs/{run}/checkpoints/")
    fork = page.get_by_role("link", name=re.compile("^Fork iteration"))
    expect(fork.first).to_be_visible(timeout=PATIENCE)
    page.once("dialog", lambda dialog: dialog.accept())
    if day.button("Stop").is_visible():
        day.hand.click(day.button("Stop"))
    day.stack.until(lambda: day.run(run)["state"] in ENDED)
    day.terminal.troupe("stop", day.facts["own"], "--now")
    day.stack.until(lambda: day.run(day.facts["own"])["state"] in ENDED)


def wrong_values(day: Day) -> None:
    """A misspelt and an out-of-range value: each sentence states what to write, and the corrected value is accepted."""
    page, group = day.page, day.page.get_by_label("group size")
    day.open("/experiments/new/?preset=plan_path_duo")
    wrong = page.locator("[data-field='rollout.group_size'] [data-error]")
    day.hand.fill(group, "eight")
    expect(wrong).to_contain_text("whole number")
    day.hand.fill(group, "1")
    expect(wrong).to_contain_text("a group of one has no advantage; use 2 or more")
    expect(page.locator("#preview")).to_contain_text("1 error to fix")
    day.keep(page, "wrong-value")
    day.hand.fill(group, "6")
    expect(page.locator("#preview")).to_contain_text("Ready to launch, with 1 change")
    refused = day.terminal.refused
    assert "did you mean plan_path_duo?" in refused("launch", "plan_path_dou")
    assert "did you mean rollout.group_size?" in refused("launch", "plan_path_duo", "rollout.group_siz=6")
    assert "use 2 or more" in refused("launch", "plan_path_duo", "rollout.group_size=1")
    day.terminal.keep(day, "wrong-value-terminal", "launch", "plan_path_duo", "rollout.group_siz=6")
    accepted = day.terminal.troupe("launch", "plan_path_duo", "rollout.group_size=6", "--dry-run")
    assert "The config is valid" in accepted


def own_environment(day: Day) -> None:
    """The environment of docs/train/custom.md: in one process, then on the stack."""
    config = write_environment(day)
    model = f"policies.pilot.model={planner_of(day)}"
    short = ("run.iterations=2", "rollout.tasks=8", "evaluation.episodes=8", "checkpoint.every=0")
    said = day.terminal.troupe("run", str(config), model, *short)
    assert "finished" in said, said
    day.terminal.keep(day, "own-environment", "run", "harbour.toml", model, *short, shown=said)
    launched = day.terminal.troupe("launch", str(config), model, *short, "--json")
    run = day.terminal.id_of(launched)
    day.await_end(run, "finished")
    day.open(f"/runs/{run}/transcripts/")
    expect(day.page.locator("[data-episodes] tbody tr.row").first).to_contain_text("ships")


def planner_of(day: Day) -> str:
    """A checkpoint of the demonstration's planner, whose words the environment speaks."""
    rows = day.api.call(f"/api/v1/runs/{day.facts['demonstration']}/checkpoints/")["results"]
    path = next(row["path"] for row in rows if not row["removed"])
    return f"runs/{day.facts['demonstration']}/{path}/planner"


def failed_run(day: Day) -> None:
    """An environment that raises: cause and remedy are visible on the run's page, in the list and in the terminal."""
    config = write_environment(day)
    model = f"policies.pilot.model={planner_of(day)}"
    leak = f"environment.path={CODE}.leaking:Leaking"
    run = day.terminal.id_of(
        day.terminal.troupe("launch", str(config), model, leak, "run.name=leaking", "--json")
    )
    day.stack.until(lambda: day.run(run)["state"] in ENDED)
    ended = day.run(run)
    assert ended["state"] == "failed" and ended["remedy"], ended
    day.open("/runs/")
    why = day.page.locator(f'tr[data-run="{run}"] [data-why]')
    expect(why).to_contain_text("the hull leaks")
    expect(why).to_contain_text(ended["remedy"])
    assert fits(why), "the list cuts cause or remedy"
    day.open(f"/runs/{run}/")
    expect(day.page.locator("[data-reason]")).to_contain_text("the hull leaks")
    expect(day.page.locator("[data-remedy]")).to_have_text(ended["remedy"])
    day.keep(day.page, "failed-run")
    listed = day.terminal.troupe("runs", "leaking")
    assert "the hull leaks" in listed and ended["remedy"] in listed


def fits(element: Locator) -> bool:
    """Whether the whole text of an element is visible."""
    return bool(
        element.evaluate(
            "each => each.scrollWidth <= each.clientWidth && each.scrollHeight <= each.clientHeight"
        )
    )


def fork_and_compare(day: Day) -> None:
    """A fork from a checkpoint that the page offers, and its comparison with the parent."""
    parent = day.facts["demonstration"]
    day.open(f"/runs/{parent}/checkpoints/")
    fork = day.page.get_by_role("link", name=re.compile(r"^Fork iteration \d+")).first
    start = int((fork.get_attribute("aria-label") or "").split()[-1])
    day.hand.click(fork)
    expect(day.page.locator("h1")).to_have_text(f"Fork Demonstration at iteration {start}")
    day.hand.fill(day.page.get_by_label("iterations", exact=True), str(start + 4))
    day.hand.fill(day.page.get_by_label("name", exact=True), "fork")
    expect(day.page.locator("#preview")).to_contain_text("Ready to launch")
    day.keep(day.page, "fork")
    day.hand.click(day.button("Launch"))
    expect(day.page.locator("[data-run-head] h1")).to_have_text("fork")
    day.facts["fork"] = run_shown(day.page)
    day.await_end(day.facts["fork"], "finished")
    day.hand.begin()
    day.hand.click(day.link("Compare with parent"))
    expect(day.page.locator("h1")).to_have_text("Compare")
    expect(day.page.locator(".compared .js-plotly-plot").first).to_be_visible()
    assert day.hand.count <= COMPARE_LIMIT
    chips = day.page.get_by_label("Runs", exact=True)
    expect(chips).to_contain_text(day.facts["fork"])
    expect(chips).to_contain_text(parent)
    day.keep(day.page, "compare")
    day.facts["comparison"] = day.page.url


def wrong_walk(day: Day) -> None:
    """Episodes with a right plan and a wrong walk: a list, their number, their share over training, one of them."""
    page = day.page
    day.open(f"/runs/{day.facts['demonstration']}/transcripts/")
    day.hand.fill(page.locator("input[data-query]"), WRONG_WALK)
    day.hand.press("Enter")
    counts = page.locator(".kept-counts")
    expect(counts).to_contain_text(re.compile(r"\d+ of \d+ kept match"))
    matching = shown_number(counts)
    assert matching > 0
    rows = page.locator("[data-episodes] tbody tr.row")
    expect(rows.first).to_be_visible()
    day.keep(page, "query")
    listed = page.url
    day.hand.click(day.link("Share over training"))
    expect(page.locator(".curve-plot .points path").first).to_be_attached()
    expect(page.locator("[aria-labelledby=curve-title]")).to_contain_text(f"{matching} of")
    day.keep(page, "query-curve")
    page.goto(listed)
    day.hand.click(rows.first.get_by_role("link").first)
    expect(page.locator("#turn-1 .said")).to_be_visible()
    expect(page.locator("[data-board-drawing] svg")).to_be_visible()
    day.keep(page, "wrong-walk")


def report(day: Day) -> None:
    """A report of the comparison, with a sentence."""
    page = day.page
    page.goto(day.facts["comparison"])
    day.hand.click(day.button("Write a report"))
    expect(page).to_have_url(re.compile(r"/reports/\d+/edit/"))
    text = page.get_by_label("Text, in Markdown")
    day.hand.fill(text, f"{text.input_value()}\n\n{SENTENCE}\n")
    expect(page.get_by_label("Preview")).to_contain_text(SENTENCE)
    expect(page.get_by_text("saved, version 2")).to_be_visible()
    day.hand.click(day.button("Save and read"))
    expect(page.locator(".report")).to_contain_text(SENTENCE)
    expect(page.locator(".report .js-plotly-plot").first).to_be_visible()
    day.keep(page, "report")
    day.facts["report"] = page.url


def share(day: Day) -> None:
    """A link to the report, opened in a browser without a login: it shows the report, and nothing can be changed."""
    day.page.goto(day.facts["report"])
    day.hand.click(day.button("Share"))
    link = day.page.locator("#new-link").text_content() or ""
    browser = day.page.context.browser
    assert browser
    context = browser.new_context(viewport=day.page.viewport_size, reduced_motion="reduce")
    guest = context.new_page()
    guest.goto(link)
    expect(guest.locator(".report")).to_contain_text(SENTENCE)
    expect(guest.locator(".report .js-plotly-plot").first).to_be_visible()
    for name in ("Edit", "New experiment", "Log out"):
        expect(guest.get_by_role("link", name=name, exact=True)).to_have_count(0)
    expect(guest.get_by_role("button", name="Share")).to_have_count(0)
    day.keep(guest, "share")
    for address in (
        f"{day.facts['report']}edit/",
        f"{day.stack.url}/runs/{day.facts['demonstration']}/config/",
    ):
        guest.goto(address)
        expect(guest.locator("body")).not_to_contain_text(SENTENCE)
        assert "/edit/" not in guest.url or guest.locator("textarea").count() == 0
    context.close()


STEPS = (
    install, demonstration, own_change, wait_for_checkpoint, wrong_values, own_environment, failed_run,
    fork_and_compare, wrong_walk, report, share,
)  # fmt: skip
