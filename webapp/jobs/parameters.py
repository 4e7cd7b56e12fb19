"""What a job of each kind may be asked for."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from training_core.errors import ConfigError
from webapp.jobs.models import Job

Play = Literal["eval", "eval_sampled"]
MOST_TASKS = 2**31 - 1


class Parameters(BaseModel):
    """Base of all."""

    model_config = ConfigDict(extra="forbid")


class DryRun(Parameters):
    """Training episodes by the base models; of small networks, episodes after two short iterations."""

    episodes: int = Field(1, ge=1, le=16)


class Evaluate(Parameters):
    """Held-out tasks `first`, `first` + 1, ...; "eval" greedily, "eval_sampled" at evaluation.temperature.

    With `swapped`, each role is played by the policy of another role.
    """

    episodes: int = Field(32, ge=1, le=5000)
    kind: Play = "eval"
    first: int = Field(0, ge=0, le=MOST_TASKS)
    swapped: bool = False


class Match(Parameters):
    """Episodes per seating."""

    episodes: int = Field(32, ge=1, le=1000)
    kind: Play = "eval_sampled"


class Talk(Parameters):
    """Roles that the person plays, and the held-out task."""

    roles: list[str] = Field(min_length=1, max_length=100)
    task: int = Field(0, ge=0, le=MOST_TASKS)
    kind: Play = "eval_sampled"


class Prepare(Parameters):
    """Nothing to choose: the config names the models."""


PARAMETERS: dict[str, type[Parameters]] = {
    Job.Kind.DRY_RUN: DryRun,
    Job.Kind.EVALUATE: Evaluate,
    Job.Kind.MATCH: Match,
    Job.Kind.TALK: Talk,
    Job.Kind.PREPARE: Prepare,
}


def parameters_read(kind: str, given: Mapping[str, Any], roles: Mapping[str, Any]) -> dict[str, Any]:
    """Checked, with defaults. Raises ConfigError with a message per parameter."""
    if kind not in PARAMETERS:
        raise ConfigError({"kind": f"use one of {', '.join(PARAMETERS)}"})
    try:
        wanted = PARAMETERS[kind].model_validate(dict(given)).model_dump()
    except ValidationError as error:
        raise ConfigError(
            {".".join(str(part) for part in each["loc"]): each["msg"] for each in error.errors()}
        ) from error
    unknown = [role for role in wanted.get("roles", []) if role not in roles]
    if unknown:
        raise ConfigError({"roles": f"there is no role {unknown[0]}; the team has {', '.join(roles)}"})
    return wanted


def check_for_networks(kind: str, wanted: Mapping[str, Any]) -> None:
    """Raises ConfigError for what small networks cannot be asked for, with what to do instead."""
    wrong: dict[str, str] = {}
    if kind == Job.Kind.TALK:
        wrong["kind"] = (
            "small networks neither read nor write, so nobody can talk to them; "
            "evaluate the checkpoint and watch its episodes instead: troupe evaluate RUN best"
        )
    if kind == Job.Kind.PREPARE:
        wrong["kind"] = "small networks have no base model, so there is nothing to prepare; launch the run"
    if wanted.get("swapped"):
        wrong["swapped"] = (
            "roles of small networks see and do different things, so none can play another's part; "
            "let two checkpoints meet instead: troupe match RUN:1 RUN:best"
        )
    if wanted.get("first"):
        wrong["first"] = (
            "episodes of small networks follow from run.seed; for other ones override it: run.seed=1"
        )
    if wrong:
        raise ConfigError(wrong)
