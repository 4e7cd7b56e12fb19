"""When a config field has an effect, and the settings of a config that have none.

A section declares in `effects` the rules of fields whose effect has a condition; all other fields always have one. Validators refuse
invalid combinations. Settings that merely have no effect are reported: by the form, by `troupe launch`, by dry runs and in the run's
log. So are those that reverse what another one means, as a start below its end: a section declares their rules in `orders`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.base import EnvironmentSection, Section, parts

PROGRAMS = ("agent", "rollout_workflow")
"""Workflows in which a custom program plays."""


@dataclass(frozen=True)
class Place:
    """The location of a field."""

    config: Any
    """The whole config, of either kind of agents."""
    section: Any
    """The section with the field."""
    path: str
    """Dotted path of that section; empty for the config itself."""

    @property
    def name(self) -> str:
        """The section's name in its table: the name of the policy, role or rule."""
        return self.path.rsplit(".", 1)[-1]

    @property
    def policy(self) -> str:
        """The policy that the section's path contains: planner in policies.planner.learner."""
        return self.path.removeprefix("policies.").split(".", 1)[0]


Rule = Callable[[Place], str]
"""The reason why a field has no effect at a place; empty if it has one."""
Effects = Mapping[str, Rule]
"""Rules by field."""


@dataclass(frozen=True)
class Unused:
    """A setting without effect."""

    path: str
    """Dotted path, such as algorithm.clip_low."""
    why: str

    def __str__(self) -> str:
        return f"{self.path} has no effect here: {self.why}"


@dataclass(frozen=True)
class Reversed(Unused):
    """A setting that reverses or voids what another one means."""

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def questionable_settings(config: Section) -> list[Unused]:
    """Findings for display before a launch: unused and reversed settings."""
    return [*unused_settings(config), *reversed_settings(config)]


def reversed_settings(config: Section) -> list[Reversed]:
    """Settings that pass another one which they should not, in the config's order, also with the value of a preset or a default."""
    return list(_reversed_below(Place(config, config, "")))


def unused_settings(config: Section) -> list[Unused]:
    """Fields that differ from their default and change nothing in this config, in the config's order."""
    return list(_below(Place(config, config, ""), ""))


def rule_of(section: type[Section], field: str) -> Rule | None:
    """The rule of a field, from the first class that declares one; None if it always has an effect."""
    for kind in section.__mro__:
        if rule := vars(kind).get("effects", {}).get(field):
            return rule  # type: ignore[no-any-return]
    if issubclass(section, EnvironmentSection):
        return next(
            (rule for kind, rule in ENVIRONMENT_KINDS.items() if field in getattr(section, kind)), None
        )
    return None


def _below(at: Place, why: str) -> Iterator[Unused]:
    """Unused settings of a section; `why` is the reason if the whole section has no effect."""
    for name, below, value in parts(at.section):
        path = f"{at.path}.{below}".lstrip(".")
        rule = rule_of(type(at.section), name)
        reason = why or (rule(at) if rule else "")
        default = type(at.section).model_fields[name].get_default(call_default_factory=True)
        if isinstance(value, Section):
            kind = getattr(value, "type", None)
            if reason and kind != getattr(default, "type", kind):
                yield Unused(f"{path}.type", reason)
            yield from _below(Place(at.config, value, path), reason)
        elif reason and value != default:
            yield Unused(path, reason)


def _reversed_below(at: Place) -> Iterator[Reversed]:
    orders: dict[str, Rule] = {}
    for kind in reversed(type(at.section).__mro__):
        orders |= vars(kind).get("orders", {})
    for name, below, value in parts(at.section):
        path = f"{at.path}.{below}".lstrip(".")
        effect = rule_of(type(at.section), name)
        if effect and effect(at):
            continue  # unused, with all below it
        if isinstance(value, Section):
            yield from _reversed_below(Place(at.config, value, path))
        elif reason := orders[name](at) if name in orders else _penalty(at, name, value):
            yield Reversed(path, reason)


def _penalty(at: Place, name: str, value: Any) -> str:
    """Penalties are subtracted."""
    if name.endswith("_penalty") and isinstance(value, float) and value < 0:
        return (
            f"{value:g} is a penalty below 0, which rewards what it should discourage; use a positive number"
        )
    return ""


# Rules.


def needs(names: str, rule: Rule) -> dict[str, Rule]:
    """Fields, separated by spaces, with one rule."""
    return dict.fromkeys(names.split(), rule)


def only_if(holds: Callable[[Place], Any], otherwise: str) -> Rule:
    """An effect only if this holds; `otherwise` is the reason."""
    return lambda at: "" if holds(at) else otherwise


def where(field: str, *values: Any) -> Rule:
    """An effect only if a field of the same section has one of these values."""
    condition = " or ".join(f"{field} = {_spelled(value)}" for value in values)
    return only_if(lambda at: getattr(at.section, field) in values, f"only with {condition}")


def unless(field: str, value: Any) -> Rule:
    """An effect only if a field of the same section differs from this value, which disables it."""
    return only_if(
        lambda at: getattr(at.section, field) != value, f"{field} = {_spelled(value)} leaves it unused"
    )


def both(*rules: Rule) -> Rule:
    """An effect only if all rules give one; returns the first reason."""
    return lambda at: next((why for rule in rules if (why := rule(at))), "")


def at_most(field: str, bound: Callable[[Place], float], name: str, otherwise: str) -> Rule:
    """A field whose value must not pass a bound, which is called `name`; `otherwise` says what happens, and the remedy."""

    def rule(at: Place) -> str:
        value, most = getattr(at.section, field), bound(at)
        return "" if value is None or value <= most else f"{value:g} is above {name} = {most:g}: {otherwise}"

    return rule


def iterations(at: Place) -> int:
    """The run's number of iterations."""
    count: int = at.config.run.iterations
    return count


def shortest_answer(at: Place) -> int:
    """The smallest limit of answers over the trained roles."""
    roles = at.config.team.roles.values()
    limits: list[int] = [role.sampling.max_tokens for role in roles if role.trained]
    return min(limits)


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


# Rules that several sections use. Those of language models read `config.workflow`, which configs of small networks lack.

evaluates = only_if(lambda at: at.config.evaluation.every, "evaluation.every = 0")
used = only_if(lambda at: at.policy in at.config.used_policies, "no role uses this policy")
trained = both(
    used,
    only_if(lambda at: at.policy in at.config.trained_policies, "no role that uses this policy is trained"),
)


def _workflow(at: Place) -> str:
    kind: str = at.config.workflow.type
    return kind


def _evaluates_here(config: Any) -> bool:
    """Whether Troupe plays held-out tasks in the environment."""
    outside = config.workflow.type == "rollout_buffer" and config.workflow.evaluation_file
    return bool(config.evaluation.every > 0 and not outside)


def gives_tasks(at: Place) -> str:
    """Whether the environment is used at all."""
    if _workflow(at) == "rollout_buffer" and not _evaluates_here(at.config):
        return 'workflow.type = "rollout_buffer": this run does not play episodes'
    return ""


def plays_turns(at: Place) -> str:
    """Whether Troupe calls the roles in turn, and not an external program."""
    if _workflow(at) in PROGRAMS:
        return f'workflow.type = "{_workflow(at)}": the program of workflow.path calls the roles'
    return gives_tasks(at)


def renders_messages(at: Place) -> str:
    """Whether Troupe makes the prompts of the roles, and not an external program."""
    workflow = at.config.workflow
    serves = workflow.type == "rollout_buffer" and workflow.engine_url == "policies"
    return "" if workflow.type == "agent" or serves else plays_turns(at)


def samples(at: Place) -> str:
    """Whether a policy's engine is used."""
    workflow = at.config.workflow
    outside = workflow.type == "rollout_buffer" and workflow.engine_url != "policies"
    if outside and not _evaluates_here(at.config):
        return "this run does not sample: rollouts come from external programs"
    return ""


def _is_played(at: Place) -> str:
    """Whether the environment is stepped; custom agents and workflows only get its tasks."""
    kind = _workflow(at)
    if kind in PROGRAMS:
        return f'workflow.type = "{kind}" only reads tasks from the environment; its program plays and computes rewards'
    return gives_tasks(at)


team_reward = both(
    _is_played, only_if(lambda at: at.config.algorithm.team_weight, "algorithm.team_weight = 0")
)
local_reward = both(
    _is_played, only_if(lambda at: at.config.algorithm.local_weight, "algorithm.local_weight = 0")
)
ENVIRONMENT_KINDS: dict[str, Rule] = {
    "task_fields": gives_tasks,
    "play_fields": _is_played,
    "local_reward_fields": local_reward,
    "team_reward_fields": team_reward,
}
"""Rules of the kinds of fields that an environment declares."""


def on_a_gpu(at: Place) -> str:
    """Whether the policy's engine is on a GPU."""
    devices = at.config.policies[at.policy].devices
    return "" if devices.rollout_gpus else "only on a GPU (devices.rollout_gpus above 0)"
