"""Experiments before their launch: presets, templates, teams, estimates."""

from datetime import datetime
from typing import Any, ClassVar, Self

from pydantic import Field, RootModel, model_validator

from troupe_client.documents.base import Body, Document
from troupe_client.documents.cluster import ClusterCapacity, ClusterNode, DevicePool
from troupe_client.documents.launches import ConfigBody, Overrides, Provenance

LONGEST_PROMPT = 1_000_000
"""Maximum prompt length of an estimate."""


class ConfigSchema(RootModel[dict[str, Any]]):
    """The JSON schema of a config: every field with its description, bounds and default."""


class PresetExpected(Document):
    """The documented result of a preset."""

    task: str
    purpose: str
    time: str = Field(description="Duration, and on which machine.")
    result: str = Field(description="Final values of metrics.")


class PresetSeen(Document):
    """Medians over the caller's finished runs with exactly the config of a preset, except the seed."""

    runs: int
    seconds: float
    value: float | None = Field(description="Success, greedy.")


class PresetEntry(Document):
    """A preset with its results."""

    name: str
    agents: str = Field(description="language_models or networks.")
    description: str
    expected: PresetExpected | None
    seen: PresetSeen | None


class Preset(PresetEntry):
    """A preset with its config."""

    config: dict[str, Any]
    toml: str


class Template(Document):
    """A preset with changed fields, saved under a name."""

    columns: ClassVar = {
        "template": "id",
        "name": "name",
        "preset": "preset",
        "changes": "overrides",
        "project": "project",
        "description": "description",
    }

    id: int
    name: str
    description: str
    project: str = Field(description="Slug of the project.")
    owner: str
    preset: str
    overrides: Overrides
    created_at: datetime
    links: dict[str, str]


class TemplateDeleted(Document):
    """A deleted template."""

    id: int
    name: str
    deleted: bool


class TemplateBody(Body):
    """A template to save: a preset with overrides, or the config of a run."""

    name: str = ""
    description: str = ""
    preset: str = ""
    overrides: Overrides = {}
    run: str = Field("", description="Id of a run, instead of a preset.")
    project: str = Field("", description="Slug; default: the caller's oldest project.")
    replace: bool = Field(False, strict=True, description="Replace a template with this name.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.run) == bool(self.preset):
            raise ValueError("preset: give either preset (with overrides) or run")
        return self


class TemplateLaunchBody(Body):
    """A run that starts from a template."""

    overrides: Overrides = {}
    name: str = ""
    project: str = Field("", description="Slug; default: the template's project.")
    tags: list[str] = []
    provenance: Provenance = {}


class TeamBody(ConfigBody):
    """A config, or a run."""

    run: str = Field("", description="Id of a run, instead of a config.")

    @model_validator(mode="after")
    def _one_config(self) -> Self:
        sources = [bool(self.preset), self.config is not None, bool(self.run)]
        if self.run and (sum(sources) > 1 or self.overrides):
            raise ValueError("run: give either a run or a config")
        if sum(sources) != 1:
            raise ValueError("preset: give either preset (with overrides) or config")
        return self


class TeamRole(Document):
    """A role of a team."""

    role: str
    policy: str
    trained: bool
    prompt: str
    speaks: list[int] = Field(description="Steps of a turn, from 1; simultaneous roles share one.")


class TeamPolicy(Document):
    """A policy of a team."""

    policy: str
    model: str
    trained: bool = Field(description="Whether a trained role uses it.")
    roles: list[str]


class Team(Document):
    """The team of an experiment: roles in the order of their first turn, policies in the order of their roles."""

    order: list[str]
    steps: list[list[str]] = Field(
        description="Order within a turn; the roles of one step act simultaneously."
    )
    roles: list[TeamRole]
    policies: list[TeamPolicy]


class ResourceProfile(Document):
    """Devices of a cluster of a certain size, and how a config uses them."""

    gpus: float
    cpus: float
    memory_gigabytes: float
    overrides: Overrides


class ResourceProfiles(RootModel[dict[str, ResourceProfile]]):
    """Resource profiles by name."""


class EstimateBody(ConfigBody):
    """A config to estimate."""

    prompt_tokens: int | None = Field(
        None, strict=True, ge=1, le=LONGEST_PROMPT, description="Assumed length of prompts."
    )


class EstimateVerdict(Document):
    """Whether an experiment fits on the cluster."""

    level: str = Field(
        description="fits: now; waits: after other runs; never: not on this cluster; unknown: no cluster answers, or no memory is known."
    )
    reasons: list[str]
    change: Overrides = Field(
        description="Overrides with which the memory suffices: the smallest tried change, if there is one."
    )


class EstimateDevices(Document):
    """Devices that a run requests."""

    cpus: float
    gpus: float


class EstimateCluster(ClusterCapacity):
    """Devices of the cluster."""

    nodes: list[ClusterNode]


class EstimateWorker(Document):
    """Maximum memory of each of a policy's workers of one kind, in bytes."""

    kind: str
    workers: int
    cpus: float
    gpus: float
    parts: dict[str, int]
    peak: int
    host: int = Field(
        description="Main memory of a worker on a GPU, for states that learner.offload moves to the host."
    )


class EstimatePolicy(Document):
    """Memory of one policy's workers."""

    policy: str
    model: str
    precision: str
    parameters: int | None
    workers: list[EstimateWorker]
    engine: str = Field(description='What generates; with engine.type = "auto" also why, on the server.')
    unknown: str = Field(description="Reason why the model's size is unknown.")
    sizes: dict[str, int] = Field(
        description="micro_batch_tokens of a trained policy, and max_batch: numbers, also where the config has auto."
    )
    published: bool = Field(
        description="Whether the sizes are the published ones of a model that the server does not have."
    )


class EstimateVolume(Document):
    """Numbers of episodes and samples; upper bounds, since episodes may end early."""

    episodes: int = Field(description="Training episodes per iteration.")
    answers: int = Field(description="Sampled answers per iteration.")
    tokens: int = Field(description="Tokens of those answers, without prompts.")
    first_iteration: int
    evaluations: int
    evaluation_episodes: int = Field(description="Per evaluation.")
    episodes_total: int
    tokens_total: int


class EstimateDuration(Document):
    """Rough times in seconds on the card that was measured, if every answer and episode has its maximum length."""

    card: str
    measured: str = Field(description="Date and commit of the measurement.")
    rollout: float = Field(description="Per iteration.")
    update: float = Field(description="Per iteration.")
    evaluation: float = Field(description="Per evaluation.")
    total: float = Field(description="Of all iterations and evaluations.")


class UnusedSetting(Document):
    """A setting without effect, or one that reverses what another one means."""

    path: str
    why: str


class Estimate(Document):
    """Devices, memory and volume of a run, compared with the cluster."""

    verdict: EstimateVerdict
    wants: EstimateDevices
    cluster: EstimateCluster | None = Field(description="Null if it does not answer.")
    pools: list[DevicePool]
    policies: list[EstimatePolicy]
    volume: EstimateVolume
    duration: EstimateDuration | None = Field(
        description="Null without GPUs, for small networks, and for a model of unknown size."
    )
    prompt_tokens: int
    unused: list[UnusedSetting]
