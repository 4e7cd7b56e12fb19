"""Fields of the environments that language-model agents play."""

from training_core.config.base import EnvironmentSection
from training_core.config.effects.language_models import config_of, evaluates_here
from training_core.config.effects.rules import Effects, Place, Rule, always, both, needs, unless, where
from training_core.config.environments import ENVIRONMENT_CONFIGS
from training_core.config.rollout import Agent, RolloutBuffer, RolloutWorkflow
from training_core.llm.environments.arithmetic import Arithmetic
from training_core.llm.environments.coding import Coding
from training_core.llm.environments.dataset import Dataset
from training_core.llm.environments.task_environment import PuzzleRewards


def _is_played(at: Place) -> str:
    """Whether the environment is stepped; custom agents and workflows only get its tasks."""
    config = config_of(at)
    kind = config.workflow.type
    if isinstance(config.workflow, Agent | RolloutWorkflow):
        return f'workflow.type = "{kind}" only reads tasks from the environment; its program plays and computes rewards'
    return _gives_tasks(at)


def _gives_tasks(at: Place) -> str:
    config = config_of(at)
    if isinstance(config.workflow, RolloutBuffer) and not evaluates_here(config):
        return f'workflow.type = "{config.workflow.type}": this run does not play episodes'
    return ""


def _team(at: Place) -> str:
    weight = config_of(at).algorithm.team_weight
    return _is_played(at) or ("" if weight else "algorithm.team_weight = 0")


def _local(at: Place) -> str:
    weight = config_of(at).algorithm.local_weight
    return _is_played(at) or ("" if weight else "algorithm.local_weight = 0")


def _pays_tools(at: Place) -> str:
    has = {"tool", at.section.proposer} & set(config_of(at).team.roles)
    return _local(at) if has else "the team has no role tool, and environment.proposer is empty"


def _divides(at: Place) -> str:
    return "" if "/" in at.section.operators else 'only with "/" among the operators'


_DISCOUNT = both(unless("shaping", 0.0), _local)
_GENERATED = both(where("problems", ""), _gives_tasks)
_RETRIES = both(unless("max_turns", 1), _team)
_SPECIAL: Effects = {
    PuzzleRewards: needs("shaping", _local) | needs("shaping_discount", _DISCOUNT),
    Arithmetic: needs("fractions", both(_divides, _gives_tasks))
    | needs("turn_discount", _RETRIES)
    | needs("tool_reward", _pays_tools),
    Dataset: needs("eval_share", both(where("eval_path", ""), _gives_tasks))
    | needs("turn_discount", _RETRIES),
    Coding: needs("steps largest", _GENERATED),
}
"""Rules of fields whose effect depends on more than the kind of field."""


def _rules(section: type[EnvironmentSection]) -> dict[str, Rule]:
    """The rules of the fields that an environment declares by kind."""
    kinds = (
        (section.task_fields, _gives_tasks),
        (section.play_fields, _is_played),
        (section.local_reward_fields, _local),
        (section.team_reward_fields, _team),
    )
    return always("type") | {field: rule for fields, rule in kinds for field in fields}


_SECTIONS: tuple[type[EnvironmentSection], ...] = (PuzzleRewards, *ENVIRONMENT_CONFIGS.values())
ENVIRONMENTS: Effects = {section: _rules(section) | dict(_SPECIAL.get(section, {})) for section in _SECTIONS}
