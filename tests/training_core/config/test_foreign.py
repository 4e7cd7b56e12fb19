"""Names of other libraries are refused with ours, each of which exists."""

import re

import pytest

from tests.architecture.source import ROOT
from tests.docs.test_docs import has_field, language_fields, small_network_fields
from training_core.config.files import load_config, parse_config, parse_overrides, read_toml
from training_core.config.foreign import FOREIGN, MARLKIT, SLIME
from training_core.config.rollout import RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import ConfigError
from workers import run

SCRIPT = """
   --swiglu
   --num-layers 28
   --hidden-size 3584
   --ffn-hidden-size 18944
   --num-attention-heads 28
   --group-query-attention
   --num-query-groups 4
   --max-position-embeddings 131072
   --seq-length 4096
   --vocab-size 152064
   --rollout-function-path slime.rollout.agent_rollout.generate_rollout
   --rm-type deepscaler
   --prompt-data ${PROMPT_DATA}
   --num-rollout 3000
   --rollout-batch-size 128
   --rollout-max-response-len 8192
   --rollout-temperature 0.8
   --n-samples-per-prompt 8
--agent-rollout-buffer-url http://${MASTER_ADDR}:8889
--rollout-num-process 1024
--loss-mask-type distill_qwen
--update-rollout-weights-interval 1
"""
"""The arguments of slime's scripts/agent-example.sh, and the one that its second version adds."""
TRAIN = (
    "--algo mappo --env mpe_simple_spread --num-agents 3 --iter 500 --recurrent --recurrent-type gru --logger wandb "
    "--lr-schedule linear --resume checkpoints/mappo_SS_MPE/ckpt_100.pt --pz-env mypackage.my_env:parallel_env --pad-obs --pad-act "
    "--norm-obs --supersuit --chunk-len 16 --recurrent-num-layers 1 --log-every 10 --wandb-project marlkit --run-name mine"
)
"""Arguments of the commands of MARLKit's document."""


def said_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run.main(words) == run.USAGE_ERROR
    return capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_every_counterpart_exists(name: str) -> None:
    paths = re.findall(r"[a-z_]+(?:\.(?:\*|[a-z_]+))+", FOREIGN[name])
    assert paths
    trees = [language_fields(), small_network_fields()]
    for path in paths:
        assert any(has_field(tree, path.split(".")) for tree in trees), path


@pytest.mark.parametrize("line", SCRIPT.split("\n")[1:-1])
def test_an_argument_of_slimes_script_is_refused_with_its_counterpart(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flag, *value = line.split()
    name = flag.removeprefix("--").replace("-", "_")
    for words in ([flag, *value], [f"{flag}={value[0]}"] if value else [flag], [f"{name}=1"]):
        assert f"here it is {SLIME[name]}" in said_of(["--preset", "plan_path_duo", *words], capsys)


def test_a_command_of_marlkit_is_refused_with_all_counterparts(capsys: pytest.CaptureFixture[str]) -> None:
    told = said_of(["--preset", "spread_mappo", *TRAIN.split()], capsys)
    for flag in re.findall(r"--[\w-]+", TRAIN):
        name = flag.removeprefix("--").replace("-", "_")
        assert f"{flag}: there is no such field; here it is {MARLKIT[name]}\n" in told


def test_an_override_with_dashes_is_told_how_to_write_it(capsys: pytest.CaptureFixture[str]) -> None:
    told = said_of(["--preset", "plan_path_duo", "--run.iterations=2"], capsys)
    assert told == "--run.iterations: there is no such option; a field is set by name=value, without dashes\n"


@pytest.mark.parametrize(
    "word",
    [
        "rollout.max_head_offpolicyness=4",
        "algorithm.eps_clip_higher=0.3",
        "policies.planner.learner.ppo_n_minibatches=4",
        "resources.num_env_workers=1000",
        "policies.planner.gradient_accumulation_steps=4",
    ],
)
def test_a_field_by_another_librarys_name_is_refused_with_its_counterpart(word: str) -> None:
    path = word.partition("=")[0]
    with pytest.raises(ConfigError) as told:
        load_config("plan_path_duo", parse_overrides([word]))
    assert told.value.fields[path].endswith(f"here it is {FOREIGN[path.rpartition('.')[2]]}")


def test_the_launch_script_of_slime_as_a_config() -> None:
    page = (ROOT / "docs/train/from-slime.md").read_text().partition("## The launch script")[2]
    (text,) = re.findall(r"```toml\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    config = parse_config(read_toml(text))
    assert isinstance(config, RunConfig) and isinstance(config.workflow, RolloutBuffer)
    sampling = config.team.roles["agent"].sampling
    assert (config.run.iterations, config.rollout.tasks, config.rollout.group_size) == (3000, 128, 8)
    assert (sampling.max_tokens, sampling.temperature, config.rollout.publish_every) == (8192, 0.8, 1)
    assert (config.workflow.processes, config.workflow.loss_mask) == (1024, "distill_qwen")
    assert (config.workflow.generator, config.workflow.input_file) == (
        "your_custom_task",
        "your_data_with_ids.jsonl",
    )
