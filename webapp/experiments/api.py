"""Experiments in the REST API: presets, estimates, teams, templates, sweeps."""

from typing import Annotated, Any, Literal

from django.http import HttpResponse
from pydantic import Field

from training_core.config.experiment import AgentKind
from training_core.config.files import (
    apply_overrides,
    has_words,
    parse_config,
    preset_names,
    read_preset,
    searched_text,
    to_toml,
)
from training_core.config.kinds import CONFIG_KINDS, AnyConfig
from training_core.config.profiles import profiles_document
from training_core.config.sweeps import SEED
from training_core.errors import ConfigError
from troupe_client.documents import experiments as documents
from troupe_client.documents import sweeps
from troupe_client.documents.launches import ConfigBody, RunActResult
from troupe_client.documents.runs import RunSummary
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_chosen
from webapp.api.routes import Routes
from webapp.experiments import services
from webapp.experiments.estimates import appraise
from webapp.experiments.fields import run_schema
from webapp.experiments.forms import draft_from_run
from webapp.experiments.gallery import gallery
from webapp.experiments.sweeps import (
    plan_make,
    sweep_detail,
    sweep_document,
    sweep_get,
    sweeps_visible,
)
from webapp.experiments.team import TeamForm, team_document, team_read, team_svg
from webapp.metrics.headline import HEADLINE
from webapp.runs.configs import check_visible, parse_permitted
from webapp.runs.selectors import run_get
from webapp.scheduling.api import run_answer
from webapp.scheduling.services import run_create

MOST = 500
routes = Routes()


def config_of(body: ConfigBody) -> AnyConfig:
    """Return the config of a body. Raises ConfigError."""
    tree = read_preset(body.preset) if body.config is None else body.config
    return parse_permitted(apply_overrides(tree, body.overrides))


@routes.get("presets/", name="presets")
def presets(
    user: Person,
    find: Annotated[
        str, Field(description="Words in name, description, purpose, task or kind of agents.")
    ] = "",
) -> list[documents.Preset]:
    """Return the presets with their expected results, results on this server, config and TOML."""
    configs = {name: parse_config(read_preset(name)) for name in preset_names()}
    return [
        documents.Preset(
            **dict(entry),
            config=configs[entry.name].model_dump(mode="json"),
            toml=to_toml(configs[entry.name], only_set=True),
        )
        for entry in gallery(user)
        if has_words(
            searched_text(entry.name, entry.description, CONFIG_KINDS[AgentKind(entry.agents)].label), find
        )
    ]


@routes.get("schema/run/", name="schema-run")
def run_config_schema(
    agents: Annotated[
        Literal["language_models", "networks"], Field(description="Kind of config.")
    ] = "language_models",
) -> documents.ConfigSchema:
    """Return the JSON schema of the config: every field with its description, bounds and default."""
    return documents.ConfigSchema(dict(run_schema(CONFIG_KINDS[AgentKind(agents)].config)))


@routes.post("estimate/", name="estimate")
def estimate(user: Person, body: documents.EstimateBody) -> documents.Estimate:
    """Return devices, memory (bytes) and volume of a config, compared with the current cluster. Nothing is created."""
    config = config_of(body)
    check_visible(user, config)  # the estimate reads its models
    return appraise(config, body.prompt_tokens)


@routes.post("profiles/", name="profiles")
def profiles(body: ConfigBody) -> documents.ResourceProfiles:
    """Return the devices of each resource profile, and the overrides that distribute a config over them.

    Only for language models; small networks learn in one process and are rejected.
    """
    return documents.ResourceProfiles.model_validate(profiles_document(config_of(body)))


def _team(user: Person, body: documents.TeamBody) -> TeamForm:
    return team_read(run_get(user, body.run).config if body.run else config_of(body).model_dump(mode="json"))


@routes.post("team/", name="team")
def team(user: Person, body: documents.TeamBody) -> documents.Team:
    """Return turn order, roles and policies of a config or a run; nothing is created."""
    return team_document(_team(user, body))


@routes.post("team/picture/", name="team-picture", media_type="image/svg+xml")
def team_picture(user: Person, body: documents.TeamBody) -> HttpResponse:
    """Return roles in turn order, a line from each to its policy (dashed: frozen), as SVG."""
    return HttpResponse(team_svg(_team(user, body)), content_type="image/svg+xml")


@routes.get("templates/", name="templates", operation_id="v1_templates_list")
def templates(user: Person) -> list[documents.Template]:
    """Return the templates of the caller's projects, by name."""
    return [services.template_document(template) for template in services.templates_visible(user)]


@routes.post("templates/", status=201)
def template_save(user: Person, body: documents.TemplateBody) -> documents.Template:
    """Save a preset with overrides, or the config of a run, under a name."""
    preset, overrides = body.preset, body.overrides
    if body.run:
        run = run_get(user, body.run)
        draft = draft_from_run(run.preset, run.config)
        preset, overrides = draft.preset, draft.overrides
    project = project_chosen(user, body.project)
    return services.template_document(
        services.template_save(
            user, project, body.name, preset, overrides, body.description, replace=body.replace
        )
    )


@routes.get("templates/<int:pk>/", name="template")
def template(user: Person, pk: int) -> documents.Template:
    """Return preset and overrides of a template."""
    return services.template_document(services.template_get(user, pk))


@routes.delete("templates/<int:pk>/")
def template_delete(user: Person, pk: int) -> documents.TemplateDeleted:
    """Delete the template; runs that started from it stay."""
    chosen = services.template_get(user, pk)
    services.template_delete(user, chosen)
    return documents.TemplateDeleted(id=pk, name=chosen.name, deleted=True)


@routes.post("templates/<int:pk>/launch/", name="template-launch", status=201)
def template_launch(user: Person, pk: int, body: documents.TemplateLaunchBody) -> RunSummary:
    """Launch a run from a template, with further overrides."""
    chosen = services.template_get(user, pk)
    overrides = chosen.overrides | body.overrides
    run = run_create(
        user,
        project_chosen(user, body.project or chosen.project.slug),
        read_preset(chosen.preset),
        chosen.preset,
        overrides,
        body.name or str(overrides.get("run.name") or chosen.name),
        body.tags,
        {"via": f"template {chosen.name}"} | body.provenance,
    )
    return run_answer(user, run.pk)


def _plan(body: sweeps.SweepBody) -> sweeps.SweepPlan:
    """Return the plan of a body, whose errors it holds. Raises ConfigError."""
    if body.seeds and SEED in body.axes:
        raise ConfigError({"seeds": f"give either seeds or an axis {SEED}"})
    axes: dict[str, list[Any]] = body.axes | ({SEED: body.seeds} if body.seeds else {})
    return plan_make(
        body.preset, body.overrides, axes, body.method, separate_processes=body.separate_processes
    )


@routes.get("sweeps/", name="sweeps", operation_id="v1_sweeps_list")
def sweep_list(
    user: Person, limit: Annotated[int, Field(ge=1, description="At most 500.")] = 50
) -> list[sweeps.Sweep]:
    """Return the caller's sweeps, newest first, with counts of their runs."""
    return [sweep_document(sweep) for sweep in sweeps_visible(user)[: min(limit, MOST)]]


@routes.post("sweeps/", status=201)
def sweep_launch(user: Person, body: sweeps.SweepBody) -> sweeps.SweepDetail:
    """Launch all runs of a sweep, or none with one message per field path."""
    project = project_chosen(user, body.project)
    sweep = services.sweep_create(user, project, _plan(body), body.name, body.tags, body.provenance)
    return sweep_detail(user, sweep_get(user, sweep.pk))


@routes.post("sweeps/plan/", name="sweep-plan")
def sweep_plan(body: sweeps.SweepBody) -> sweeps.SweepPlan:
    """Return the runs that the sweep would launch, and their cost; nothing is created."""
    plan = _plan(body)
    if plan.errors:
        raise ConfigError(plan.errors)
    return plan


@routes.get("sweeps/<int:pk>/", name="sweep")
def sweep(
    user: Person,
    pk: int,
    sort: Annotated[str, Field(description="A varied field or a headline metric; -NAME: descending.")] = "",
    metric: Annotated[
        str,
        Field(
            description=f"Metric to rank points by, one of {', '.join(HEADLINE)}; default: eval/success, or eval/return if no run has it."
        ),
    ] = "",
) -> sweeps.SweepDetail:
    """Return its runs with their values, and its points (everything except the seed) with mean and sd."""
    if metric and metric not in HEADLINE:
        raise ConfigError({"metric": f"use one of {', '.join(HEADLINE)}"})
    return sweep_detail(user, sweep_get(user, pk), sort, metric)


@routes.post("sweeps/<int:pk>/stop/", name="sweep-stop")
def sweep_stop(user: Person, pk: int) -> list[RunActResult]:
    """Stop the runs that have not ended."""
    return [RunActResult(**row) for row in services.sweep_stop(user, sweep_get(user, pk))]
