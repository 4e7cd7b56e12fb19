"""Share links: one thing, read-only, without an account; everything else stays closed."""

import re
from datetime import timedelta
from typing import Any, get_args

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from tests.end_to_end.seed import Story, encoded
from training_core.errors import ConfigError
from troupe_client.documents.shares import ShareBody
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Run
from webapp.shares.access import EPISODE_VIEWS, KINDS
from webapp.shares.models import ShareLink
from webapp.shares.services import share_link, share_make, share_path, share_revoke
from webapp.transcripts.models import EpisodeNote


@pytest.fixture
def told(run: Run) -> Run:
    """A run with curves, transcripts, a note and a label."""
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    story = Story(run.pk)
    batch_store(run.pk, encoded(story.opening()), "")
    batch_store(run.pk, encoded(story.iterations(0, 4, whole=1)), "")
    batch_store(run.pk, encoded(story.media(1)), "")
    run.refresh_from_db()
    EpisodeNote.objects.create(
        episode=run.episodes.order_by("pk").first(), author=run.owner, label="leak", text="between us"
    )
    return run


@pytest.fixture
def other(told: Run) -> Run:
    """Another run of the same project."""
    return Run.objects.create(
        project=told.project, owner=told.owner, name="the other", config=told.config, iterations=1
    )


def visitor(secret: str) -> Client:
    """A browser that has followed the link."""
    client = Client()
    assert client.get(share_path(secret)).status_code == 302
    return client


@pytest.fixture
def guest(told: Run, user: User) -> Client:
    return visitor(share_make(user, told.project, "run", told.pk)[1])


def addresses(run: Run, patterns: Any = None, before: str = "", names: str = "") -> list[tuple[str, str]]:
    """(name of the view, an address of it) of everything that is routed, with ids of this run."""
    episode = run.episodes.order_by("pk").first()
    values = {"run_id": run.pk, "pk": episode.pk if episode else 1, "slug": run.project.slug, "secret": "x"}
    values["chart"] = "success"
    media = run.media.filter(kind="text").first()
    found = []
    for each in patterns if patterns is not None else get_resolver().url_patterns:
        pattern = str(each.pattern).replace("media/<int:pk>", f"media/{media.pk if media else 1}")
        path = before + re.sub(r"<(?:\w+:)?(\w+)>", lambda match: str(values.get(match[1], "1")), pattern)
        if isinstance(each, URLResolver):
            inner = names + (f"{each.namespace}:" if each.namespace else "")
            found += addresses(run, each.url_patterns, path, inner)
        else:
            assert isinstance(each, URLPattern)
            found.append((names + (each.name or ""), "/" + path.replace("^", "").replace("$", "")))
    return found


@pytest.mark.parametrize("view", sorted(KINDS["run"].views))
def test_every_part_of_a_shared_run_opens(guest: Client, told: Run, view: str) -> None:
    address = dict(addresses(told))[view]
    answer = guest.get(address, {"keys": "eval/success"} if view.startswith("api") else {})
    assert answer.status_code == 200
    text = b"".join(answer).decode()
    name = told.owner.username
    for hidden in ("between us", "leak", f"{name}<", f'"{name}"', "csrfmiddleware"):
        assert hidden not in text, f"{view} shows {hidden}"
    assert "Log out" not in text and "/account/" not in text


@pytest.mark.slow
def test_a_link_opens_no_other_address(guest: Client, told: Run, other: Run) -> None:
    """Everywhere else the link changes nothing: the answer is what somebody with no link gets."""
    nobody, tried = Client(), 0
    for name, address in addresses(told) + addresses(other):
        if name in ("shares:open", *EPISODE_VIEWS) or (name in KINDS["run"].views and told.pk in address):
            continue
        if name == "accounts:logout":
            continue  # it would end the session that holds the link
        for method in ("get", "post"):
            theirs, ours = getattr(nobody, method)(address), getattr(guest, method)(address)
            assert (ours.status_code, ours.headers.get("Location")) == (
                theirs.status_code,
                theirs.headers.get("Location"),
            ), f"{method} {address} ({name})"
            assert told.pk not in ours.content.decode()
            tried += 1
    assert tried > 200


def test_nothing_is_written_through_a_link(guest: Client, told: Run) -> None:
    for name, address in addresses(told):
        if name in KINDS["run"].views:
            assert guest.post(address, {}).status_code in (302, 401, 403, 405)
    assert guest.get(f"/runs/{told.pk}/").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("forked", [False, True])
def test_links_of_the_shared_pages_lead_nowhere_closed(
    guest: Client, told: Run, other: Run, forked: bool
) -> None:
    if forked:  # of a run that is not shared, and with a fork that is not
        Run.objects.filter(pk=told.pk).update(parent=other, parent_iteration=2)
        Run.objects.create(
            project=told.project, owner=told.owner, name="child", config=told.config, iterations=9, parent=told,
            parent_iteration=3,
        )  # fmt: skip
    seen, todo = set[str](), [f"/runs/{told.pk}/"]
    while todo:
        address = todo.pop()
        if address in seen or len(seen) > 60:
            continue
        seen.add(address)
        answer = guest.get(address)
        assert answer.status_code == 200, address
        for link in re.findall(r'<a [^>]*href="([^"#]+)', answer.content.decode()):
            link = link.replace("&amp;", "&")
            todo.append(link if link.startswith("/") else address.partition("?")[0] + link)
    assert len(seen) > 8


def test_episodes_of_other_runs_stay_closed(guest: Client, told: Run, other: Run) -> None:
    batch_store_other = told.episodes.order_by("-pk").first()
    assert batch_store_other is not None
    batch_store_other.run = other
    batch_store_other.save()
    assert guest.get(f"/runs/{other.pk}/episodes/{batch_store_other.pk}/").status_code == 302
    assert guest.get(f"/runs/{told.pk}/episodes/{batch_store_other.pk}/").status_code == 404
    for below in ("turns/1/tokens/", "boards/"):
        assert guest.get(f"/api/v1/episodes/{batch_store_other.pk}/{below}").status_code == 404


def test_what_ended_opens_nothing(told: Run, user: User) -> None:
    for end in ("revoke", "expire"):
        share, secret = share_make(user, told.project, "run", told.pk)
        client = visitor(secret)
        assert client.get(f"/runs/{told.pk}/").status_code == 200
        if end == "revoke":
            share_revoke(user, share)
        else:
            ShareLink.objects.filter(pk=share.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
        assert client.get(f"/runs/{told.pk}/").status_code == 302
        gone = Client().get(share_path(secret))
        assert gone.status_code == 410 and "does not work" in gone.content.decode()
    assert Client().get(share_path("x" * 40)).status_code == 410


def test_a_comparison_opens_its_runs_and_no_others(told: Run, other: Run, user: User) -> None:
    third = Run.objects.create(
        project=told.project, owner=user, name="third", config=told.config, iterations=1
    )
    target = f"runs={told.pk},{other.pk}"
    client = Client()
    session = client.session
    session["shares"] = [share_make(user, told.project, "comparison", target)[0].digest]
    session.save()
    compared = client.get("/api/v1/compare/", {"runs": f"{told.pk},{other.pk}"})
    assert compared.status_code == 200 and told.pk in compared.content.decode()
    assert client.get("/api/v1/compare/", {"runs": third.pk}).status_code == 404
    everything = client.get("/api/v1/compare/", {"filter": "iterations >= 0"}).content.decode()
    assert third.pk not in everything and told.pk in everything
    assert client.get(f"/api/v1/runs/{told.pk}/series/").status_code == 200
    assert client.get(f"/api/v1/runs/{third.pk}/series/").status_code in (401, 403)
    assert client.get(f"/runs/{told.pk}/").status_code == 302


def test_members_stay_who_they_are_and_strangers_visit(told: Run, user: User, stranger: User) -> None:
    secret = share_make(user, told.project, "run", told.pk)[1]
    for person, own in ((user, True), (stranger, False)):
        client = Client()
        client.force_login(person)
        client.get(share_path(secret))
        text = client.get(f"/runs/{told.pk}/").content.decode()
        assert ("Run again" in text) == own and ("shared with you" in text) == (not own)
        assert client.get(f"/runs/{told.pk}/logs/").status_code == (200 if own else 404)


def test_who_may_make_and_end_links(told: Run, user: User, stranger: User) -> None:
    with pytest.raises(PermissionDenied):
        share_make(stranger, told.project, "run", told.pk)
    Membership.objects.create(project=told.project, user=stranger, level="viewer")
    with pytest.raises(PermissionDenied):
        share_make(stranger, told.project, "run", told.pk)
    Membership.objects.filter(user=stranger).update(level="editor")
    own, _ = share_make(stranger, told.project, "run", told.pk)
    owners, _ = share_make(user, told.project, "run", told.pk)
    with pytest.raises(PermissionDenied):
        share_revoke(stranger, owners)
    share_revoke(stranger, own)
    share_revoke(user, owners)
    acts = list(AuditEntry.objects.order_by("pk").values_list("act", flat=True))
    assert acts == ["share.make", "share.make", "share.revoke", "share.revoke"]


def test_the_document_of_a_link_lists_all_kinds() -> None:
    assert set(get_args(ShareBody.model_fields["kind"].annotation)) == set(KINDS)


def test_a_link_shows_runs_of_its_project(told: Run, user: User) -> None:
    elsewhere = Project.objects.create(slug="else", name="Else")
    Membership.objects.create(project=elsewhere, user=user, level="owner")
    for project, kind, target, words in (
        (elsewhere, "run", told.pk, "no run"),
        (told.project, "comparison", "key=a", "name the runs"),
    ):
        with pytest.raises(ConfigError, match=words):
            share_make(user, project, kind, target)
    assert not ShareLink.objects.exists()


def test_the_page_makes_lists_and_ends(ada: Client, told: Run) -> None:
    page = f"/account/projects/{told.project.slug}/shares/"
    assert f'value="{told.pk}"' in ada.get(page, {"run": told.pk}).content.decode()
    made = ada.post(page, {"run": told.pk, "title": "<b>for the review", "days": "7"}).content.decode()
    link = re.search(r"http://testserver(/shared/[\w-]+/)", made)
    assert link and "&lt;b&gt;for the review" in made
    assert Client().get(link[1], follow=True).status_code == 200
    assert link[1] not in ada.get(page).content.decode()
    assert ada.post(page, {"run": "nothere"}).status_code == 400
    share = ShareLink.objects.get()
    ada.post(f"{page}{share.pk}/revoke/")
    assert Client().get(link[1]).status_code == 410


@pytest.mark.parametrize(
    ("public", "host"), [("http://jobs:8000", "http://testserver"), ("https://lab.example.org",) * 2]
)
def test_a_link_has_the_public_address_if_there_is_one(
    public: str, host: str, rf: RequestFactory, settings: Any
) -> None:
    settings.TROUPE_URL, settings.TROUPE_PUBLIC_URL = "http://jobs:8000", public
    assert share_link(rf.get("/"), "secret") == host + share_path("secret")
