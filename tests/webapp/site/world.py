"""A project with its owner and one thing of every kind, for tests that look at every address."""

from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from tests.end_to_end.seed import Story, encoded
from training_core.config.files import load_config
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.artifacts.contents import content_path
from webapp.artifacts.models import Artifact, ArtifactAlias, ArtifactFile, ArtifactVersion
from webapp.checkpoints.models import Checkpoint
from webapp.experiments.models import Sweep, Template
from webapp.health.models import Finding
from webapp.ingest.services import batch_store
from webapp.jobs.models import Job
from webapp.notifications.models import Delivery
from webapp.notifications.services import destination_make
from webapp.reports.services import report_create
from webapp.runs.models import Attempt, Run, RunNote, SavedView
from webapp.shares.services import share_make
from webapp.transcripts.models import Episode, EpisodeNote, SavedQuery


@dataclass
class World:
    """What `things` names stands in the addresses of routes.py."""

    owner: User
    project: Project
    token: str
    """A bearer token of the owner that may do everything."""
    things: dict[str, object] = field(default_factory=dict)


def world_make(name: str) -> World:
    """The project `name` of the person `<name>_owner`."""
    owner = User.objects.create_user(f"{name}_owner", password="correct horse battery")
    project = Project.objects.create(slug=name, name=f"Project {name}")
    Membership.objects.create(project=project, user=owner, level=Membership.Level.OWNER)
    token, secret = token_create(owner, "all", ["admin"])
    world = World(owner, project, secret, {"slug": name, "user": owner.pk, "username": owner.username})
    world.things |= {"token": token.pk} | _run(world)
    run = Run.objects.get(pk=str(world.things["run"]))
    world.things |= _kept(world, run) | _outward(world, run)
    return world


def _run(world: World) -> dict[str, object]:
    config = load_config("plan_path_duo").model_dump(mode="json")
    config["client"] = {"layers": [32], "flag": False, "rates": {"a": -1e308}, "none": None}
    fields: dict[str, Any] = {"project": world.project, "owner": world.owner, "iterations": 30}
    run = Run.objects.create(name=f"run of {world.project.slug}", config=config, **fields)
    mixed = run.config | {"client": {"layers": [64, 64], "flag": True, "rates": {"a": 1e308}, "note": "x"}}
    second = Run.objects.create(name=f"second of {world.project.slug}", config=mixed, **fields)
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    story = Story(run.pk)
    for events in (story.opening(), story.iterations(0, 12, whole=1), story.media(1), story.media(9)):
        batch_store(run.pk, encoded(events), "")
    place: dict[str, Any] = {"path": "checkpoints/iteration-000010", "size": 10, "time": timezone.now()}
    checkpoint = Checkpoint.objects.create(run=run, attempt=1, cursor=1, iteration=10, **place)
    episode, other = Episode.objects.filter(run=run).order_by("pk")[:2]
    note = EpisodeNote.objects.create(episode=episode, author=world.owner, turn=1, label="mark", text="seen")
    finding = Finding.objects.create(
        run=run, rule="r", key="k", severity="critical", title="a finding", first_step=1, last_step=1
    )
    return {
        "run": run.pk,
        "second_run": second.pk,
        "checkpoint": checkpoint.pk,
        "checkpoint_name": "10",
        "episode": episode.pk,
        "media": run.media.first().pk,  # type: ignore[union-attr]
        "other_episode": other.pk,
        "episode_note": note.pk,
        "run_note": RunNote.objects.create(run=run, author=world.owner, step=1, text="seen").pk,
        "finding": finding.pk,
    }


def _kept(world: World, run: Run) -> dict[str, object]:
    """What people keep of experiments."""
    fields: dict[str, Any] = {"project": world.project, "owner": world.owner}
    sweep = Sweep.objects.create(name="sweep", preset="plan_path_duo", axes={"run.seed": [1]}, **fields)
    job = Job.objects.create(kind="talk", run=run, config=run.config, state="finished", **fields)
    return {
        "template": Template.objects.create(
            name="template", preset="plan_path_duo", overrides={}, **fields
        ).pk,
        "sweep": sweep.pk,
        "view": SavedView.objects.create(name="view", query={"q": "x"}, **fields).pk,
        "query": SavedQuery.objects.create(name="query", query="turns > 1", **fields).pk,
        "job": job.pk,
        "artifact": _artifact(world, run).pk,
        "artifact_version": "v0",
        "artifact_path": "tasks.jsonl",
        "report": report_create(world.owner, world.project, "a report", "text").pk,
    }


def _artifact(world: World, run: Run) -> Artifact:
    """An artifact with one version of one file."""
    artifact = Artifact.objects.create(project=world.project, name="tasks", type="dataset")
    version = ArtifactVersion.objects.create(artifact=artifact, number=0, digest="0" * 64, size=3, run=run)
    content = content_path(world.project, "ab" * 32)
    content.parent.mkdir(parents=True, exist_ok=True)
    content.write_bytes(b"abc")
    ArtifactFile.objects.create(version=version, path="tasks.jsonl", size=3, sha256="ab" * 32)
    ArtifactAlias.objects.create(artifact=artifact, name="stable", version=version)
    return artifact


def _outward(world: World, run: Run) -> dict[str, object]:
    """What leads out of the project: channels, webhooks, share links."""
    channel, _ = destination_make(
        world.owner, world.project, "channel", "channel", "json://hooks.invalid/x", ["run.failed"]
    )
    hook, _ = destination_make(world.owner, world.project, "webhook", "hook", "https://example.org/x")
    delivery = Delivery.objects.create(destination=hook, event="run.failed", payload={}, state="given up")
    share, secret = share_make(world.owner, world.project, "run", run.pk)
    return {
        "channel": channel.pk, "webhook": hook.pk, "delivery": delivery.pk, "share": share.pk, "secret": secret,
    }  # fmt: skip
