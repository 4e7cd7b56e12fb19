"""The panels of a board without panels of its own."""

from webapp.panels.context import board_data

PROGRAMS = ["epoch", "eval/loss", "loss", "lr (body)", "reward"]


def test_runs_of_custom_programs_have_panels_of_their_most_important_names() -> None:
    assert board_data([], [], keys=PROGRAMS)["default"] == [
        {"metrics": ["reward"]},
        {"metrics": ["eval/loss", "loss"], "title": "loss"},
    ]
    assert board_data([], [], keys=[*PROGRAMS, "train/return"])["default"] == [{"metrics": ["train/return"]}]
    assert board_data([], [], (), PROGRAMS)["default"] == []
