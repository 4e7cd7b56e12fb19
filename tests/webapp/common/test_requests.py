"""What holds for every request and answer."""

import gzip
import json

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from webapp.accounts.models import ApiToken
from webapp.accounts.tokens import token_create
from webapp.common.middleware import CompressedText
from webapp.common.redirects import local_address
from webapp.runs.models import Run


@pytest.mark.parametrize(
    "address", ["/runs/?project=%00", "/runs/?a%00b=1", "/compare/?runs=a%00", "/api/v1/runs/?x=%00"]
)
def test_nul_in_a_query_is_answered_400(ada: Client, run: Run, address: str) -> None:
    answer = ada.get(address)
    assert answer.status_code == 400
    assert "NUL" in answer.content.decode()
    assert answer["Content-Type"].startswith("application/json" if "/api/" in address else "text/html")


@pytest.mark.parametrize("address", ["/runs/%00/", "/jobs/a%00b/", "/api/v1/runs/%00/", "/account/link/%00/"])
def test_nul_in_a_path_is_answered_404(ada: Client, address: str) -> None:
    assert ada.get(address).status_code == 404


@pytest.mark.parametrize(
    "address", ["/experiments/new/", "/runs/views/", "/jobs/start/dry_run/", "/reports/new/"]
)
def test_nul_in_a_form_is_answered_400(ada: Client, run: Run, address: str) -> None:
    assert ada.post(address, {"project": "\0", "preset": "plan_path_duo"}).status_code == 400
    assert Run.objects.count() == 1


def test_nul_in_a_json_body_is_answered_400(ada: Client, run: Run) -> None:
    body = '{"name": "a\\u0000b"}'
    assert ada.post("/api/v1/projects/", body, content_type="application/json").status_code == 400


@pytest.mark.parametrize(
    "place",
    [
        "x",
        "runs:list",
        "//evil.example",
        "https://evil.example/",
        "",
        "/\\evil.example",
        "javascript:alert(1)",
    ],
)
def test_a_place_that_is_no_page_of_ours_is_not_redirected_to(place: str) -> None:
    assert local_address(place, "/runs/") == "/runs/"


def test_an_export_of_an_unknown_kind_is_answered_400(ada: Client, run: Run) -> None:
    made = ada.post("/reports/new/", {"title": "a", "project": "lab"})
    page = made["Location"].removesuffix("edit/")
    answer = ada.get(f"{page}export/?as=nonsense")
    assert answer.status_code == 400
    assert "md, html" in answer.content.decode()


def test_pages_behind_a_login_are_not_stored(ada: Client, run: Run) -> None:
    for address in ("/runs/", f"/runs/{run.pk}/", "/reports/", "/api/v1/runs/", "/nothing/"):
        assert "no-store" in ada.get(address)["Cache-Control"], address
    secret = token_create(run.owner, "t", [ApiToken.Scope.READ])[1]
    answer = Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/runs/")
    assert "no-store" in answer["Cache-Control"]


def test_answers_to_strangers_may_be_stored() -> None:
    assert "Cache-Control" not in Client().get("/nothing/")


def test_pages_and_json_are_compressed_and_downloads_are_not(ada: Client, run: Run) -> None:
    page = ada.get("/runs/", headers={"Accept-Encoding": "gzip"})
    assert page["Content-Encoding"] == "gzip" and b"<!doctype html>" in gzip.decompress(page.content)
    reply = ada.get(f"/api/v1/runs/{run.pk}/", headers={"Accept-Encoding": "gzip"})
    assert json.loads(gzip.decompress(reply.content))["id"] == run.pk
    assert "Content-Encoding" not in ada.get("/runs/")
    weights = CompressedText(
        lambda request: HttpResponse(b"0" * 1000, content_type="application/octet-stream")
    )
    request = RequestFactory().get("/", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in weights(request)
