"""Saved views: who sees and changes them, what they are a shortcut for, and which one opens first."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.elements import elements, text_of
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.run_table.saved_views import panel_views, view_save
from webapp.runs.models import Run, SavedView

QUERY = {
    "filter": "run.seed < 3", "sort": "-eval/success:max", "columns": "run.seed,eval/success", "group": "family",
}  # fmt: skip


@pytest.fixture
def viewer(project: Project) -> User:
    eve = User.objects.create_user("vera")
    Membership.objects.create(project=project, user=eve, level=Membership.Level.VIEWER)
    return eve


def of(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def save(api: APIClient, name: str, query: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    answer = api.post("/api/v1/views/", {"name": name, "query": query or {}, **more}, format="json")
    assert answer.status_code == 201, answer.json()
    found: dict[str, Any] = answer.json()
    return found


def test_one_is_saved_changed_replaced_and_removed(api: APIClient, project: Project) -> None:
    made = save(api, " mine ", QUERY)
    assert made["query"] == QUERY and made["name"] == "mine" and made["project"] is None
    path = f"/api/v1/views/{made['id']}/"
    assert api.get(path).json() == made
    again = api.post("/api/v1/views/", {"name": "mine"}, format="json")
    assert again.status_code == 400 and "already" in again.json()["errors"]["name"]
    replaced = save(api, "mine", {"q": "duo", "archived": True}, replace=True)
    assert replaced["id"] == made["id"] and replaced["query"] == {"q": "duo", "archived": "1"}
    assert api.patch(path, {"name": "other", "default": True}, format="json").json()["default"] is True
    save(api, "mine")
    assert api.patch(path, {"name": "mine"}, format="json").status_code == 400
    assert [view["name"] for view in api.get("/api/v1/views/").json()["results"]] == ["mine", "other"]
    assert api.delete(path).json()["deleted"] is True and api.get(path).status_code == 404
    acts = AuditEntry.objects.order_by("pk").values_list("act", flat=True)
    assert list(acts) == ["view.save", "view.save", "view.change", "view.save", "view.remove"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": "a", "query": {"page": "2"}}, "query"),
        ({"name": "a", "query": {"filter": "state ="}}, "filter"),
        ({"name": "a", "query": {"columns": "colour"}}, "columns"),
        ({"name": "a", "query": {"sort": "colour"}}, "sort"),
        ({"name": "a", "query": {"state": "red"}}, "state"),
    ],
)
def test_what_is_no_view_is_refused(
    api: APIClient, project: Project, body: dict[str, Any], field: str
) -> None:
    answer = api.post("/api/v1/views/", body, format="json")
    assert answer.status_code == 400 and field in answer.json()["errors"]
    assert not SavedView.objects.exists()


def test_who_sees_and_changes_which(api: APIClient, project: Project, viewer: User, stranger: User) -> None:
    own, shared = save(api, "same"), save(api, "same", {"state": "failed"}, project="lab")
    assert shared["query"] == {"state": "failed", "project": "lab"}
    theirs = of(viewer)
    assert [view["id"] for view in theirs.get("/api/v1/views/").json()["results"]] == [shared["id"]]
    assert theirs.get(f"/api/v1/views/{own['id']}/").status_code == 404
    path = f"/api/v1/views/{shared['id']}/"
    assert theirs.get(path).status_code == 200
    assert theirs.patch(path, {"name": "x"}, format="json").status_code == 403
    assert theirs.delete(path).status_code == 403
    refused = theirs.post("/api/v1/views/", {"name": "x", "project": "lab"}, format="json")
    assert refused.status_code == 403
    assert save(theirs, "same")["project"] is None
    nobody = of(stranger)
    assert nobody.get("/api/v1/views/").json()["results"] == [] and nobody.get(path).status_code == 404
    assert nobody.post("/api/v1/views/", {"name": "x", "project": "lab"}, format="json").status_code == 404


def test_a_view_is_a_shortcut_for_its_address(api: APIClient, run: Run, ada: Client) -> None:
    made = save(api, "mine", QUERY)
    short = ada.get("/runs/", {"view": made["id"]})
    assert short.status_code == 302 and short.url == made["links"]["page"]  # type: ignore[attr-defined]
    page = ada.get(made["links"]["page"])
    assert page.status_code == 200 and page.context["grouped"]
    assert [each["current"] for each in page.context["views"]] == [True]
    assert page.context["filters"] == QUERY
    for wrong in ("0", "x", "9" * 30):
        assert ada.get("/runs/", {"view": wrong}).status_code == 404


def test_which_one_opens_first(
    api: APIClient, user: User, project: Project, viewer: User, client: Client
) -> None:
    for view in (save(api, "a"), save(api, "b", QUERY), save(api, "c", {}, project="lab")):
        api.patch(f"/api/v1/views/{view['id']}/", {"default": True}, format="json")
    assert list(SavedView.objects.filter(default=True).values_list("name", flat=True)) == ["b", "c"]
    client.force_login(user)
    assert "run.seed" in client.get("/runs/").url  # type: ignore[attr-defined]
    of_project = client.get("/runs/?project=lab", follow=True)
    assert of_project.redirect_chain == [("/runs/?project=lab&sort=-created", 302)]
    assert client.get("/runs/?sort=-created").status_code == 200
    client.force_login(viewer)
    assert client.get("/runs/").status_code == 200
    assert client.get("/runs/?project=lab").status_code == 302


def test_the_page_keeps_what_it_shows(project: Project, ada: Client) -> None:
    body = {"name": "kept", "query": "filter=state+%3D+failed&page=3&columns=run.seed", "default": "on"}
    answer = ada.post("/runs/views/", body)
    view = SavedView.objects.get()
    assert view.query == {"filter": "state = failed", "columns": "run.seed"} and view.default
    assert answer.url == "/runs/?filter=state+%3D+failed&columns=run.seed"  # type: ignore[attr-defined]
    page = ada.get(answer.url)  # type: ignore[attr-defined]
    assert "The view kept is saved." in text_of(page)
    assert text_of(page, ".views [aria-current]").startswith("kept")
    taken = ada.post("/runs/views/", {**body, "next": "/runs/?q=x"}, follow=True)
    assert "already" in taken.content.decode() and taken.redirect_chain[0][0] == "/runs/?q=x"
    for act, data in (("rename", {"name": "new"}), ("no-default", {})):
        assert ada.post(f"/runs/views/{view.pk}/{act}/", data).status_code == 302
    view.refresh_from_db()
    assert view.name == "new" and not view.default
    assert ada.post(f"/runs/views/{view.pk}/explode/").status_code == 404
    ada.post(f"/runs/views/{view.pk}/remove/")
    assert not SavedView.objects.exists()


def test_the_page_with_charts_reads_its_address(run: Run, ada: Client) -> None:
    page = ada.get("/runs/", {"charts": "1", "shown": run.pk, "by": "run.seed", "band": "ci"})
    assert [
        option["value"] for option in elements(page, "[data-group-by] option") if "selected" in option
    ] == ["run.seed"]
    assert [option["value"] for option in elements(page, "[data-band] option") if "selected" in option] == [
        "ci"
    ]
    assert [eye["data-eye"] for eye in elements(page, "[data-eye]")] == [run.pk]
    assert (
        ada.get("/runs/", {"charts": "1", "panels": "[{", "shown": "nothing", "group": "family"}).status_code
        == 200
    )
    assert ada.get(f"/runs/{run.pk}/curves/").status_code == 200


def test_views_keep_panels_and_refuse_invalid_ones(user: User, project: Project) -> None:
    panels = '[{"metrics":["eval/success - train/success"],"width":2}]'
    view = view_save(user, "gap", {"charts": "1", "panels": panels, "by": "family"}, project)
    assert view.query == {"charts": "1", "panels": panels, "by": "family", "project": "lab"}
    assert [each["view"] for each in panel_views(user, project)] == [view]
    for wrong in ("[{", '[{"width":4}]', '[{"metrics":["a -"]}]', '[{"color":"red"}]'):
        with pytest.raises(ConfigError) as raised:
            view_save(user, "wrong", {"charts": "1", "panels": wrong})
        assert "panels" in raised.value.fields
