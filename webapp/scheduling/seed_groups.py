"""Runs of a sweep that differ in their seed only: one job trains them in one process, and each remains a run of its own.

Only first attempts are grouped. A later attempt of a member has a job of its own. The runs of a sweep that wait are divided
among the processes that there is room for: on idle cores separate processes end earlier than one.
"""

from collections.abc import Iterable
from math import ceil

from django.db.models import Exists, OuterRef

from training_core.config.kinds import AnyConfig
from webapp.quotas.services import processes_left, runs_left
from webapp.runs.costs import demands_of, runs_holding
from webapp.runs.lifecycle import runs_locked
from webapp.runs.models import Attempt, Run, RunSource, RunState
from webapp.scheduling.admission import left
from workers.launchers.launcher import Capacity
from workers.sizing.placement import SLACK, Demand, demand

MOST = 32
"""Maximum number of runs in one process."""


def peers_of(run: Run, config: AnyConfig, capacity: Capacity) -> list[Run]:
    """Return the queued runs, locked, that join the first attempt of an admitted run; empty if it is trained by itself.

    They need no devices in addition to its own, and have the same owner, project, priority and code. A quota of
    concurrent runs counts every one of them. Runs that another transaction has locked are left out.
    """
    if run.sweep is None or run.sweep.separate_processes or config.separate_seeds or not _is_new(run):
        return []
    alike = runs_locked(skip_locked=True).filter(
        sweep=run.sweep_id,
        owner=run.owner_id,
        project=run.project_id,
        priority=run.priority,
        family=run.family,
        source=RunSource.TROUPE,
        state=RunState.QUEUED,
    )
    fresh = alike.exclude(pk=run.pk).exclude(Exists(Attempt.objects.filter(run=OuterRef("pk"))))
    peers, seeds = [], {config.run.seed}
    for peer in fresh.order_by("created_at", "pk"):
        if _is_new(peer) and peer.config["run"]["seed"] not in seeds:
            seeds.add(peer.config["run"]["seed"])
            peers.append(peer)
    return peers[: _size(run, demand(config), capacity) - 1]


def _size(run: Run, wanted: Demand, capacity: Capacity) -> int:
    """Return the number of runs in the process of an admitted run: at least 1."""
    holding = demands_of(runs_holding().exclude(pk=run.pk))
    own = [need for other, need in holding if other.project_id == run.project_id]
    free = left(capacity, [need for _, need in holding])
    limits = [processes_left(run.project_id, wanted, own)]
    devices = ((free.cpus, wanted.cpus), (free.gpus, wanted.gpus))
    limits += [(available + SLACK) // need for available, need in devices if need]
    waiting = Run.objects.filter(sweep=run.sweep_id, state=RunState.QUEUED).count()
    size = ceil(waiting / max(1.0, min(limits)))
    allowed = runs_left(run.project_id, len(own))
    return max(1, min(size, MOST, size if allowed is None else allowed))


def _is_new(run: Run) -> bool:
    """Whether its next attempt starts without a checkpoint and with the config that it was launched with."""
    return run.parent_id is None and not (run.resume_from or run.edits)


def members_of(attempt: Attempt) -> list[Attempt]:
    """Return the attempts of its job that have not ended, in order; the attempt itself if its job is its own."""
    if not attempt.shared_job:
        return [attempt]
    same = Attempt.objects.filter(shared_job=attempt.shared_job).exclude(state=Attempt.State.ENDED)
    return list(same.select_related("run").order_by("pk"))


def is_shared_now(attempt: Attempt) -> bool:
    """Whether other runs are trained in its process, which must not be ended with it."""
    return any(member.pk != attempt.pk for member in members_of(attempt))


def shares_give(attempts: Iterable[Attempt]) -> None:
    """Name the first attempt's job as the job of all of them, if there are several."""
    members = list(attempts)
    if len(members) > 1:
        for member in members:
            member.shared_job, member.shared_by = members[0].submission_id, len(members)
        Attempt.objects.bulk_update(members, ["shared_job", "shared_by"])
