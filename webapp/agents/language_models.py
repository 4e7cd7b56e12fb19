"""Pages of runs of language models."""

from webapp.agents.pages import AgentPages, TileFigure, TileSpec
from workers.storage.checkpoint_files import model_files

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
        TileSpec("Return per episode", "", (TileFigure("train/return", since="start"),)),
        TileSpec("Reward by role", "", (TileFigure("train/{role}/reward"),)),
        TileSpec("Entropy", "nats per token", (TileFigure("policy/{policy}/entropy"),)),
        TileSpec("KL to base", "nats per token", (TileFigure("policy/{policy}/kl"),)),
        TileSpec("Tokens per second", "", (TileFigure("rollout/tokens_per_second", "rollout"),)),
        TileSpec("Staleness", "", (TileFigure("rollout/staleness", "versions"),)),
        TileSpec(
            "Errors",
            "of the last iteration",
            (
                TileFigure("rollout/failed", "episodes"),
                TileFigure("rollout/truncated", "share truncated"),
            ),
        ),
    ),
    refused_jobs={},
    refused_parameters={},
    archive="Hugging Face folders of its policies",
    weights="Hugging Face folders",
    archive_files=model_files,
    archive_has_config=False,
    card_head="---\nlibrary_name: transformers\n---\n",
    card_source=("base model", "model"),
)
