"""Jobs that replay a stored episode: what they need of it, the expected price, and the worths at the turns of a transcript."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from training_core.config.rollout import replay_refused
from training_core.config.run import RunConfig
from training_core.errors import ConfigError
from webapp.checkpoints.models import Checkpoint
from webapp.jobs.models import Job
from webapp.runs.models import Run
from webapp.transcripts.bodies import episode_document
from webapp.transcripts.models import Episode

LATEST = 20
"""Number of an episode's jobs that are read."""
SCALE = 100.0
"""Width of a strip's drawing."""


def checkpoint_of(run: Run, pk: int) -> str:
    """Return the iteration of the checkpoint nearest to a stored episode, the earlier of two; "base" without checkpoints."""
    iteration = Episode.objects.filter(run=run, pk=pk).values_list("iteration", flat=True).first() or 0
    rows = Checkpoint.objects.filter(run=run, removed=False, damaged="").order_by("iteration")
    near = min(
        rows.values_list("iteration", flat=True), key=lambda other: abs(other - iteration), default=None
    )
    return "base" if near is None else str(near)


def parameters_checked(run: Run | None, config: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected tokens. Raises ConfigError for episodes that cannot be replayed."""
    assert isinstance(config, RunConfig)
    if refusal := replay_refused(config.workflow.type):
        raise ConfigError({"kind": refusal})
    episode = Episode.objects.filter(run=run, pk=wanted["episode"]).first() if wanted["episode"] else None
    if wanted["episode"] and episode is None:
        raise ConfigError({"episode": f"the run has no episode {wanted['episode']}; see its transcripts"})
    if episode is None:
        return {}
    document = recorded(episode)
    if not document["turns"] or episode.failed:
        raise ConfigError({
            "episode": f"the episode {episode.name} {'failed' if episode.failed else 'has only metadata left'}, so its messages "
            "cannot be replayed; choose another one"
        })  # fmt: skip
    if wanted.get("turn", 0) > len(document["turns"]):
        raise ConfigError(
            {"turn": f"give 1 to {len(document['turns'])}: the episode {episode.name} has no more messages"}
        )
    return {} if "turn" in wanted else {"expected_tokens": tokens_expected(document["turns"], wanted)}


def refusal_of(run: Run) -> str:
    """Return why episodes of a run cannot be replayed; empty if they can."""
    workflow: str = run.config.get("workflow", {}).get("type", "")
    return replay_refused(workflow)


def recorded(episode: Episode) -> dict[str, Any]:
    """Return what a replay needs of a stored episode, with the fields of an episode event."""
    names = [
        "iteration",
        "kind",
        "task",
        "title",
        "outcome",
        "success",
        "failed",
        "error",
        "episode_return",
        "rewards",
    ]
    body = {"turns": [], "task_number": None, "final_board": None} | episode_document(episode)
    return {"episode": episode.name} | {name: getattr(episode, name) for name in names} | body


def tokens_expected(turns: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> int:
    """Return the tokens that a measurement samples at most if its answers are as long as the recorded ones.

    Each message is sampled `alternatives` times; after it and after each alternative, the rest is sampled `continuations` times.
    """
    lengths = [_sampled_tokens(turn) for turn in turns]
    samples, plays = int(wanted["alternatives"]), int(wanted["continuations"])
    rest = sum(index * length for index, length in enumerate(lengths))
    return samples * sum(lengths) + (samples + 1) * plays * rest


def _sampled_tokens(turn: Mapping[str, Any]) -> int:
    """Return the tokens of the executed answer; 0 without one."""
    executed = turn["candidates"][turn["executed"] : turn["executed"] + 1] if turn["executed"] >= 0 else []
    return sum(len(answer["token_ids"]) for answer in executed)


def jobs_of(episode: Episode) -> list[Job]:
    """Return the latest jobs that replay a stored episode, newest first."""
    jobs = Job.objects.filter(run_id=episode.run_id, parameters__episode=episode.pk)
    return list(jobs.select_related("checkpoint").defer("episodes", "config")[:LATEST])


def worths_latest(jobs: Iterable[Job]) -> tuple[Job | None, dict[int, dict[str, Any]]]:
    """Return the last finished measurement among jobs, and its worths by the number of the turn."""
    job = next((job for job in jobs if job.kind == Job.Kind.WORTH and job.state == Job.State.FINISHED), None)
    worths = {entry["turn"]: entry for entry in job.result.get("by_message", [])} if job else {}
    return job, strips(worths)


def strips(worths: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return worths with the positions of their drawing: all of an episode have one scale, with 0 in the middle."""
    widest = max((abs(item["worth"]) + item["half_width"] for item in worths.values()), default=0.0) or 1.0

    def position(value: float) -> float:
        return SCALE / 2 * (1 + min(1.0, max(-1.0, value / widest)))

    return {
        turn: {
            **item,
            "at": position(item["worth"]),
            "low": position(item["worth"] - item["half_width"]),
            "high": position(item["worth"] + item["half_width"]),
        }
        for turn, item in worths.items()
    }


def job_recorded(job: Job) -> dict[str, Any]:
    """Return the stored episode of a job as a parameter of its process. Raises ConfigError if it was deleted since."""
    if not job.parameters.get("episode"):
        return {}
    episode = Episode.objects.filter(run=job.run_id, pk=job.parameters["episode"]).first()
    document = recorded(episode) if episode else {"turns": []}
    if not document["turns"]:
        raise ConfigError({"episode": "the episode was deleted while the job waited; choose another one"})
    return {"recorded": [document]}
