"""Code and machine of a run on its Config tab; artifacts that it made."""

import time

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.looks import look_at
from tests.end_to_end.seed import Story
from webapp.accounts.models import User
from webapp.artifacts.models import Artifact, ArtifactAlias, ArtifactFile, ArtifactUse, ArtifactVersion
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_code_and_machine_are_on_the_config_tab(page: Page, ada: User) -> None:
    run = run_make(ada)
    tell(run, Story(run.pk, start=time.time() - 30).opening())
    page.goto(f"/runs/{run.pk}/config/")
    record = page.get_by_role("region", name="Code and machine")
    expect(record.get_by_text("boats = 3")).to_be_hidden()
    record.get_by_text("Diff against the commit").click()
    expect(record.get_by_text("boats = 3")).to_be_visible()
    expect(record.get_by_role("button", name="Copy")).to_be_visible()
    look_at(page, "provenance", [("config", f"/runs/{run.pk}/config/#provenance")])


def artifact_make(run: Run) -> Artifact:
    """A data set of two versions that a run made; it used the first, which has an alias."""
    artifact = Artifact.objects.create(project=run.project, name="grid-tasks", type="dataset")
    for number in range(2):
        digest, size = f"{number}" * 64, 5000 + number
        facts = {"digest": digest, "size": size, "run": run, "metadata": {"rows": 200}}
        version = ArtifactVersion.objects.create(artifact=artifact, number=number, **facts)
        ArtifactFile.objects.create(version=version, path="train/part-0.jsonl", size=size, sha256=digest)
    first = artifact.versions.get(number=0)
    ArtifactAlias.objects.create(artifact=artifact, name="stable", version=first)
    ArtifactUse.objects.create(version=first, run=run, wanted="grid-tasks:stable")
    return artifact


@pytest.mark.extended
def test_an_alias_is_moved_on_the_page_of_an_artifact(page: Page, ada: User) -> None:
    artifact = artifact_make(run_make(ada))
    page.goto("/artifacts/")
    page.get_by_role("link", name="grid-tasks").click()
    page.get_by_role("textbox", name="Alias").fill("production")
    page.get_by_role("combobox", name="Version").select_option("v1")
    page.get_by_role("button", name="Set alias").click()
    expect(page.get_by_role("button", name="Remove the alias production")).to_be_visible()
    questions: list[str] = []
    page.on("dialog", lambda dialog: (questions.append(dialog.message), dialog.dismiss()))
    page.get_by_role("button", name="List versions to delete").click()
    expect(page.locator("main")).to_contain_text("Would delete")
    page.wait_for_load_state()
    assert not questions, "this button has no question"
    page.get_by_role("button", name="Delete unused versions").click()
    assert questions == ["Delete the contents of all other versions without an alias and a use by a run?"]
    page.get_by_role("button", name="Delete v1").click()
    assert questions[1:] == ["Delete the contents of v1?"] and not artifact.versions.filter(removed=True)
