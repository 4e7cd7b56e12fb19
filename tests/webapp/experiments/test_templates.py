"""Templates: saved, started from, deleted; by page and by API."""

import json

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.elements import elements, text_of, texts_of
from tests.webapp.pages.test_experiment import posted
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.experiments.models import Template
from webapp.experiments.services import template_save
from webapp.runs.models import Run

NEW = "/experiments/new/"
SAVE = "/experiments/templates/save/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(client: Client, user: User, project: Project) -> Client:
    client.force_login(user)
    return client


@pytest.fixture
def small(user: User, project: Project) -> Template:
    changes = {"rollout.group_size": 4, "run.iterations": 5}
    return template_save(user, project, "small", "plan_path_duo", changes, "for a quick look")


def test_the_form_saves_what_it_holds(ada: Client) -> None:
    form = posted(ada) | {
        "rollout.group_size": "4",
        "template_name": " small ",
        "template_description": "quick",
    }
    answer = ada.post(SAVE, form)
    template = Template.objects.get()
    assert answer.status_code == 302 and answer["Location"] == f"{NEW}?template={template.pk}"
    assert (template.name, template.description, template.preset) == ("small", "quick", "plan_path_duo")
    assert template.overrides == {"rollout.group_size": 4}
    assert AuditEntry.objects.filter(act="template.save", target=str(template.pk)).exists()
    assert not Run.objects.exists()
    page = ada.get(answer["Location"]).content.decode()
    assert "Saved as the template small." in page and 'name="rollout.group_size" value="4"' in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"template_name": ""}, "give the template a name"),
        ({"template_name": "small"}, "choose another name, or replace it"),
        ({"template_name": "x", "rollout.tasks": "many"}, "The template is not saved"),
        ({"template_name": "x", "project": "elsewhere"}, "Select a project"),
        ({"template_name": "x", "preset": "gone"}, "no preset"),
    ],
)
def test_what_was_written_is_kept_where_it_is_refused(
    ada: Client, small: Template, change: dict[str, str], said: str
) -> None:
    form = posted(ada) | {"template_description": "words", "rollout.group_size": "6"} | change
    answer = ada.post(SAVE, form)
    html = answer.content.decode()
    assert answer.status_code == 400 and said in html and "words" in texts_of(html, "textarea")
    assert 'name="rollout.group_size" value="6"' in html or "preset" in change
    assert Template.objects.count() == 1


def test_a_template_may_be_replaced(ada: Client, small: Template) -> None:
    form = posted(ada) | {"template_name": "small", "template_replace": "1", "rollout.group_size": "6"}
    assert ada.post(SAVE, form).status_code == 302
    small.refresh_from_db()
    assert small.overrides == {"rollout.group_size": 6} and small.description == ""


def test_the_form_starts_from_one(ada: Client, small: Template) -> None:
    page = ada.get(NEW, {"template": small.pk, "run.seed": "3"})
    values = {each["name"]: each.attributes.get("value") for each in elements(page, "input[name]")}
    assert values["rollout.group_size"] == "4" and values["run.seed"] == "3"
    assert "for a quick look" in text_of(page) and "with 3 changes from plan_path_duo" in text_of(page)
    assert ada.get(NEW, {"template": 10**9}).status_code == 404
    Template.objects.update(preset="gone")
    broken = ada.get(NEW, {"template": small.pk})
    assert broken.status_code == 400 and "no preset" in broken.content.decode()


def test_deleted_by_those_who_may(ada: Client, small: Template, stranger: User) -> None:
    eve = Client()
    eve.force_login(stranger)
    address, api = f"/experiments/templates/{small.pk}/delete/", f"/api/v1/templates/{small.pk}/"
    assert eve.post(address).status_code == 404 and eve.delete(api).status_code == 404
    assert eve.get(NEW, {"template": small.pk}).status_code == 404
    assert eve.get("/api/v1/templates/").json() == {"results": []}
    Membership.objects.create(project=small.project, user=stranger, level=Membership.Level.VIEWER)
    assert "for a quick look" in eve.get(NEW).content.decode()
    assert "Delete the template" not in eve.get(NEW).content.decode()
    assert eve.post(address).status_code == 403 and eve.delete(api).status_code == 403
    assert eve.get(api).json()["overrides"] == small.overrides
    with pytest.raises(PermissionDenied):
        template_save(stranger, small.project, "mine", "plan_path_duo", {})
    assert ada.post(address).status_code == 302
    assert not Template.objects.exists()


def test_descriptions_are_text(ada: Client, user: User, project: Project) -> None:
    template_save(user, project, "<b>x</b>", "plan_path_duo", {}, "<script>alert(1)</script>")
    html = ada.get(NEW).content.decode()
    assert "<script>alert" not in html and "&lt;b&gt;x&lt;/b&gt;" in html


def test_the_api_saves_launches_and_deletes(ada: Client, run: Run) -> None:
    def post(path: str, data: object) -> tuple[int, dict[str, object]]:
        answer = ada.post(path, json.dumps(data), "application/json")
        return answer.status_code, answer.json()

    body: dict[str, object] = {"name": "small", "preset": "plan_path_duo", "overrides": {"run.iterations": 5}}
    status, made = post("/api/v1/templates/", body)
    assert (status, made["name"], made["project"]) == (201, "small", "lab")
    for wrong, path in [
        ({"name": "small"}, "name"),
        ({"name": 3}, "name"),
        ({"name": "x", "overrides": {"run.iterations": 0}}, "run.iterations"),
        ({"name": "x", "overrides": [1]}, "overrides"),
        ({"name": "x", "run": run.pk}, "preset"),
        ({"nome": "x"}, "nome"),
    ]:
        status, answer = post("/api/v1/templates/", {**body, **wrong})
        assert status == 400 and list(answer["errors"]) == [path], wrong  # type: ignore[call-overload]
    status, launched = post(f"/api/v1/templates/{made['id']}/launch/", {"overrides": {"run.seed": 7}})
    started = Run.objects.get(pk=launched["id"])
    assert (status, started.iterations, started.config["run"]["seed"], started.name) == (201, 5, 7, "small")
    assert post(f"/api/v1/templates/{made['id']}/launch/", {"overrides": {"run.seed": -7}})[0] == 400
    assert ada.delete(f"/api/v1/templates/{made['id']}/").json()["deleted"] is True
    assert ada.get("/api/v1/templates/").json() == {"results": []}


def test_a_run_is_kept_as_a_template(ada: Client, run: Run) -> None:
    run.config["algorithm"]["clip_low"] = 0.3
    run.save()
    body = {"name": "from a run", "run": run.pk}
    made = ada.post("/api/v1/templates/", json.dumps(body), "application/json").json()
    assert made["overrides"] == {"algorithm.clip_low": 0.3} and made["preset"] == "plan_path_duo"


def test_hostile_values_are_refused(user: User, project: Project) -> None:
    for changes in ({"algorithm.kl_coefficient": float("inf")}, {"run.description": "a\0b"}):
        with pytest.raises(ConfigError):
            template_save(user, project, "x", "plan_path_duo", changes)
    with pytest.raises(ConfigError):
        template_save(user, project, "x\0", "plan_path_duo", {})
