"""Bundles contain each module once, imported modules first, and refuse what they cannot contain."""

from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from webapp.common.static_files import BASE, BundleError, Bundles, bundle_texts, entries


def folder(path: Path, **modules: str) -> Bundles:
    for name, text in modules.items():
        (path / f"{name}.js").write_text(text)
    return Bundles(path)


def test_imported_modules_come_first_and_once(tmp_path: Path) -> None:
    modules = folder(
        tmp_path,
        app="",
        page='import { a as one } from "./a.js";\nimport { b } from "./b.js";\n\none(b);\n',
        a='import { b } from "./b.js";\n\nexport async function a() {\n  return b;\n}\n',
        b="export const b = 1;\n",
    )
    text = modules.text("page.js")
    places = [text.index(f'modules["{name}.js"] ??=') for name in ("b", "a", "page")]
    assert places == sorted(places) and text.count('modules["b.js"] ??=') == 1
    assert 'const { a: one } = modules["a.js"];' in text and "return { a };" in text
    assert "import" not in text and "export" not in text


def test_modules_of_every_page_are_in_one_bundle_alone(tmp_path: Path) -> None:
    modules = folder(
        tmp_path,
        app='import { b } from "./b.js";\n',
        b="export const b = 1;\n",
        page='import { b } from "./b.js";\n',
    )
    assert 'modules["b.js"] ??=' in modules.text(BASE)
    assert 'modules["b.js"] ??=' not in modules.text("page.js")
    assert 'const { b } = modules["b.js"];' in modules.text("page.js")


def test_an_imported_entry_is_loaded_before_and_not_repeated(tmp_path: Path) -> None:
    modules = folder(
        tmp_path,
        app="",
        b="export const b = 1;\n",
        run='import { b } from "./b.js";\n\nexport const feed = b;\n',
        page='import { feed } from "./run.js";\nimport { b } from "./b.js";\n\nfeed(b);\n',
    )
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
