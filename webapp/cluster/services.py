"""Capacity of the cluster, runs that hold devices, and queued runs with the resources they wait for.

The health of the server's background work is that of the Celery worker, its queue, and the ingest of events from runs.
"""

from dataclasses import asdict
from datetime import timedelta

import redis
from django.conf import settings
from django.utils import timezone

from training_core.config.files import parse_config
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError
from troupe_client.documents import cluster as documents
from webapp.accounts.permissions import Person
from webapp.common.tones import SHARED, policy_tones
from webapp.ingest.models import Producer
from webapp.runs.costs import HOLDING, runs_holding, runs_waiting, share, sharing_of
from webapp.runs.models import Attempt, Run, RunState
from webapp.runs.selectors import runs_visible
from webapp.scheduling.admission import left
from webapp.stack.worker_probe import STALE, seconds_since_alive
from workers.launchers.launcher import Capacity, LauncherFailure
from workers.launchers.registry import make_launcher
from workers.sizing.placement import Demand, demand, pools

QUEUE = "celery"
"""Celery's default queue, a list in Redis."""
LATE = timedelta(seconds=30)
"""Seconds of silence after which a driver counts as late."""
DEVICES = (("cpus", "CPU cores"), ("gpus", "GPUs"))


def _worker() -> documents.WorkerStatus:
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=2.0, socket_connect_timeout=2.0
        ) as client:
            age, backlog = seconds_since_alive(client), client.llen(QUEUE)
    except redis.RedisError:
        return documents.WorkerStatus(alive=False, seen_seconds=None, backlog=None)
    return documents.WorkerStatus(
        alive=age is not None and age < STALE,
        seen_seconds=None if age is None else round(age, 1),
        backlog=backlog,
    )


def _ingest() -> documents.IngestStatus:
    now = timezone.now()
    running = Run.objects.filter(state__in=(RunState.RUNNING, RunState.STOPPING))
    heard = [
        attempt.heartbeat_at or attempt.created_at
        for attempt in Attempt.objects.filter(run__in=running).order_by("run", "-number").distinct("run")
    ]
    return documents.IngestStatus(
        producers=Producer.objects.filter(updated_at__gt=now - timedelta(minutes=1)).count(),
        running=len(heard),
        late=sum(moment < now - LATE for moment in heard),
        lag_seconds=round((now - min(heard)).total_seconds(), 1) if heard else None,
    )


def cluster_read(user: Person) -> documents.Cluster:
    """Return the cluster's devices, and the runs that hold them or wait for them, as far as the user may see them."""
    capacity = capacity_read()
    devices = asdict(capacity) if capacity else {}
    nodes = devices.pop("nodes", ())
    return documents.Cluster(
        reachable=capacity is not None,
        launcher=settings.TROUPE_LAUNCHER,
        capacity=documents.ClusterCapacity(**devices) if devices else None,
        nodes=[documents.ClusterNode(**node) for node in nodes],
        runs=_runs(user, capacity),
        services=documents.BackgroundStatus(worker=_worker(), ingest=_ingest()),
    )


def capacity_read() -> Capacity | None:
    """Return the current capacity of the cluster; None if it does not respond."""
    try:
        return make_launcher(settings.TROUPE_LAUNCHER).capacity()
    except LauncherFailure:
        return None


def _runs(user: Person, capacity: Capacity | None) -> list[documents.ClusterRun]:
    own = set(runs_visible(user).values_list("pk", flat=True).filter(state__in=("queued", *HOLDING)))
    held: list[Demand] = []
    rows = []
    holding = list(runs_holding().select_related("project", "owner").order_by("started_at", "created_at"))
    sharing = sharing_of(holding)
    for run in holding:
        shared_by, config = sharing.get(run.pk, 1), _config(run)
        wanted = share(demand(config), shared_by) if config else None
        held += [wanted] if wanted else []
        rows.append(_row(run, run.pk in own, config, wanted, shared_by=shared_by))
    for position, run in enumerate(runs_waiting().select_related("project", "owner"), 1):
        config = _config(run)
        wanted = demand(config) if config else None
        limits = limits_read(wanted, capacity, held) if wanted and capacity else []
        held += [wanted] if wanted and not any(limit.never for limit in limits) else []
        rows.append(_row(run, run.pk in own, config, wanted, position=position, limits=limits))
    return rows


def _row(
    run: Run,
    own: bool,
    config: AnyConfig | None,
    wanted: Demand | None,
    *,
    shared_by: int = 1,
    position: int | None = None,
    limits: list[documents.ClusterLimit] | None = None,
) -> documents.ClusterRun:
    """Return the document of a run, `own` if the user may see it; without `position` it holds its devices."""
    return documents.ClusterRun(
        run=run.pk if own else None,
        name=run.name if own else "",
        project=run.project.slug if own else None,
        owner=run.owner.username if own else None,
        state=run.state,
        reason=run.reason if own else "",
        priority=run.priority,
        since=run.started_at or run.created_at,
        cpus=wanted and wanted.cpus,
        gpus=wanted and wanted.gpus,
        shared_by=shared_by,
        pools=_pools(run, config) if config and own else [],
        holds=position is None,
        place=position,
        limits=limits or [],
    )


def _pools(run: Run, config: AnyConfig) -> list[documents.ClusterPool]:
    tones = policy_tones(run.config)
    return [
        documents.ClusterPool(**asdict(pool), tone=tones.get(pool.name, SHARED)) for pool in pools(config)
    ]


def _config(run: Run) -> AnyConfig | None:
    """Return the run's config; None if it was written by another version of Troupe."""
    try:
        return parse_config(run.config)
    except ConfigError:
        return None


def limits_read(wanted: Demand, capacity: Capacity, before: list[Demand]) -> list[documents.ClusterLimit]:
    """Return the missing amount of each resource for a run, after the runs that hold devices or precede it in the queue."""
    free = left(capacity, before)
    limits = []
    for name, words in DEVICES:
        asked, there, total = getattr(wanted, name), getattr(free, name), getattr(capacity, name)
        if asked and asked > there + 1e-6:
            limits.append(_limit(words, asked, max(there, 0.0), total, never=asked > total + 1e-6))
    return limits + _too_large(wanted, capacity)


def _too_large(wanted: Demand, capacity: Capacity) -> list[documents.ClusterLimit]:
    """Return the workers that no single node can hold, even if the cluster's total is sufficient."""
    if not capacity.nodes:
        return []
    limits = []
    for kind, (name, words) in zip(("CPU", "GPU"), DEVICES, strict=True):
        most = max((bundle.get(kind, 0.0) for bundle in wanted.bundles), default=0.0)
        largest = max(getattr(node, name) for node in capacity.nodes)
        if largest + 1e-6 < most <= getattr(capacity, name):
            limits.append(_limit(f"{words} on one node", most, largest, largest, never=True))
    return limits


def _limit(resource: str, wants: float, free: float, total: float, *, never: bool) -> documents.ClusterLimit:
    return documents.ClusterLimit(
        resource=resource,
        wants=wants,
        free=round(free, 4),
        lacks=round(wants - free, 4),
        total=total,
        never=never,
    )
