"""Tags of components, as templates use them."""

from typing import Any

import pytest
from django.template import Context, Template

from tests.webapp.elements import elements, texts_of


def drawn(source: str, **context: Any) -> str:
    return Template(source).render(Context(context))


def test_a_button_posts_its_fields_and_names_what_it_acts_on() -> None:
    tag = '{% post_button "Revoke" "accounts:token-revoke" 3 kind="small danger" of=name next="/x/" %}'
    html = drawn(tag, name="<b>", csrf_token="secret")
    (form,), (button,) = elements(html, "form"), elements(html, "button")
    assert (form["method"], form["action"]) == ("post", "/account/tokens/3/revoke/")
    fields = {each["name"]: each["value"] for each in elements(html, "input[type=hidden]")}
    assert fields == {"csrfmiddlewaretoken": "secret", "next": "/x/"}
    assert (button.text, button["aria-label"], button["class"]) == (
        "Revoke",
        "Revoke <b>",
        "button small danger",
    )


def test_a_button_without_an_object_has_no_label() -> None:
    html = drawn('{% post_button "Log out" "accounts:logout" form="end" title="now" %}')
    (button,) = elements(html, "form.end button")
    assert button["title"] == "now" and "aria-label" not in button


@pytest.mark.parametrize("options", [["a", "b"], [("a", "a"), ("b", "b")]])
def test_a_select_marks_the_chosen_option(options: list[Any]) -> None:
    html = drawn('{% select_field "Role" "role" options "b" blank="all" %}', options=options)
    assert [each["value"] for each in elements(html, "label select[name=role] option")] == ["", "a", "b"]
    assert texts_of(html, "option[selected]") == ["b"]


def test_a_table_head_has_classes_and_hidden_columns() -> None:
    html = drawn('{% table_head "Run" "Place|num" "Remove|hidden" %}')
    assert texts_of(html, "thead th[scope=col]") == ["Run", "Place", "Remove"]
    assert texts_of(html, "th.num") == ["Place"] and texts_of(html, "th .visually-hidden") == ["Remove"]


@pytest.mark.parametrize(("place", "current"), [("compare", True), ("runs", False)])
def test_a_link_of_the_navigation_is_marked_on_its_pages(place: str, current: bool) -> None:
    (link,) = elements(
        drawn('{% nav_link "Compare" "compare:page" "compare" %}', place=place), "a[href=/compare/]"
    )
    assert ("aria-current" in link) is current


def test_a_question_mark_does_not_repeat_the_label_of_its_field() -> None:
    html = drawn('{% help_button "field" "seed" "run--seed" label_id="f-run-seed-label" %}', user="ada")
    (button,) = elements(html, "button.help-button")
    assert (button["aria-label"], button["aria-describedby"]) == ("Explain", "f-run-seed-label")
    assert button["data-help"] == "/docs/explain/field/?name=run--seed"
    assert drawn('{% help_button "field" "seed" "run--seed" %}') == "", "an exported file has no script"
    head = drawn('{% table_head "@comparison" "N|num|n" "mean|num" %}', user="ada")
    (button,) = elements(head, "th.num .help-button")
    assert button["data-help"] == "/docs/explain/column/?name=comparison--n"


def test_times_in_sentences_are_elements_in_utc() -> None:
    html = drawn("{{ text|with_times }}", text="<b> restarted at 2026-03-01 12:05 UTC.")
    (time,) = elements(html, "time[data-time=moment]")
    assert (time["datetime"], time.text) == ("2026-03-01T12:05:00+00:00", "2026-03-01 12:05 UTC")
    assert "&lt;b&gt; restarted at" in html
