"""What pages need to know of each kind of agents: words, units, tiles, files, and the jobs that it cannot have."""

from collections.abc import Iterable, Mapping
from typing import Any

from training_core.config.experiment import AgentKind
from training_core.config.kinds import agents_of
from webapp.agents.pages import AgentPages, TileFigure, TileSpec
from workers.storage.checkpoint_files import model_files, network_files

LAG = TileSpec(
    "Lag of evaluation",
    "iterations",
    (TileFigure("eval/lag", "greedy"), TileFigure("eval_sampled/lag", "sampled")),
)
LANGUAGE_MODELS = AgentPages(
    step="turn",
    answer="answer",
    tasks="tasks",
    probes="prompts",
    untrained="base models",
    episodes="transcripts",
    query="planner.reward > 0 and executor.reward <= 0",
    stored="reporting.episodes_per_iteration sets the number of stored transcripts",
    no_batches="",
    override="environment.size=6",
    budget="at most {:,} answers per iteration",
    tokens=True,
    matched_by_role=False,
    headline="eval/success",
    units={},
    tiles=(
        TileSpec("Success, greedy", "", (TileFigure("eval/success", since="base"),)),
        TileSpec("Success, sampled", "", (TileFigure("eval_sampled/success", since="base"),)),
        LAG,
        TileSpec("Return per episode", "", (TileFigure("train/return", since="start"),)),
        TileSpec("Reward by role", "", (TileFigure("train/{role}/reward"),)),
        TileSpec("Entropy", "nats per token", (TileFigure("policy/{policy}/entropy"),)),
        TileSpec("KL to base", "nats per token", (TileFigure("policy/{policy}/kl"),)),
        TileSpec("Tokens per second", "", (TileFigure("rollout/tokens_per_second", "rollout"),)),
        TileSpec("Staleness", "", (TileFigure("rollout/staleness", "versions"),)),
        TileSpec(
            "Errors",
            "of the last iteration",
            (TileFigure("rollout/failed", "episodes"), TileFigure("rollout/truncated", "share truncated")),
        ),
    ),
    refused_jobs={},
    refused_parameters={},
    archive="Hugging Face folders of its policies",
    weights="Hugging Face folders",
    archive_files=model_files,
    card_facts={"library_name": "transformers", "pipeline_tag": "text-generation"},
    card_source=("base model", "model"),
)


NETWORKS = AgentPages(
    step="step",
    answer="action",
    tasks="starts",
    probes="starts",
    untrained="untrained networks",
    episodes="episodes",
    query="return > 0 and iteration >= 10",
    stored="Steps are stored for evaluations (evaluation.probes), not for training",
    no_batches="small networks learn from steps, not from whole episodes",
    override="run.seed=1",
    budget="{:,} environment steps per iteration",
    tokens=False,
    matched_by_role=True,
    headline="eval/return",
    units={
        "length": "steps",
        "entropy": "nats per action",
        "kl": "nats per action",
        "clip_fraction": "share of actions",
        "actor_loss": "per action",
        "env_steps_per_second": "environment steps / s",
        "return_std": "reward per episode",
        "value_loss": "squared return",
        "explained_variance": "share of variance",
        "ratio_mean": "probability ratio",
        "ratio_std": "probability ratio",
        "critic_grad_norm": "L2",
        "epochs": "passes over the batch",
    },
    tiles=(
        TileSpec("Return{side}, greedy", "", (TileFigure("eval/return", since="start"),)),
        TileSpec("Return{side}, sampled", "", (TileFigure("eval_sampled/return", since="start"),)),
        LAG,
        TileSpec("Return{side} in training", "", (TileFigure("train/return", since="start"),)),
        TileSpec("Return by role, greedy", "", (TileFigure("eval/{role}/reward"),)),
        TileSpec("Entropy", "nats per action", (TileFigure("policy/{policy}/entropy"),)),
        TileSpec(
            "Explained variance", "of returns by values", (TileFigure("policy/{policy}/explained_variance"),)
        ),
        TileSpec("Episode length", "", (TileFigure("eval/length", "steps"),)),
        TileSpec(
            "Environment steps",
            "",
            (
                TileFigure("progress/env_steps", "in all"),
                TileFigure("rollout/env_steps_per_second", "per second"),
            ),
        ),
        TileSpec(
            "Failed episodes",
            "of the last iteration",
            (TileFigure("rollout/failed", "training"), TileFigure("eval/failed", "evaluation")),
        ),
    ),
    refused_jobs={
        "talk": "small networks do not process text, so a conversation is not possible; "
        "evaluate the checkpoint and watch its episodes instead: troupe checkpoint evaluate RUN best",
        "prepare": "small networks have no base model, so no preparation is needed; launch the run",
        "what_if": "small networks exchange no messages, so none can be changed",
        "worth": "small networks exchange no messages, so there is nothing to measure; evaluate the checkpoint instead",
    },
    refused_parameters={
        "swapped": "roles of small networks have different observations and actions, so they cannot be swapped; "
        "match two checkpoints instead: troupe checkpoint match RUN:1 RUN:best",
        "first": "episodes of small networks are determined by run.seed; override it for other episodes: run.seed=1",
    },
    archive="The checkpoint with its config",
    weights="a folder per policy",
    archive_files=network_files,
    card_facts={"pipeline_tag": "reinforcement-learning"},
    card_source=("network", "network"),
)


AGENT_PAGES: dict[AgentKind, AgentPages] = {
    AgentKind.LANGUAGE_MODELS: LANGUAGE_MODELS,
    AgentKind.NETWORKS: NETWORKS,
}


def with_tokens(configs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether agents of one of these configs read and write text; also without any config."""
    pages = [agent_pages(config) for config in configs]
    return not pages or any(kind.tokens for kind in pages)


def agent_pages(config: Mapping[str, Any]) -> AgentPages:
    """Return the entry for a config tree."""
    return AGENT_PAGES[agents_of(config)]
