"""The worth of messages on the transcript of a stored episode."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template

from webapp.agents.registry import agent_pages
from webapp.jobs.replays import jobs_of, refusal_of, tokens_expected, worths_latest
from webapp.jobs.starting import Worth
from webapp.transcripts.models import Episode

register = template.Library()
LISTED = 5
"""Jobs of an episode on its page."""


@register.simple_tag
def worths_of(episode: Episode | None) -> dict[str, Any]:
    """Return the jobs of a stored episode, the last measurement, and its worths by the number of the turn; empty without an episode."""
    if not isinstance(episode, Episode):
        return {}
    jobs = jobs_of(episode)
    job, by_turn = worths_latest(jobs)
    return {"jobs": jobs, "job": job, "by_turn": by_turn, "replayable": not refusal_of(episode.run)}


@register.inclusion_tag("jobs/_replays.html", takes_context=True)
def replays(context: template.Context, turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the form that measures the messages of an episode, the sum by role, and the last jobs, from the context's `worths`."""
    run, episode, worths = context["run"], context["episode"], context["worths"]
    defaults = Worth().model_dump()
    return {
        "run": run,
        "episode": episode,
        "user": context.get("user"),
        "can_edit": context.get("can_edit"),
        "csrf_token": context.get("csrf_token"),
        "tones": context.get("tones"),
        "refusal": refusal_of(run),
        "offered": agent_pages(run.config).tokens
        and not run.is_custom
        and not episode.failed
        and bool(turns),
        "worth": worths["job"],
        "jobs": worths["jobs"][:LISTED],
        "defaults": defaults,
        "tokens": tokens_expected(turns, defaults),
    }
