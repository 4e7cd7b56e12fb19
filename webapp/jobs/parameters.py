"""Parameters of each kind of job."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from training_core.errors import ConfigError
from webapp.agents.pages import AgentPages
from webapp.jobs.models import Job

Play = Literal["eval", "eval_sampled"]
MOST_TASKS = 2**31 - 1


class Parameters(BaseModel):
    """Base class."""

    model_config = ConfigDict(extra="forbid")


class DryRun(Parameters):
    """Training episodes with the base models; for small networks, episodes after two short iterations."""

    episodes: int = Field(1, ge=1, le=16)


class Evaluate(Parameters):
    """Held-out tasks `first`, `first` + 1, ...; "eval" greedily, "eval_sampled" at evaluation.temperature.

    With `swapped`, each role uses the policy of another role.
    """

    episodes: int = Field(32, ge=1, le=5000)
    kind: Play = "eval"
    first: int = Field(0, ge=0, le=MOST_TASKS)
    swapped: bool = False


class Match(Parameters):
    """Episodes per role assignment."""

    episodes: int = Field(32, ge=1, le=1000)
    kind: Play = "eval_sampled"


class Talk(Parameters):
    """Roles of the user, and the held-out task."""

    roles: list[str] = Field(min_length=1, max_length=100)
    task: int = Field(0, ge=0, le=MOST_TASKS)
    kind: Play = "eval_sampled"


class Check(Parameters):
    """No parameters: the config is checked where its run would run."""


class Prepare(Parameters):
    """No parameters: the config names the models."""


PARAMETERS: dict[str, type[Parameters]] = {
    Job.Kind.CHECK: Check,
    Job.Kind.DRY_RUN: DryRun,
    Job.Kind.EVALUATE: Evaluate,
    Job.Kind.MATCH: Match,
    Job.Kind.TALK: Talk,
    Job.Kind.PREPARE: Prepare,
}


def parameters_read(kind: str, values: Mapping[str, Any], roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated parameters, with defaults. Raises ConfigError with a message per parameter."""
    if kind not in PARAMETERS:
        raise ConfigError({"kind": f"use one of {', '.join(PARAMETERS)}"})
    try:
        wanted = PARAMETERS[kind].model_validate(dict(values)).model_dump()
    except ValidationError as error:
        raise ConfigError(
            {".".join(str(part) for part in problem["loc"]): problem["msg"] for problem in error.errors()}
        ) from error
    unknown = [role for role in wanted.get("roles", []) if role not in roles]
    if unknown:
        raise ConfigError({"roles": f"there is no role {unknown[0]}; the team has {', '.join(roles)}"})
    return wanted


def check_supported(pages: AgentPages, kind: str, wanted: Mapping[str, Any]) -> None:
    """Raises ConfigError, with the remedy, for jobs that are impossible with this kind of agents."""
    wrong = {"kind": pages.refused_jobs[kind]} if kind in pages.refused_jobs else {}
    wrong |= {name: text for name, text in pages.refused_parameters.items() if wanted.get(name)}
    if wrong:
        raise ConfigError(wrong)
