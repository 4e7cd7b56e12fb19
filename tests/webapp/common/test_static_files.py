"""What pages are made of: components, static files and compiled templates."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext

from tests.architecture.source import ROOT
from tests.webapp.elements import elements
from webapp.accounts.models import Project, User
from webapp.common.compiled import CompiledQuery
from webapp.common.static_files import BASE, BundleError, Bundles, bundle_texts, entries
from webapp.runs.models import Run


def folder(path: Path, **modules: str) -> Bundles:
    for name, text in modules.items():
        (path / f"{name}.js").write_text(text)
    return Bundles(path)


def test_imported_modules_come_first_and_once(tmp_path: Path) -> None:
    modules = folder(
        tmp_path, app="", page='import { a as one } from "./a.js";\nimport { b } from "./b.js";\n\none(b);\n',
        a='import { b } from "./b.js";\n\nexport async function a() {\n  return b;\n}\n', b="export const b = 1;\n",
    )  # fmt: skip
    text = modules.text("page.js")
    places = [text.index(f'modules["{name}.js"] ??=') for name in ("b", "a", "page")]
    assert places == sorted(places) and text.count('modules["b.js"] ??=') == 1
    assert 'const { a: one } = modules["a.js"];' in text and "return { a };" in text
    assert "import" not in text and "export" not in text


def test_modules_of_every_page_are_in_one_bundle_alone(tmp_path: Path) -> None:
    modules = folder(
        tmp_path, app='import { b } from "./b.js";\n', b="export const b = 1;\n", page='import { b } from "./b.js";\n',
    )  # fmt: skip
    assert 'modules["b.js"] ??=' in modules.text(BASE)
    assert 'modules["b.js"] ??=' not in modules.text("page.js")
    assert 'const { b } = modules["b.js"];' in modules.text("page.js")


def test_an_imported_entry_is_loaded_before_and_not_repeated(tmp_path: Path) -> None:
    modules = folder(
        tmp_path, app="", b="export const b = 1;\n", run='import { b } from "./b.js";\n\nexport const feed = b;\n',
        page='import { feed } from "./run.js";\nimport { b } from "./b.js";\n\nfeed(b);\n',
    )  # fmt: skip
    text = modules.text("page.js", ["app.js", "run.js", "page.js"])
    assert text.count("??= (() =>") == 1 and 'const { feed } = modules["run.js"];' in text


def test_modules_that_import_each_other_are_refused(tmp_path: Path) -> None:
    modules = folder(tmp_path, app="", a='import { b } from "./b.js";\n', b='import { a } from "./a.js";\n')
    with pytest.raises(BundleError, match=r"a\.js -> b\.js -> a\.js"):
        modules.text("a.js")


@pytest.mark.parametrize(
    "statement",
    [
        "export default 1;",
        'import all from "./b.js";',
        'export * from "./b.js";',
        'const b = await import("./b.js");',
        "export let b = 1;",
    ],
)
def test_other_forms_of_import_and_export_are_refused(tmp_path: Path, statement: str) -> None:
    modules = folder(tmp_path, app="", a=f"{statement}\n", b="")
    with pytest.raises(BundleError, match=r"a\.js"):
        modules.text("a.js")


def test_every_script_that_a_page_names_has_a_bundle() -> None:
    static, templates = ROOT / "webapp" / "static", ROOT / "webapp" / "templates"
    texts = bundle_texts(static, templates)
    assert entries(templates) <= set(texts) and {BASE, "run.js", "transcripts/stream.js"} <= set(texts)
    assert texts["base.css"].startswith((static / "css" / "tokens.css").read_text())


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


Make = Callable[..., Run]


@pytest.fixture
def make(project: Project, user: User) -> Make:
    """Stores a run."""
    return lambda **fields: Run.objects.create(
        **{"project": project, "owner": user, "name": "r", "config": {}, "iterations": 9} | fields
    )


def test_rows_are_those_of_the_queryset_for_other_parameters(make: Make) -> None:
    first, second = make(config={"a": [1]}, tags=["x"]), make(config={"a": [2]})
    query = CompiledQuery(lambda key: Run.objects.filter(pk=key))
    assert query(first.pk) == [first] and query(second.pk) == [second]
    assert query("unknown") == [] and query.first("unknown") is None
    again = query.first(first.pk)
    assert again is not None and (again.config, again.tags) == ({"a": [1]}, ["x"]), "JSON is read"
    assert again.project == first.project, "related objects are loaded when they are used"


def test_the_queryset_is_made_once(make: Make) -> None:
    made = []

    def of_key(key: str) -> Any:
        made.append(key)
        return Run.objects.filter(pk=key)

    query = CompiledQuery(of_key)
    keys = [make().pk for _ in range(3)]
    assert [query(key)[0].pk for key in keys] == keys
    assert made == keys[:1]


def test_several_parameters_have_the_order_of_the_sql(make: Make) -> None:
    runs = [make(iteration=iteration) for iteration in (1, 2, 3)]
    right = CompiledQuery(
        lambda project, least: (
            Run.objects.filter(project=project).filter(iteration__gte=least).order_by("-iteration")
        )
    )
    assert right(runs[0].project_id, 2) == [runs[2], runs[1]]
    sorted_names = CompiledQuery(
        lambda project, least: Run.objects.filter(project=project, iteration__gte=least)
    )
    with pytest.raises(ValueError, match="has the parameters .* one filter"):
        sorted_names(runs[0].project_id, runs[0].project_id + 1)


def test_equal_parameters_do_not_hide_a_wrong_order(make: Make) -> None:
    project = make().project_id
    swapped = CompiledQuery(
        lambda project, least: Run.objects.filter(iteration__gte=least).filter(project=project)
    )
    assert swapped(project, project) == []
    with pytest.raises(ValueError, match="has the parameters"):
        swapped(project, project + 1)


def test_deferred_fields_and_annotations_are_kept(make: Make) -> None:
    run = make(config={"a": 1}, state="running")
    query = CompiledQuery(
        lambda key: Run.objects.defer("config", "facts").annotate(slug=F("project__slug")).filter(pk=key)
    )
    found: Any = query(run.pk)[0]
    assert found.get_deferred_fields() == {"config", "facts"}
    assert found.slug == run.project.slug
    found.iteration = 7
    found.save()
    run.refresh_from_db()
    assert (run.iteration, run.config) == (7, {"a": 1}), "a save leaves deferred fields as they are"


def test_a_locking_query_locks_its_row(make: Make) -> None:
    run = make()
    query = CompiledQuery(lambda key: Run.objects.select_for_update(nowait=True).filter(pk=key))
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        assert query(run.pk) == [run]
    assert queries.captured_queries[0]["sql"].endswith("FOR UPDATE NOWAIT")
