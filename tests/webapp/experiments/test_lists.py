"""Lists in the form: what is shown, sent back, is the list that it was."""

import pytest

from webapp.experiments.fields import Field, spell
from webapp.experiments.forms import posted_value

ITEMS = [
    (["a", "b"], "a, b"),
    ([], ""),
    (["</answer>"], "</answer>"),
    (["Walls: north, west.", "east"], '["Walls: north, west.", "east"]'),
    (["\n", ","], r'["\n", ","]'),
    (["[x]"], '["[x]"]'),
    ([" b"], '[" b"]'),
    (["a", ""], '["a", ""]'),
]


def field(value: list[str]) -> Field:
    return Field("team.roles.planner.examples", "examples", "", "list", value, value)


@pytest.mark.parametrize(("items", "shown"), ITEMS, ids=str)
def test_a_list_of_texts_survives_the_form(items: list[str], shown: str) -> None:
    assert spell(items) == shown
    assert posted_value(field(items), {"team.roles.planner.examples": shown}) == items


def test_an_array_that_is_none_stays_text_for_the_config_to_refuse() -> None:
    assert posted_value(field([]), {"team.roles.planner.examples": '["a'}) == '["a'
