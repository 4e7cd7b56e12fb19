"""Fields of language-model agents' configs, except algorithms and environments."""

from typing import cast

from training_core.config.effects.rules import (
    Effects,
    Place,
    always,
    both,
    needs,
    own_fields,
    unless,
    where,
)
from training_core.config.engines import ENGINE_CONFIGS
from training_core.config.models import LEARNER_CONFIGS, Devices, Policy, WarmStart
from training_core.config.rewards import CustomReward, MathReward, RewardFunction
from training_core.config.rollout import (
    Agent,
    CustomWorkflow,
    Episodes,
    MultiTurn,
    Resources,
    Rollout,
    RolloutBuffer,
    RolloutWorkflow,
    TurnTree,
)
from training_core.config.run import RunConfig
from training_core.config.team import Role, RoleAgent, Sampling, Speaks, Team
from training_core.llm.generation.engine_config import EngineSection, OpenAi, Torch, Vllm
from training_core.llm.learning.learner_config import Optimisation
from training_core.llm.models.adapter_config import Lora, WholeModel


def config_of(at: Place) -> RunConfig:
    """The config, as a config of language models."""
    return cast(RunConfig, at.config)


def evaluates_here(config: RunConfig) -> bool:
    """Whether Troupe plays held-out tasks in the environment."""
    workflow = config.workflow
    outside = isinstance(workflow, RolloutBuffer) and bool(workflow.evaluation_file)
    return config.evaluation.every > 0 and not outside


def _plays_turns(at: Place) -> str:
    """Whether Troupe calls the roles in turn, and not an external program."""
    config = config_of(at)
    kind = config.workflow.type
    if isinstance(config.workflow, Agent | RolloutWorkflow):
        return f'workflow.type = "{kind}": the program of workflow.path calls the roles'
    if isinstance(config.workflow, RolloutBuffer) and not evaluates_here(config):
        return f'workflow.type = "{kind}": this run does not play episodes'
    return ""


def _prompts(at: Place) -> str:
    config = config_of(at)
    first = at.name == config.team.order[0]
    return "" if isinstance(config.workflow, Agent | RolloutWorkflow) and first else _plays_turns(at)


def _samples(at: Place) -> str:
    config = config_of(at)
    workflow = config.workflow
    if (
        isinstance(workflow, RolloutBuffer)
        and workflow.engine_url != "policies"
        and not evaluates_here(config)
    ):
        return "this run does not sample: rollouts come from external programs"
    return ""


def _evaluates_sampled(at: Place) -> str:
    evaluation = at.config.evaluation
    if evaluation.every and evaluation.sampled:
        return ""
    return "only with evaluation.every above 0 and evaluation.sampled = true"


def _has_several(at: Place) -> str:
    return "" if len(at.config.trained_policies) > 1 else "only one policy is trained"


def _used(at: Place) -> str:
    return "" if at.named("policies") in at.config.used_policies else "no role uses this policy"


def _trained(at: Place) -> str:
    if why := _used(at):
        return why
    trained = at.named("policies") in at.config.trained_policies
    return "" if trained else "no role that uses this policy is trained"


def _apart(at: Place) -> str:
    return where("placement", "apart")(at) or _trained(at)


def _keeps_conversations(at: Place) -> str:
    config = config_of(at)
    talks = isinstance(config.workflow, MultiTurn | Agent | RolloutWorkflow | RolloutBuffer)
    if talks or (config.rollout.staleness and config.rollout.partial):
        return ""
    return "no conversation is continued and no answer is interrupted in this run"


def _on_a_gpu(at: Place) -> str:
    devices = config_of(at).policies[at.named("policies")].devices
    return "" if devices.rollout_gpus else "only on a GPU (devices.rollout_gpus above 0)"


def _packed_attention(at: Place) -> str:
    devices = config_of(at).policies[at.named("policies")].devices
    if devices.rollout_gpus or devices.update_gpus or at.section.packed_attention == "mask":
        return unless("packing", False)(at)
    return "only on a GPU (devices.rollout_gpus or devices.update_gpus above 0)"


def _static(at: Place) -> str:
    return _on_a_gpu(at) if at.section.static_shapes == "off" else ""


def _overlaps(at: Place) -> str:
    if config_of(at).rollout.staleness:
        return ""
    return "only with rollout.staleness above 0: otherwise all tasks of an iteration are played before the update"


def _interrupts(at: Place) -> str:
    workflow = config_of(at).workflow
    served = isinstance(workflow, RolloutBuffer) and workflow.engine_url == "policies"
    return "" if served else _overlaps(at)


def _may_be_stale(at: Place) -> str:
    config = config_of(at)
    if isinstance(config.workflow, RolloutWorkflow | CustomWorkflow):
        return ""
    if isinstance(config.workflow, RolloutBuffer):
        return "records older than workflow.max_staleness are always dropped"
    return (
        "" if config.rollout.staleness else "data is never older than the policy with rollout.staleness = 0"
    )


def _counts_epochs(at: Place) -> str:
    return "" if at.config.checkpoint.every_epochs else "only with checkpoint.every_epochs above 0"


def _has_second_turns(at: Place) -> str:
    one = getattr(config_of(at).environment, "max_turns", 2) == 1
    return "environment.max_turns = 1 has no second turn" if one else ""


def _has_candidates(at: Place) -> str:
    return "" if config_of(at).rollout.group_size > 1 else "rollout.group_size = 1 has one candidate"


def _evaluates(at: Place) -> str:
    return "" if at.config.evaluation.every else "evaluation.every = 0"


LANGUAGE_MODELS: Effects = {
    RunConfig: always(
        "run team policies environment workflow algorithm rollout resources evaluation checkpoint reporting health"
    ),
    Team: always("roles turn_order") | needs("alternate", _has_several) | needs("parallel", _plays_turns),
    Role: always("policy trained sampling")
    | needs("prompt examples", _prompts)
    | needs("agent may_pass speaks", _plays_turns),
    RoleAgent: always("path") | needs("args", unless("path", "")),
    Speaks: always("first last every"),
    Sampling: always("temperature top_k top_p max_tokens")
    | needs("eval_temperature", _evaluates_sampled)
    | needs("stop", _samples),
    Policy: needs("model devices", _used)
    | needs("engine", both(_used, _samples))
    | needs("adapter learner", _trained)
    | needs("warm_start", _used),
    WarmStart: always("steps") | needs("file batch learning_rate loss_mask", unless("steps", 0)),
    WholeModel: always("type"),
    Lora: always("type rank alpha dropout target_modules"),
    Optimisation: always(
        "type learning_rate schedule warmup_iterations betas weight_decay max_grad_norm epochs minibatches micro_batch_tokens "
        "packing precision activation_checkpointing"
    )
    | needs("packed_attention", _packed_attention)
    | needs("final_learning_rate", unless("schedule", "constant")),
    **{section: own_fields(section, Optimisation) for section in LEARNER_CONFIGS.values()},
    Devices: always("placement rollout_workers rollout_cpus rollout_gpus")
    | needs("update_workers update_cpus update_gpus weight_transfer", _apart),
    EngineSection: always("type max_batch"),
    **{section: own_fields(section, EngineSection) for section in ENGINE_CONFIGS.values()},
    Torch: always("type")
    | needs("conversation_cache", _keeps_conversations)
    | needs("static_shapes", _static),
    Vllm: own_fields(Vllm, EngineSection) | needs("gpu_memory", _on_a_gpu),
    OpenAi: own_fields(OpenAi, EngineSection) | needs("weights_folder", _trained),
    Rollout: always("tasks group_size over_sampling staleness publish_every")
    | needs("epoch_tasks", _counts_epochs)
    | needs("stale", _may_be_stale)
    | needs("max_concurrent wave", _overlaps)
    | needs("partial", _interrupts),
    Resources: always("environment_workers environments_per_worker environment_cpus threads"),
    RewardFunction: always("type timeout retries processes memory_mib"),
    MathReward: always("type strict"),
    CustomReward: always("type path args"),
    TurnTree: always("type") | needs("carry", _has_candidates),
    Episodes: always("type"),
    MultiTurn: always("type") | needs("feedback", _has_second_turns),
    CustomWorkflow: always("type path args"),
    Agent: always(
        "type path timeout success_at failure_reward strict export_style turn_discount port batch_window"
    )
    | needs("args concurrency", unless("path", ""))
    | needs("patience", where("path", "")),
    RolloutWorkflow: always(
        "type path args environment_path reward concurrency timeout success_at export_style turn_discount"
    )
    | needs("environment_args", unless("environment_path", "")),
    RolloutBuffer: always(
        "type url token_env channel generator input_file loss_mask loss_mask_path reward success_at poll_interval retry_interval "
        "retry_limit max_staleness"
    )
    | needs("loss_mask_type", unless("loss_mask_path", ""))
    | needs("epochs processes engine_url ahead", unless("generator", ""))
    | needs("evaluation_file", both(unless("generator", ""), _evaluates)),
}
