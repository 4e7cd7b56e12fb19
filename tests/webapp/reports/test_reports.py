"""Reports: nothing that was sent is lost, hostile text stays text, blocks show runs of their project alone."""

import random
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from tests.webapp.compare.test_curves import told as series_told
from tests.webapp.compare.test_tables import made
from tests.webapp.elements import elements
from tests.webapp.transcripts.test_episodes import candidate, played, turn
from training_core.config.files import load_config
from webapp.accounts.models import Membership, Project, User
from webapp.common.markdown import cleaned
from webapp.reports.models import Report
from webapp.reports.rendering import report_parts
from webapp.reports.services import report_create, report_save, version_restore
from webapp.runs.models import Run
from webapp.shares.services import share_make, share_path
from webapp.transcripts.models import Episode
from webapp.transcripts.services import episodes_store


@pytest.fixture
def editor(project: Project, stranger: User) -> User:
    """Eve, who may write too."""
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.EDITOR)
    return stranger


@pytest.fixture
def report(user: User, project: Project) -> Report:
    return report_create(user, project, "First", "one")


def texts(report: Report) -> list[tuple[str, str]]:
    return [(each.text, each.kind) for each in report.versions.order_by("number")]


def age(report: Report) -> None:
    """All versions are old enough that no save goes on in them."""
    report.versions.update(created_at=timezone.now() - timedelta(minutes=5))


def test_saves_of_one_author_are_taken_together_for_moment(user: User, editor: User, report: Report) -> None:
    assert report_save(user, report, "First", "one", 1).version.number == 1, "nothing has changed"
    report_save(user, report, "First", "two", 1)
    report_save(user, report, "First", "three", 2)
    assert texts(report) == [("one", "saved"), ("three", "saved")]
    report_save(editor, report, "First", "four", 3)
    age(report)
    report_save(editor, report, "First", "five", 4)
    assert [text for text, _ in texts(report)] == ["one", "three", "four", "five"]
    report.refresh_from_db()
    assert (report.text, report.revision) == ("five", 5)


def test_a_conflict_loses_neither_text(user: User, editor: User, report: Report) -> None:
    assert not report_save(user, report, "First", "ada's", 1).conflict
    saved = report_save(editor, report, "First", "eve's", 1)
    assert saved.conflict and saved.report.text == "ada's" and saved.version.text == "eve's"
    again = report_save(editor, report, "First", "eve's, longer", 1)
    assert again.conflict and again.version.number == saved.version.number
    assert texts(report) == [("one", "saved"), ("ada's", "saved"), ("eve's, longer", "conflict")]
    report_save(editor, report, "First", "eve's, longer", saved.report.revision)
    report.refresh_from_db()
    assert report.text == "eve's, longer" and ("ada's", "saved") in texts(report)
    version_restore(user, report.versions.get(number=2))
    report.refresh_from_db()
    assert report.text == "ada's" and len(texts(report)) == 5


def test_whatever_two_writers_do_their_last_texts_are_kept(user: User, editor: User, report: Report) -> None:
    """A naive model: every text that stood when its writer paused (or another saved) must be found among the versions."""
    draw, bases = random.Random(4), {user.pk: 1, editor.pk: 1}
    last: dict[int, str] = {}
    for step in range(60):
        who = draw.choice([user, editor])
        if draw.random() < 0.3:
            age(report)
        text = f"text {step}"
        saved = report_save(who, report, "First", text, bases[who.pk])
        last[who.pk] = text
        if not saved.conflict or draw.random() < 0.5:
            bases[who.pk] = saved.report.revision
        kept = {each for each, _ in texts(report)}
        assert set(last.values()) <= kept and saved.report.text in kept and "one" in kept


def test_viewers_only_read(client: Client, report: Report, stranger: User) -> None:
    client.force_login(stranger)
    Membership.objects.create(project=report.project, user=stranger, level=Membership.Level.VIEWER)
    assert client.get(f"/reports/{report.pk}/").status_code == 200
    assert client.get(f"/reports/{report.pk}/edit/").status_code == 403
    assert client.post(f"/reports/{report.pk}/versions/1/restore/").status_code == 403
    assert client.post(f"/reports/{report.pk}/delete/").status_code == 403
    other = APIClient()
    other.force_authenticate(stranger)
    put = other.put(f"/api/v1/reports/{report.pk}/", {"title": "", "text": "x", "base": 1}, format="json")
    assert put.status_code == 403


HOSTILE = """# <script>window.hacked = 1</script>
<img src=x onerror=window.hacked=1> ![x](http://evil/x.png)
[click](javascript:alert(1)) <a href="javascript:alert(1)">x</a> [data](data:text/html,x) [ok](https://example.org)

| a | b |
|---|---|
| <b onclick=x>1</b> | 2 |

```python
<script>alert(1)</script>
```
"""


def test_hostile_text_stays_text(project: Project) -> None:
    (part,) = report_parts(project, HOSTILE)
    html = part.facts["html"]
    for wrong in ("<script", "<img", "<b ", '<a href="javascript', '<a href="data'):
        assert wrong not in html, wrong
    assert "<h2>&lt;script&gt;" in html and "<table>" in html
    assert '<a href="https://example.org" rel="noopener noreferrer nofollow">ok</a>' in html
    assert cleaned('<p onclick="x()">a<style>*{}</style><iframe src="//evil"></iframe></p>') == "<p>a</p>"


@pytest.fixture
def run(user: User, project: Project) -> Run:
    """A run with a curve and an episode; the fence in its text must not end a block."""
    run = made(user, project, "<i>duo</i>", {"run": {"seed": 0}, "algorithm": {"type": "grpo"}})
    series_told(run, "eval/success", [(0, 0.25), (10, 0.75)])
    saw = [{"role": "user", "content": "<script>x</script>\n```\n# no heading"}]
    turns = [
        turn(0, "planner") | {"messages": saw, "candidates": [candidate(f"go {place}")]} for place in range(3)
    ]
    episodes_store(run, 1, [played("1-3-eval-0", kind="eval", turns=turns)])
    return run


def test_blocks_are_drawn_where_they_stand(ada: Client, user: User, project: Project, run: Run) -> None:
    episode = Episode.objects.get()
    text = f"""before

```chart
runs: {run.pk}
key: eval/success
```

between

```figures
/compare/?runs={run.pk}&key=eval/success
```

```config
runs: {run.pk}
```

```transcript
episode: {episode.pk}
turns: 2-3
```

- ```chart
  runs: in a list this is only code
  ```
"""
    parts = report_parts(project, text)
    assert [part.template.removeprefix("reports/_").removesuffix(".html") for part in parts] == [
        "text", "chart", "text", "figures", "config", "transcript", "text"
    ]  # fmt: skip
    assert parts[1].facts["curves"]["groups"][0]["mean"] == [0.25, 0.75]
    assert parts[3].facts["figures"]["groups"][0]["mean"] == 0.75
    assert [each["said"] for each in parts[5].facts["turns"]] == ["go 1", "go 2"]
    report = report_create(user, project, "<u>T</u>", text)
    page = ada.get(f"/reports/{report.pk}/").content.decode()
    assert "go 2" in page and "go 0" not in page
    for hostile in ("<script>x", "<u>T", "<i>duo"):
        assert hostile not in page
    alone = ada.get(f"/reports/{report.pk}/export/?as=html")
    assert "attachment" in alone["Content-Disposition"]
    html = alone.content.decode()
    assert "<polyline" in html and "<script" not in html and 'href="/' not in html and "go 2" in html
    assert ada.get(f"/reports/{report.pk}/export/?as=md").content.decode() == f"# <u>T</u>\n\n{text}"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("chart\nruns: nosuchid", "Run 'nosuchid' not found"),
        ("chart\nwhat is this", "name: value"),
        ("chart\nfilter: a =", "filter"),
        ("chart\nkey: eval/success", "choose 1 to"),
        ("figures\nfilter: iteration >= 0\nat: never", "at:"),
        ("transcript\nepisode: x", "number of an episode"),
        ("transcript\nepisode: 99999999", "there is no episode"),
    ],
)
def test_what_is_wrong_with_a_block_is_said_in_its_place(
    project: Project, run: Run, block: str, said: str
) -> None:
    (part,) = report_parts(project, f"```{block}\n```")
    assert part.template == "reports/_wrong.html" and said in part.facts["wrong"]


def test_runs_of_other_projects_are_not_shown(user: User, run: Run) -> None:
    other = Project.objects.create(slug="other", name="Other")
    Membership.objects.create(project=other, user=user, level=Membership.Level.OWNER)
    for block in (
        f"chart\nruns: {run.pk}",
        "figures\nfilter: iteration >= 0",
        f"transcript\nepisode: {Episode.objects.get().pk}",
    ):
        (part,) = report_parts(other, f"```{block}\n```")
        assert part.template == "reports/_wrong.html"


def test_a_link_opens_the_report_and_nothing_else(
    client: Client, api: APIClient, user: User, project: Project, run: Run
) -> None:
    text = f"```chart\nruns: {run.pk}\n```\n\n```transcript\nepisode: {Episode.objects.get().pk}\n```"
    report, secret_report = (
        report_create(user, project, "Shared", text),
        report_create(user, project, "Secret", "x"),
    )
    made_link = api.post(f"/api/v1/reports/{report.pk}/share/", {"days": 3}, format="json")
    assert made_link.status_code == 201
    guest = Client()
    page = guest.get(made_link.json()["link"], follow=True)
    assert page.status_code == 200 and page.redirect_chain[-1][0] == f"/reports/{report.pk}/"
    shown = page.content.decode()
    assert "go 1" in shown and "0.75" in shown and "ada" not in shown and "Edit" not in shown
    assert f"/runs/{run.pk}/" not in shown
    report_save(user, report, "Shared", "without a draft", report.revision)
    assert "go 1" not in guest.get(f"/reports/{report.pk}/?version=1").content.decode(), (
        "drafts are not shared"
    )
    for path in (
        f"/reports/{secret_report.pk}/", f"/reports/{report.pk}/versions/", f"/reports/{report.pk}/edit/", "/reports/",
        f"/runs/{run.pk}/", f"/reports/{report.pk}/export/", f"/compare/?runs={run.pk}",
    ):  # fmt: skip
        assert guest.get(path).status_code in (302, 403, 404), path
    assert guest.get(f"/api/v1/reports/{report.pk}/").status_code in (401, 403)


def test_guests_get_links_only_to_what_is_shared_with_them(user: User, project: Project, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(config=load_config("plan_path_duo").model_dump(mode="json"))
    closed = Run.objects.create(project=project, owner=user, name="closed", config=run.config, iterations=1)
    text = (
        f"[the shared run](/runs/{run.pk}/), [the closed run](/runs/{closed.pk}/), <http://testserver/runs/{closed.pk}/logs/>, "
        f"[the both](/compare/?runs={run.pk},{closed.pk}), [the *list*](/runs/), [the top](#top), [no address](http://[host:port]/a), "
        f"[elsewhere](https://example.org/runs/)\n\n```transcript\nepisode: {Episode.objects.get().pk}\n```\n"
        f"```chart\nruns: {run.pk}\n```"
    )
    report = report_create(user, project, "Shared", text)

    def seen(*links: tuple[str, str | int]) -> tuple[list[str], str]:
        """Return the addresses that a guest with these links is offered in the report, and its text."""
        guest = Client()
        for kind, target in links:
            assert guest.get(share_path(share_make(user, project, kind, str(target))[1])).status_code == 302
        page = guest.get(f"/reports/{report.pk}/")
        offered = [each["href"] for each in elements(page, "article a[href]")]
        for address in offered:
            assert not address.startswith("/") or guest.get(address).status_code == 200, address
        return offered, page.content.decode()

    always, one = ["#top", "https://example.org/runs/"], [f"/runs/{run.pk}/"]
    shown, page = seen(("report", report.pk))
    assert shown == always and "the closed run, " in page and "the <em>list</em>, " in page
    episode = f"/runs/{run.pk}/episodes/{Episode.objects.get().pk}/"
    assert seen(("report", report.pk), ("run", run.pk))[0] == [*one, *always, episode]
    compared = seen(("report", report.pk), ("comparison", f"runs={run.pk}"))[0]
    assert compared[:2] == always and compared[2].startswith("/compare/?") and len(compared) == 3
    member = Client()
    member.force_login(user)
    assert len(elements(member.get(f"/reports/{report.pk}/"), "article a[href]")) == 9


def test_pages_without_scripts(client: Client, user: User, editor: User, report: Report) -> None:
    client.force_login(user)
    new = client.post("/reports/new/", {"title": "New", "text": "```chart\n/compare/?runs=a\n```"})
    assert new.status_code == 302 and new["Location"].endswith("/edit/")
    path = f"/reports/{report.pk}/edit/"
    assert client.post(path, {"title": "First", "text": "ada", "base": 1}).status_code == 302
    late = Client()
    late.force_login(editor)
    answer = late.post(path, {"title": "First", "text": "eve <b>", "base": 1})
    assert answer.status_code == 409 and "version 3" in answer.content.decode()
    assert "eve &lt;b&gt;" in answer.content.decode() and 'name="base" value="2"' in answer.content.decode()
    versions = client.get(f"/reports/{report.pk}/versions/?version=3").content.decode()
    assert "separate" in versions and elements(versions, "del") and "eve <b>" not in versions
    assert f'href="/reports/{report.pk}/"' in client.get("/reports/").content.decode()
    preview = client.post(f"/reports/{report.pk}/preview/", {"text": "**bold**"}).content.decode()
    assert "<strong>bold</strong>" in preview
