"""All commands by topic; each stands at the top level of `troupe`."""

import typer

from workers.cli.topics import (
    checkpoints,
    cluster,
    compare,
    curves,
    estimates,
    experiments,
    health,
    imports,
    jobs,
    projects,
    quotas,
    reports,
    runs,
    shares,
    teams,
    templates,
    timeline,
    transcripts,
    views,
    webhooks,
)

TOPICS: tuple[typer.Typer, ...] = (
    experiments.app,
    estimates.app,
    teams.app,
    templates.app,
    jobs.app,
    runs.app,
    views.app,
    curves.app,
    transcripts.app,
    checkpoints.app,
    health.app,
    timeline.app,
    compare.app,
    reports.app,
    cluster.app,
    projects.app,
    shares.app,
    quotas.app,
    webhooks.app,
    imports.app,
)
