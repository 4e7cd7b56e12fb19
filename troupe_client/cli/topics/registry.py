"""Groups of commands, `troupe NOUN VERB`, and the commands of topics that are at the top level."""

from dataclasses import dataclass

import typer

from troupe_client.cli.sections import EXPERIMENTS, PROJECTS, RESULTS, RUNS, SERVER
from troupe_client.cli.topics import (
    artifacts,
    assistants,
    buffers,
    bundles,
    checkpoints,
    cluster,
    compare,
    curves,
    data,
    estimates,
    health,
    importing,
    imports,
    jobs,
    media,
    models,
    projects,
    provenance,
    reports,
    runs,
    sweeps,
    teams,
    templates,
    timeline,
    transcripts,
    views,
)


@dataclass(frozen=True)
class Group:
    """A noun with its verbs."""

    about: str
    section: str
    topics: tuple[typer.Typer, ...]


TOP: tuple[typer.Typer, ...] = (checkpoints.top, compare.top, provenance.top, assistants.top)
"""Daily commands that topics define of `troupe`."""
GROUPS: dict[str, Group] = {
    "bulk": Group("Apply an action to many runs.", RUNS, (runs.bulk,)),
    "experiment": Group(
        "Examine an experiment before its launch.",
        EXPERIMENTS,
        (estimates.app, teams.app, jobs.experiment_jobs),
    ),
    "sweep": Group("Launch many runs of one experiment.", EXPERIMENTS, (sweeps.app,)),
    "template": Group("Save experiments under a name.", EXPERIMENTS, (templates.app,)),
    "model": Group("List and add base models.", EXPERIMENTS, (models.app,)),
    "data": Group("Import data sets, edit prompt files.", EXPERIMENTS, (data.app,)),
    "metric": Group("List and export metrics and events of a run.", RESULTS, (curves.app,)),
    "episode": Group("Search, read and export episodes.", RESULTS, (transcripts.app,)),
    "checkpoint": Group(
        "Download, retain, evaluate and match checkpoints.",
        RESULTS,
        (checkpoints.app, jobs.checkpoint_jobs),
    ),
    "artifact": Group("Store files, data sets, tables and models in versions.", RESULTS, (artifacts.app,)),
    "media": Group("List and download images, tables, texts and histograms of a run.", RESULTS, (media.app,)),
    "finding": Group("List and handle health findings of a run.", RESULTS, (health.findings,)),
    "timeline": Group("Show where time and devices went.", RESULTS, (timeline.app, curves.costs)),
    "comparison": Group("Compare curves, configs, tables and probe tasks of runs.", RESULTS, (compare.app,)),
    "family": Group("List runs that differ only in their seed.", RESULTS, (runs.family,)),
    "job": Group("List, show and cancel short jobs.", RESULTS, (jobs.app,)),
    "run-note": Group("Write notes on runs.", RESULTS, ()),
    "episode-note": Group("Write labels and notes on episodes.", RESULTS, ()),
    "report": Group("Write reports: Markdown with charts and transcripts of runs.", RESULTS, (reports.app,)),
    "view": Group("Save filters and columns of the runs table.", RESULTS, (views.app,)),
    "bundle": Group("Write runs to one file that opens offline; import it.", RESULTS, (bundles.app,)),
    "import": Group("Import runs from files of other tools.", RESULTS, (importing.app,)),
    "tensorboard": Group("Import event files of TensorBoard.", RESULTS, (imports.app,)),
    "project": Group(
        "List and create projects, show their tokens, limits and audit log.",
        PROJECTS,
        (projects.app,),
    ),  # fmt: skip
    "member": Group("List and change the members of a project.", PROJECTS, ()),
    "token": Group("Create, list and revoke API tokens.", PROJECTS, ()),
    "share": Group("Create and revoke read-only links.", PROJECTS, (projects.shares,)),
    "channel": Group("Send messages of a project to e-mail or chat.", PROJECTS, (health.channel,)),
    "webhook": Group("Send events of a project to an address.", PROJECTS, ()),
    "cluster": Group("Show nodes and the queue.", SERVER, (cluster.app,)),
    "buffer": Group("Serve rollouts from other programs.", SERVER, (buffers.app,)),
}
