"""Context of the pages of short jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from webapp.accounts.permissions import Person, can_edit
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import return_label, shaped_label
from webapp.common.tones import role_tones
from webapp.jobs.models import Job
from webapp.jobs.selectors import job_episodes, poll_delay
from webapp.jobs.services import moment

FIGURES = (
    ("success", "success"),
    ("return", "return"),
    ("length", "{step}s"),
    ("tokens", "tokens"),
    ("tokens_per_second", "tokens per second"),
    ("failed", "failed"),
)


def job_context(user: Person, job: Job, episode: str = "") -> dict[str, Any]:
    """Return the context of the page and its fragment."""
    tones = role_tones(job.config)
    episodes = job_episodes(job)
    index = int(episode) if episode.isascii() and episode.isdigit() and len(episode) < 6 else 0
    now = moment(job) if job.live and job.kind == Job.Kind.TALK else None
    shown = episodes[index] if index < len(episodes) and not now else None
    agents, roles = agent_pages(job.config), list(job.config["team"]["roles"])
    return {
        "place": "jobs",
        "job": job,
        "poll": poll_delay(job),
        "agents": agents,
        "policies": job.result.get("policies", []),
        "title": job_title(job),
        "can_edit": can_edit(user, job.project),
        "tones": tones,
        "figures": [
            (shaped_label(label.format(step=agents.step), [job.config]), job.result[name])
            for name, label in FIGURES
            if name in job.result
        ],
        "checks": job.result.get("checks", []),
        "job_return": return_label(job.config),
        "rewards": job.result.get("rewards", {}),
        "models": job.result.get("models", []),
        "seatings": [
            {
                **line,
                "figures": _match_figures(
                    line, roles if agents.matched_by_role else (), return_label(job.config)
                ),
            }
            for line in job.result.get("seatings", [])
        ],
        "swapped": job.result.get("seats", {}) if job.parameters.get("swapped") else {},
        "roles": roles,
        "episodes": episodes if len(episodes) > 1 else [],
        "episode_place": index,
        "episode": shown,
        "turns": [
            _turn(number, turn, tones) for number, turn in enumerate((shown or {}).get("turns", []), 1)
        ],
        "moves": [
            {
                **move,
                "tone": tones.get(move["role"], 0),
                "mine": move["role"] in job.parameters.get("roles", []),
            }
            for move in (now or {}).get("moves", [])
        ],
        "asked": _asked(now, tones),
        "now": now,
        "boards": _boards(now, shown),
    }


def _match_figures(line: Mapping[str, Any], roles: Sequence[str], returned: str) -> list[dict[str, Any]]:
    """Return the results of one assignment: the reward of each role; without roles, success and return of the team.

    `returned` is the label of the return.
    """
    if roles:
        return [{"label": f"{role} earned", "value": line["rewards"].get(role)} for role in roles]
    return [
        {"label": "success", "value": line.get("success"), "interval": line.get("success_interval")},
        {"label": returned, "value": line.get("return")},
    ]


def job_title(job: Job) -> str:
    """Return a short title."""
    at = f" at iteration {job.checkpoint.iteration}" if job.checkpoint else ""
    who = f"{job.run.name}{at}" if job.run else str(job.config["run"]["name"] or "an experiment")
    if job.kind == Job.Kind.MATCH and job.other:
        return f"{who} against {job.other.run.name} at iteration {job.other.iteration}"
    return {
        Job.Kind.CHECK: f"Check of {who}",
        Job.Kind.DRY_RUN: f"Dry run of {who}",
        Job.Kind.EVALUATE: f"Evaluation of {who}{', roles swapped' if job.parameters.get('swapped') else ''}",
        Job.Kind.TALK: f"Conversation with {who}",
        Job.Kind.PREPARE: f"Base models of {who}",
    }.get(Job.Kind(job.kind), who)


def _boards(now: Mapping[str, Any] | None, episode: Mapping[str, Any] | None) -> list[Any]:
    """Return the board before each move and the current one; empty if the environment has no boards."""
    if now:
        boards = [*(move.get("board") for move in now["moves"]), now.get("board")]
    elif episode:
        boards = [*(turn.get("board") for turn in episode["turns"]), episode.get("final_board")]
    else:
        return []
    return boards if any(boards) else []


def _asked(now: Mapping[str, Any] | None, tones: Mapping[str, int]) -> dict[str, Any] | None:
    asked = (now or {}).get("asked")
    return {**asked, "tone": tones.get(asked["role"], 0)} if asked else None


def _turn(number: int, turn: Mapping[str, Any], tones: Mapping[str, int]) -> dict[str, Any]:
    executed = turn["candidates"][turn["executed"]] if turn["candidates"] else None
    others = [
        {**candidate, "executed": index == turn["executed"]}
        for index, candidate in enumerate(turn["candidates"])
    ]
    return {
        **turn,
        "number": number,
        "round": turn["index"] + 1,
        "tone": tones.get(turn["role"], 0),
        "said": executed,
        "others": others if len(others) > 1 else [],
    }
