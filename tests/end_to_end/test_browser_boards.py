"""Replay of boards of every kind, in a browser."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.boards import CHASE, FIELD, LINES, PILES, PLANE, QUEENS, SOKOBAN, SUDOKU
from tests.end_to_end.conftest import run_told, tell
from tests.end_to_end.looks import look_at
from tests.end_to_end.seed import HOSTILE
from webapp.accounts.models import User
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
Boards = list[Any]


def played(ada: User, **boards: Boards) -> dict[str, Episode]:
    """An episode for each list of boards: one before every answer, the last one at the end."""
    run, story = run_told(ada, state="running", ago=300)
    for name, pictures in boards.items():
        episode = story.episode(1, 0, "train", False, "train/0")
        turn = episode["turns"][0]
        turns = [turn | {"index": place, "board": board} for place, board in enumerate(pictures[:-1])]
        tell(run, [episode | {"episode": name, "turns": turns, "final_board": pictures[-1]}])
    return {name: Episode.objects.get(name=name) for name in boards}


def address(episode: Episode) -> str:
    return f"/runs/{episode.run_id}/episodes/{episode.pk}/"


def at_the_end(page: Page) -> None:
    page.locator("[data-board-scrub]").focus()
    page.keyboard.press("End")
    picture = page.locator("[data-board-drawing]").get_by_role("img")
    expect(picture).to_have_attribute("aria-label", re.compile("at the end"))


def test_boards_follow_the_answers(page: Page, ada: User) -> None:
    found = played(ada, sokoban=SOKOBAN, sudoku=SUDOKU, plane=PLANE)
    drawing = page.locator("[data-board-drawing]")
    page.goto(address(found["sokoban"]))
    expect(drawing.get_by_role("img")).to_have_attribute(
        "aria-label", "Grid of 5 by 6, agent at row 2, column 2, 1 of 2 boxes on goals, before #1 of 2"
    )
    assert drawing.locator(".wall").count() == 18 and drawing.locator(".box.placed").count() == 1
    page.keyboard.press("j")
    expect(page.locator("[data-board-note]")).to_have_text("before #2 of 2")
    expect(drawing.locator(".trail")).to_have_attribute("points", "1.5,1.5 2.5,1.5")
    at_the_end(page)
    expect(drawing.locator(".box.placed")).to_have_count(2)

    page.goto(address(found["sudoku"]))
    expect(drawing.locator(".digit")).to_have_text(["1", "4", "3", "2"])
    expect(drawing.locator(".fresh")).to_have_count(0)
    at_the_end(page)
    expect(drawing.locator(".digit.wrong")).to_have_text("4")
    expect(drawing.locator(".fresh")).to_have_count(1)
    assert drawing.locator(".fresh").get_attribute("x") == "2" and drawing.locator(".thick").count() == 6

    page.goto(address(found["plane"]))
    at_the_end(page)
    agents = drawing.locator(".entity.agent")
    centres = {
        each.text_content(): (each.get_attribute("cx"), each.get_attribute("cy")) for each in agents.all()
    }
    assert {name: (round(float(x or 0), 2), round(float(y or 0), 2)) for name, (x, y) in centres.items()} == {
        "planner": (50.0, 66.67), "executor": (83.33, 50.0), "scout": (50.0, 50.0)
    }, "100 units for 3 of the plane's, y upwards"  # fmt: skip
    assert drawing.locator("polyline.trail").count() == 3 and drawing.locator(".velocity").count() == 2
    tones = {each.text_content(): each.get_attribute("data-tone") for each in agents.all()}
    assert (tones["planner"], tones["executor"]) == ("1", "2"), "roles have their colour"


@pytest.mark.extended
def test_queens_and_blocks_are_drawn(page: Page, ada: User) -> None:
    found = played(ada, queens=QUEENS, piles=PILES)
    drawing = page.locator("[data-board-drawing]")
    page.goto(address(found["queens"]))
    expect(drawing.get_by_role("img")).to_have_attribute(
        "aria-label", "Grid of 4 by 4, 3 of 4 queens attacked, before #1 of 1"
    )
    expect(drawing.locator(".queen.attacked")).to_have_count(3)
    at_the_end(page)
    expect(drawing.locator(".queen.attacked")).to_have_count(0)
    expect(drawing.locator(".queen")).to_have_count(4)

    page.goto(address(found["piles"]))
    expect(drawing.get_by_role("img")).to_have_attribute(
        "aria-label",
        "b under a under c, d; goal: c under b under a, d; 1 of 4 blocks in place, before #1 of 1",
    )
    at_the_end(page)
    expect(drawing.locator("rect.block.placed")).to_have_count(2)
    expect(drawing.locator("text.block.wanted")).to_have_text(["c", "b", "a", "d"])


CONTRAST = """(shapes) => {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.querySelector(".board .paper, .board .cell")).fill);
  return shapes.map((shape) => [shape.textContent, getComputedStyle(shape).fill, light(getComputedStyle(shape).fill)])
    .map(([name, fill, own]) => [name, fill, (Math.max(own, ground) + 0.05) / (Math.min(own, ground) + 0.05)]);
}"""
"""Of shapes: [name, fill, contrast with the ground that they stand on] (WCAG 2.2)."""


@pytest.mark.extended
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_agents_of_one_side_share_its_colour_in_shades(page: Page, ada: User, colours: Any) -> None:
    found = played(ada, chase=[None, *CHASE], field=[None, *FIELD])
    page.emulate_media(color_scheme=colours)
    page.goto(address(found["chase"]))
    at_the_end(page)
    drawing, legend = page.locator("[data-board-drawing]"), page.locator("[data-board-legend] li")
    agents = drawing.locator(".entity.agent")
    looks = {
        each.text_content(): (each.get_attribute("data-tone"), each.get_attribute("data-shade"))
        for each in agents.all()
    }
    hunters = {f"hunter_{number}": ("1", str(number)) for number in range(3)}
    assert looks == hunters | {"hare": ("2", "0")}
    seen = agents.evaluate_all(CONTRAST)
    assert len({fill for _, fill, _ in seen}) == 4 and min(contrast for *_, contrast in seen) >= 3
    expect(drawing.locator(".entity:not(.agent)[data-tone]")).to_have_count(0)
    expect(legend).to_have_text(["hunters", "prey", "landmark", "obstacle"])

    page.goto(address(found["field"]))
    at_the_end(page)
    expect(drawing.locator("text.on")).to_have_text(["0", "1", "2", "ha"])
    expect(legend).to_have_text(["goal", "hunters", "prey"], use_inner_text=True)
    seen = drawing.locator(".other").evaluate_all(CONTRAST)
    assert min(contrast for *_, contrast in seen) >= 3
    boxes = [each.bounding_box() for each in drawing.locator("g .other").all()]
    assert len(boxes) == 2 and boxes[0] and boxes[1]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"], "beside each other on one square"


@pytest.mark.extended
def test_it_plays(page: Page, ada: User) -> None:
    found = played(ada, sokoban=SOKOBAN)
    page.goto(address(found["sokoban"]))
    expect(page.locator("[data-board-note]")).to_contain_text("before #1")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("[data-board-note]")).to_have_text("at the end")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


@pytest.mark.extended
def test_boards_that_cannot_be_drawn_are_told_and_hurt_nothing(page: Page, ada: User) -> None:
    odd: Boards = [
        {"kind": HOSTILE}, {"kind": "grid", "rows": 10**9, "columns": 10**9, "cells": []}, {"kind": "constructor"},
        {"kind": "grid", "rows": 2, "columns": 2, "cells": [[0, 0, HOSTILE], [7, 0, "wall"]]},
        {"kind": "plane", "bounds": [0, 0, 0, 0], "entities": []}, {"kind": "sudoku", "size": "9"}, {}, None,
        {"kind": "plane", "bounds": [0, 0, 1, 1], "entities": [
            {"name": HOSTILE, "kind": HOSTILE, "x": 0.5, "y": 0.5, "radius": 0.1}]},
        {"kind": "grid", "rows": 1, "columns": 1, "cells": [[0, 0, HOSTILE]]},
    ]  # fmt: skip
    said = [
        "Boards of the kind “<script>", "rows is not a whole number", "of the kind “constructor”",
        "row is not a whole number from 0 to 1", "bounds are empty", "size is not a whole number", "kind “undefined”",
        "No board for this step", "landmark", HOSTILE,
    ]  # fmt: skip
    found = played(ada, odd=odd)
    page.goto(address(found["odd"]))
    board = page.locator("[data-board]")
    for place, words in enumerate(said):
        if place:
            page.locator("[data-board-scrub]").focus()
            page.keyboard.press("ArrowRight")
        expect(board).to_contain_text(words)
    assert page.evaluate("window.hacked") is None


@pytest.mark.extended
def test_fits_and_is_accessible(page: Page, ada: User) -> None:
    kinds = {
        "sokoban": SOKOBAN, "queens": QUEENS, "sudoku": SUDOKU, "piles": PILES, "plane": PLANE, "lines": LINES,
    }  # fmt: skip
    episodes = played(ada, **kinds)
    look_at(page, "board", [(name, f"{address(episode)}#ending") for name, episode in episodes.items()])


@pytest.mark.extended
def test_lines_say_what_was_right_by_more_than_colour(page: Page, ada: User) -> None:
    page.goto(address(played(ada, lines=LINES)["lines"]) + "#turn-1")
    page.locator("[data-board-scrub]").focus()
    page.keyboard.press("End")
    lines = page.locator("[data-board-drawing] .board-lines")
    expect(lines).to_have_attribute("aria-label", "4 lines, at the end")
    program = LINES[-1]["lines"][2]["text"]
    expect(lines.locator("code")).to_have_text(["7 - 3", "✗ 7 + 3 = 10", program, "✓ 4"])
    assert lines.locator("code").nth(2).inner_text() == program, "drawn on lines of its own"
