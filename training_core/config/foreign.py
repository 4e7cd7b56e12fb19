"""Names of fields and flags in slime, AReaL, MARLKit and PettingLLMs, so that an error about their name reports ours."""

from collections.abc import Mapping


def _by_theirs(names: Mapping[str, str]) -> dict[str, str]:
    return {theirs: ours for ours, words in names.items() for theirs in words.split()}


# Our field, with a remark if needed -> their names, in lower case with underscores.
SLIME = _by_theirs(
    {
        "policies.*.model, whose folder contains the architecture": (
            "swiglu num_layers hidden_size ffn_hidden_size num_attention_heads group_query_attention "
            "num_query_groups max_position_embeddings seq_length vocab_size"
        ),
        "policies.*.model": "hf_checkpoint hf_model_path",
        "workflow.type": "rollout_function_path",
        "workflow.url": "agent_rollout_buffer_url",
        "workflow.generator": "task_type",
        "the reward function of workflow.generator": "rm_type",
        "workflow.input_file": "prompt_data",
        "workflow.evaluation_file": "eval_prompt_data",
        "workflow.epochs": "num_epoch",
        "workflow.processes": "rollout_num_process",
        "workflow.retry_limit": "fetch_trajectory_retry_times",
        "workflow.loss_mask": "loss_mask_type",
        "run.iterations": "num_rollout",
        "rollout.tasks": "rollout_batch_size",
        "rollout.group_size": "n_samples_per_prompt",
        "rollout.over_sampling": "over_sampling_batch_size",
        "rollout.partial": "partial_rollout",
        "rollout.publish_every": "update_weights_interval update_rollout_weights_interval",
        "team.roles.*.sampling.temperature": "rollout_temperature",
        "team.roles.*.sampling.top_p": "rollout_top_p",
        "team.roles.*.sampling.max_tokens": "rollout_max_response_len",
        "checkpoint.every": "save_interval",
        "algorithm.type": "advantage_estimator",
        "algorithm.clip_low": "eps_clip",
        "algorithm.clip_high": "eps_clip_high",
        "algorithm.dual_clip": "eps_clip_c",
        "algorithm.kl_coefficient above 0": "use_kl_loss",
        "algorithm.kl_coefficient": "kl_loss_coef",
        "algorithm.kl_estimator": "kl_loss_type",
        "algorithm.gae_lambda": "lambd",
    }
)
AREAL = _by_theirs(
    {
        "rollout.staleness above 0": "async_training",
        "rollout.staleness": "max_head_offpolicyness",
        "rollout.max_concurrent": "max_concurrent_rollouts",
        "rollout.tasks": "consumer_batch_size",
        "rollout.group_size": "n_samples",
        "team.roles.*.sampling.max_tokens": "max_new_tokens",
        "algorithm.correction": "use_decoupled_loss",
        "algorithm.correction_cap": "behav_imp_weight_cap",
        "algorithm.clip_high": "eps_clip_higher",
        "algorithm.dual_clip": "c_clip",
        "algorithm.kl_coefficient": "kl_ctl",
        "policies.*.learner.minibatches": "ppo_n_minibatches",
        "checkpoint.every": "freq_steps",
        "checkpoint.every_seconds": "freq_secs",
        "checkpoint.every_epochs": "freq_epochs",
    }
)
MARLKIT = _by_theirs(
    {
        "algorithm.type": "algo",
        "environment.type": "env",
        "environment.path": "pz_env",
        "run.iterations": "iter",
        "run.name": "run_name",
        "evaluation.every": "log_every",
        "checkpoint.resume_from": "resume resume_from",
        "reporting.tensorboard or reporting.wandb": "logger logger_type",
        "reporting.project": "wandb_project",
        "environment.num_agents": "num_agents",
        "environment.max_cycles": "max_cycles",
        "environment.local_ratio": "local_ratio",
        "environment.num_good": "num_good",
        "environment.num_adversaries": "num_adversaries",
        "environment.num_obstacles": "num_obstacles",
        "run.seed": "seed",
        "policies.*.network.recurrent_hidden_dim": "recurrent_hidden_dim",
        "environment.supersuit.frame_stack": "frame_stack",
        "rollout.steps": "rollout_steps",
        "algorithm.discount": "gamma",
        "algorithm.clip": "clip_eps",
        "algorithm.value_clip": "clip_value_eps",
        "algorithm.entropy_coefficient": "ent_coef",
        "algorithm.value_coefficient": "vf_coef",
        "policies.*.learner.epochs": "ppo_epochs",
        "policies.*.learner.actor_learning_rate": "actor_lr",
        "policies.*.learner.critic_learning_rate": "critic_lr",
        "policies.*.learner.schedule": "lr_schedule",
        "policies.*.network.identity_dim": "id_embed_dim",
        "policies.*.network.type": "recurrent use_recurrent recurrent_type",
        "policies.*.network.recurrent_layers": "recurrent_num_layers",
        "policies.*.network.chunk_length": "chunk_len",
        "policies.*.network.heads": "transformer_nhead",
        "policies.*.network.context_length": "transformer_context_len",
        "environment.supersuit, one field per wrapper": "supersuit",
        "environment.supersuit.pad_observations": "pad_obs",
        "environment.supersuit.pad_action_space": "pad_act",
        "environment.supersuit.normalise_observations": "norm_obs",
        "evaluation.sampled_episodes": "eval_episodes",
        "evaluation.episodes": "eval_episodes_det",
        "checkpoint.every": "checkpoint_every",
    }
)
PETTING_LLMS = _by_theirs(
    {
        "rollout.group_size": "train_sample_num",
        "rollout.tasks": "train_batch_size",
        "evaluation.episodes": "validate_sample_num",
        "workflow.type": "rollout_mode",
        "team.roles.*.trained = false": "agent_untrained",
        "run.iterations": "num_iterations",
        "resources.environment_workers": "num_env_workers",
        "resources.environments_per_worker": "batch_size_per_worker",
        "policies.*.devices.rollout_workers": "rollout_gpus",
        "policies.*.devices.update_gpus": "update_gpus",
        "policies.*.learner.micro_batch_tokens": "gradient_accumulation_steps",
    }
)
FOREIGN = SLIME | AREAL | MARLKIT | PETTING_LLMS
"""Their name -> our field."""
NO_FIELD = "there is no such field"


def no_such_field(path: str) -> str:
    """The message for an unknown field or flag."""
    name = path.lstrip("-").rpartition(".")[2].replace("-", "_").lower()
    return f"{NO_FIELD}; here it is {FOREIGN[name]}" if name in FOREIGN else NO_FIELD
