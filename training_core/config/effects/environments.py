"""Fields of the environments that language-model agents play."""

from training_core.config.coding import Coding
from training_core.config.effects.language_models import config_of, evaluates_here
from training_core.config.effects.rules import Effects, Place, always, both, needs, unless, where
from training_core.config.environments import External, PlanPath, PlanPathGrid, PlanPathSingle, PlanPathTrio
from training_core.config.puzzles import Blocksworld, EightQueens, Sokoban, Sudoku
from training_core.config.rollout import Agent, RolloutBuffer, RolloutWorkflow
from training_core.config.tasks import Arithmetic, CustomEnvironment, Dataset


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
_SHAPED = needs("shaping", _local) | needs("shaping_discount", _DISCOUNT)
_SOLVED = needs("goal_reward fail_reward", _team)
ENVIRONMENTS: Effects = {
    External: always("type"),
    PlanPathGrid: always("type")
    | needs("size wall_share", _gives_tasks)
    | needs("max_turns moves_per_turn", _is_played)
    | needs("wording", _gives_tasks)
    | needs("step_reward blocked_reward", _local)
    | needs("optimal_reward", _team)
    | _SOLVED
    | _SHAPED,
    PlanPath: always("type"),
    PlanPathSingle: always("type"),
    PlanPathTrio: always("type") | needs("report_reward", _local),
    Sudoku: always("type")
    | needs("size holes", _gives_tasks)
    | needs("max_turns", _is_played)
    | needs("step_reward refused_reward", _local)
    | _SOLVED
    | _SHAPED,
    Sokoban: always("type")
    | needs("size boxes wall_share", _gives_tasks)
    | needs("max_turns moves_per_turn", _is_played)
    | needs("step_reward blocked_reward", _local)
    | needs("on_goal_reward off_goal_reward win_reward fail_reward", _team)
    | _SHAPED,
    EightQueens: always("type")
    | needs("size", _gives_tasks)
    | needs("max_turns", _is_played)
    | needs("step_reward refused_reward", _local)
    | _SOLVED
    | _SHAPED,
    Blocksworld: always("type")
    | needs("blocks", _gives_tasks)
    | needs("max_turns", _is_played)
    | needs("step_reward refused_reward", _local)
    | _SOLVED
    | _SHAPED,
    Arithmetic: always("type")
    | needs("terms largest operators", _gives_tasks)
    | needs("fractions", both(_divides, _gives_tasks))
    | needs("max_turns", _is_played)
    | needs("wording", _gives_tasks)
    | needs("proposer", _is_played)
    | needs("turn_discount", _RETRIES)
    | needs("right_reward", _team)
    | needs("tool_reward", _pays_tools)
    | needs("format_reward", _local),
    Dataset: always("type")
    | needs("path eval_path", _gives_tasks)
    | needs("eval_share", both(where("eval_path", ""), _gives_tasks))
    | needs("max_turns success_reward reward", _is_played)
    | needs("turn_discount", _RETRIES),
    Coding: always("type")
    | needs("problems", _gives_tasks)
    | needs("steps largest", _GENERATED)
    | needs("hidden_tests max_turns tests_per_turn test_seconds memory_mib", _is_played)
    | needs("pass_reward test_reward malformed_reward", _local)
    | needs("solved_reward fail_reward", _team),
    CustomEnvironment: always("type")
    | needs("path args", _gives_tasks)
    | needs("max_turns threads", _is_played),
}
