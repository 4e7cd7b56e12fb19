"""What a run takes, by hand."""

import json
from pathlib import Path

import pytest

from training_core.config.files import load_config
from training_core.config.run import RunConfig
from training_core.llm.base_models.published import PUBLISHED
from training_core.llm.learning import memory
from training_core.llm.models.shape import shape_from
from workers.sizing.estimates import NodeMemory, PolicyMemory, estimate, memory_shortages, volume, with_sizes

BIG = {
    "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768,
}  # fmt: skip


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A folder with the sizes of Qwen2.5-7B, and no weights."""
    folder = tmp_path / "big"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(BIG))
    return folder


def configured(model: Path, **more: object) -> RunConfig:
    changes = {f"policies.{name}.model": str(model) for name in ("planner", "executor")}
    return load_config(
        "plan_path_duo", changes | {path.replace("__", "."): value for path, value in more.items()}
    )


def of(config: RunConfig, policy: str, home: Path, prompt: int = 1000) -> PolicyMemory:
    found = estimate(config, home, prompt)
    return next(each for each in found.policies if each.policy == policy)


def test_volume_by_hand() -> None:
    config = load_config(
        "plan_path_duo",
        {"rollout.tasks": 10, "rollout.group_size": 4, "environment.max_turns": 3, "run.iterations": 25,
         "team.roles.planner.sampling.max_tokens": 5, "team.roles.executor.sampling.max_tokens": 7,
         "evaluation.every": 10, "evaluation.episodes": 20, "evaluation.sampled": False},
    )  # fmt: skip
    found = volume(config)
    assert (found.episodes, found.answers, found.tokens) == (10, 10 * 4 * 3 * 2, 10 * 4 * 3 * (5 + 7))
    assert found.evaluations == 4  # base model, iterations 10, 20 and the last one
    assert found.evaluation_episodes == 20 and found.episodes_total == 25 * 10 + 4 * 20
    assert found.tokens_total == 25 * found.tokens
    assert volume(load_config("plan_path_duo", {"evaluation.every": 0})).evaluations == 0
    whole = {"workflow.type": "episodes", "rollout.tasks": 6, "rollout.group_size": 4}
    assert (
        volume(load_config("plan_path_duo", whole)).episodes == 24
    )  # each candidate is an episode of its own


def test_a_colocated_policy_holds_one_copy(big: Path, tmp_path: Path) -> None:
    config = configured(
        big, policies__planner__learner__precision="bf16", policies__planner__devices__rollout_gpus=1.0
    )
    found = of(config, "planner", tmp_path)
    weights = found.parameters
    assert weights == 7_615_616_512 - 28 * (3584 + 2 * 512)  # the model card's, without biases
    (worker,) = found.workers
    assert (worker.kind, worker.workers, worker.gpus) == ("policy", 1, 1.0)
    parts = worker.parts
    assert (parts["weights"], parts["reference"]) == (2 * weights, 2 * weights)  # the preset has a KL penalty
    assert (parts["gradients"], parts["gradient_copies"], parts["optimizer"]) == (
        2 * weights,
        4 * 152_064 * 3584,  # the largest bucket: the embeddings
        12 * weights,
    )
    assert (
        parts["kv_cache"] == 2 * 28 * 4 * 128 * 2 * 384 * 1008
    )  # 48 tasks x 8, prompts of 1000 and 8 new tokens
    standing = parts["weights"] + parts["reference"] + parts["optimizer"]
    passes, step = parts["activations"] + parts["logits"], parts["gradient_copies"]
    assert worker.peak == standing + parts["gradients"] + max(passes, step) + parts["kv_cache"]


def test_a_separate_rollout_worker_only_generates(big: Path, tmp_path: Path) -> None:
    config = configured(
        big,
        policies__planner__devices__placement="apart",
        policies__planner__devices__rollout_workers=2,
        algorithm__kl_coefficient=0.0,
    )
    update, rollout = of(config, "planner", tmp_path).workers
    assert set(update.parts) == {"weights", "optimizer", "gradients", "activations", "logits"}
    assert set(rollout.parts) == {"weights", "kv_cache"} and rollout.workers == 2
    assert rollout.peak == sum(rollout.parts.values())
    assert (
        rollout.parts["kv_cache"] == 2 * 28 * 4 * 128 * 4 * 192 * 1008
    )  # half of the candidates each, in fp32


def test_the_evaluators_memory_is_compared_with_its_share_of_a_gpu(big: Path, tmp_path: Path) -> None:
    """Two policies share its GPU: 30 GB of weights do not fit into half of 48 GB, and fit into half of 160 GB."""
    config = configured(big, evaluation__mode="beside", evaluation__gpus=1.0)
    estimated = estimate(config, tmp_path, 1000, card=48 * 10**9)
    evaluators = [
        worker for policy in estimated.policies for worker in policy.workers if worker.kind == "evaluator"
    ]
    assert [(worker.workers, worker.gpus) for worker in evaluators] == [(1, 0.5), (1, 0.5)]
    assert set(evaluators[0].parts) == {"weights", "kv_cache"}
    shortages = [
        str(advice)
        for card in (48, 160)
        for advice in memory_shortages(estimated, [NodeMemory(10**13, card * 10**9)])
    ]
    assert len(shortages) == 2 and all("evaluation worker" in advice for advice in shortages)


def test_external_engines_hold_their_own_memory(big: Path, tmp_path: Path) -> None:
    def rollout(engine: str) -> dict[str, int]:
        config = configured(
            big, policies__planner__devices__placement="apart", policies__planner__engine__type=engine
        )
        return of(config, "planner", tmp_path).workers[1].parts

    plain = rollout("torch")
    assert rollout("vllm") == plain | {"engine_weights": plain["weights"]}
    assert rollout("openai") == {"weights": plain["weights"]}


def test_a_frozen_policy_needs_no_training_memory(big: Path, tmp_path: Path) -> None:
    (worker,) = of(configured(big, team__roles__planner__trained=False), "planner", tmp_path).workers
    assert set(worker.parts) == {"weights", "kv_cache"}


def test_shorter_micro_batches_need_less_memory(big: Path, tmp_path: Path) -> None:
    long, short = (
        of(
            configured(big, policies__planner__learner__micro_batch_tokens=tokens), "planner", tmp_path
        ).workers[0]
        for tokens in (32768, 1024)
    )
    assert short.parts["activations"] * 8 < long.parts["activations"]
    assert short.parts["weights"] == long.parts["weights"]


def test_prompts_do_not_exceed_the_context(tmp_path: Path) -> None:
    """The tiny model has 256 positions: a longer prompt could not be."""
    config = load_config("plan_path_duo")
    assert of(config, "planner", tmp_path, 10_000) == of(config, "planner", tmp_path, 248)
    assert of(config, "planner", tmp_path, 248) != of(config, "planner", tmp_path, 100)


def test_an_unknown_model_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")  # or there may be such a folder
    found = of(configured(tmp_path), "planner", tmp_path)
    assert (found.parameters, found.workers) == (None, []) and "config.json" in found.unknown
    assert "does not have the model" in of(configured(Path("nobody/nothing")), "planner", tmp_path).unknown
    assert "does not have the model" in of(configured(Path("../../etc")), "planner", tmp_path).unknown


def test_published_sizes_count_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found = of(configured(Path("Qwen/Qwen2.5-7B-Instruct")), "planner", tmp_path)
    assert found.published and found.parameters == 7_615_616_512 and not found.unknown
    assert found.workers[0].parts["weights"] == 4 * 7_615_616_512
    repo = tmp_path / "models--Qwen--Qwen2.5-7B-Instruct"
    (repo / "snapshots" / "abc").mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("abc")
    (repo / "snapshots" / "abc" / "config.json").write_text(json.dumps(BIG | {"vocab_size": 1000}))
    downloaded = of(configured(Path("Qwen/Qwen2.5-7B-Instruct")), "planner", tmp_path)
    assert not downloaded.published and downloaded.parameters != found.parameters


def test_a_model_in_the_hubs_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = tmp_path / "models--ada--small"
    snapshot = repo / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text(json.dumps(BIG))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found = of(configured(Path("ada/small")), "planner", tmp_path)
    assert found.parameters == shape_from(BIG).parameters
    assert found.workers[0].parts["weights"] == memory.weights(shape_from(BIG), "fp32")


def test_an_adapter_shares_its_reference_and_has_a_small_optimiser(big: Path, tmp_path: Path) -> None:
    path = "policies__planner__adapter__"
    config = configured(big, **{path + "type": "lora", path + "rank": 16})
    (worker,) = of(config, "planner", tmp_path).workers
    shape = shape_from(BIG)
    assert worker.parts["weights"] == memory.weights(shape, "fp32") and worker.parts["reference"] == 0
    # A and B of rank 16: 2 x (hidden + hidden) for q and o, (hidden + 512) for k and v, 3 x (hidden + inner) for the block.
    each = 2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18944)
    assert worker.parts["optimizer"] == 28 * 16 * each * 8 and worker.parts["gradients"] == 28 * 16 * each * 4


def test_zero_spreads_over_update_workers(big: Path, tmp_path: Path) -> None:
    wanted = {
        "learner__type": "deepspeed", "learner__zero_stage": 3, "learner__precision": "bf16",
        "devices__placement": "apart", "devices__update_workers": 4,
    }  # fmt: skip
    config = configured(big, **{f"policies__planner__{path}": value for path, value in wanted.items()})
    update, rollout = of(config, "planner", tmp_path).workers
    assert (update.kind, update.workers, rollout.kind) == ("update", 4, "rollout")
    whole = memory.weights(shape_from(BIG), "bf16")
    assert update.parts["weights"] == whole // 4 and rollout.parts["weights"] == whole
    assert update.parts["optimizer"] == 3 * whole // 2 and update.parts["reference"] == whole


AUTO = {f"policies.{name}.learner.micro_batch_tokens": "auto" for name in ("planner", "executor")}


def planner_on(card: int, home: Path, **more: object) -> PolicyMemory:
    changes = AUTO | {
        "policies.planner.devices.rollout_gpus": 1.0,
        "policies.executor.devices.rollout_gpus": 1.0,
    }
    config = load_config(
        "qwen3_plan_path", changes | {path.replace("__", "."): value for path, value in more.items()}
    )
    found = estimate(config, home, card=card)
    return next(each for each in found.policies if each.policy == "planner")


def full_pass(tokens: int) -> int:
    shape = PUBLISHED["Qwen/Qwen3-1.7B"]
    activations = memory.activations(shape, "bf16", tokens, min(tokens, 4096), recomputed=True)
    return activations + memory.output_layer(shape, "bf16", tokens, "cuda")


@pytest.mark.parametrize("card", [30, 31, 32, 34, 40, 80])
def test_the_most_tokens_that_fit_a_card_are_chosen(card: int, tmp_path: Path) -> None:
    """By hand: what a full pass of each width needs, next to weights, gradients and optimiser states."""
    found = planner_on(card * 10**9, tmp_path)
    parts = found.workers[0].parts
    standing = parts["weights"] + parts["optimizer"] + parts["gradients"]
    fitting = [
        tokens
        for tokens in (512, 1024, 2048, 4096, 8192, 16_384)
        if standing + full_pass(tokens) <= 0.8 * card * 10**9
    ]
    assert found.sizes["micro_batch_tokens"] == max(fitting, default=512)


def test_the_store_takes_what_is_free(tmp_path: Path) -> None:
    """Keys and values of 544 tokens in 28 layers with 8 heads of 128 in bf16, in two rows for each answer and one more."""
    chosen = {}
    for card in (32, 36, 40, 80, 140):
        found = planner_on(
            card * 10**9, tmp_path, evaluation__episodes=1000, policies__planner__learner__offload="off"
        )
        standing = sum(found.workers[0].parts[part] for part in ("weights", "optimizer", "gradients"))
        room = 0.8 * card * 10**9 - standing - full_pass(found.sizes["micro_batch_tokens"])
        row = 2 * 28 * 8 * 128 * 2 * 544
        chosen[card] = found.sizes["max_batch"]
        assert chosen[card] == max(
            (size for size in (8, 16, 32, 64, 128, 256, 512) if (2 * size + 1) * row <= room), default=8
        )
    assert len(set(chosen.values())) > 3 and chosen[140] == 512


def test_sizes_that_are_set_are_not_changed(tmp_path: Path) -> None:
    fixed = planner_on(
        80 * 10**9,
        tmp_path,
        policies__planner__learner__micro_batch_tokens=700,
        policies__planner__engine__max_batch=3,
    )
    assert fixed.sizes == {"micro_batch_tokens": 700, "max_batch": 3}
    assert planner_on(0, tmp_path).sizes == {"micro_batch_tokens": 4096, "max_batch": 512}
    on_cpu = estimate(load_config("plan_path_duo", AUTO), tmp_path, card=80 * 10**9)
    assert on_cpu.policies[0].sizes == {"micro_batch_tokens": 4096, "max_batch": 512}


def test_what_auto_chooses_fits_for_longer_prompts(tmp_path: Path) -> None:
    """A full pass has no more tokens, as long as a row is shorter."""
    whole_card = AUTO | {"policies.planner.devices.rollout_gpus": 1.0}
    for card in (40, 48, 80):
        config = with_sizes(load_config("qwen3_plan_path", whole_card), "planner", tmp_path, card * 10**9)
        assert config.policies["planner"].learner.pass_tokens >= 4096
        for prompt in (100, 512, 2000):
            parts = next(
                each.workers[0].parts
                for each in estimate(config, tmp_path, prompt).policies
                if each.policy == "planner"
            )
            passing = ("weights", "optimizer", "gradients", "activations", "logits")
            assert sum(parts[part] for part in passing) <= 0.8 * card * 10**9


def test_sizes_of_an_unknown_model_are_those_of_the_cpu(tmp_path: Path) -> None:
    config = load_config("qwen3_plan_path", AUTO | {"policies.planner.model": "nobody/no"})
    sized = with_sizes(config, "planner", tmp_path, 10**11)
    assert sized.policies["planner"].learner.micro_batch_tokens == 4096


def test_states_on_the_host_make_room_for_the_store(tmp_path: Path) -> None:
    """By hand: with offload they count in updates only, and in main memory."""
    path = "policies__planner__learner__offload"
    off = planner_on(0, tmp_path, **{path: "off"}).workers[0]
    assert planner_on(0, tmp_path).workers[0] == off  # auto, without a card
    on = planner_on(0, tmp_path, **{path: "on"}).workers[0]
    states = 12 * PUBLISHED["Qwen/Qwen3-1.7B"].parameters
    assert (off.host, on.host, on.parts["optimizer"]) == (0, states, states)
    passing = on.parts["gradients"] + on.parts["activations"] + on.parts["logits"]
    assert on.peak == on.parts["weights"] + max(states + passing, on.parts["kv_cache"])
    passing = off.parts["gradients"] + off.parts["activations"] + off.parts["logits"]
    assert off.peak == off.parts["weights"] + states + passing + off.parts["kv_cache"]
    engine = {"type": "torch", "static_shapes": "off"}
    freed = planner_on(0, tmp_path, **{path: "off"}, policies__planner__engine=engine).workers[0]
    assert freed.peak == off.parts["weights"] + states + max(passing, freed.parts["kv_cache"])
    chosen = {card: planner_on(card * 10**9, tmp_path) for card in (40, 140)}
    assert chosen[40].workers[0].host == states and chosen[140].workers[0].host == 0
    fixed = planner_on(40 * 10**9, tmp_path, **{path: "off"})
    assert chosen[40].sizes["max_batch"] > fixed.sizes["max_batch"]
    apart = estimate(
        load_config("qwen3_plan_path", {"policies.planner.learner.offload": "on", "policies.planner.devices.placement": "apart"}),
        tmp_path, card=10**11,
    )  # fmt: skip
    assert all(worker.host == 0 for worker in apart.policies[0].workers)


def test_host_memory_of_states_is_compared_with_the_machine(tmp_path: Path) -> None:
    config = load_config(
        "qwen3_plan_path", {f"policies.{name}.learner.offload": "on" for name in ("planner", "executor")}
    )
    found = estimate(config, tmp_path, card=80 * 10**9)
    assert memory_shortages(found, [NodeMemory(64 * 10**9, 80 * 10**9)]) == []
    (reason,) = memory_shortages(found, [NodeMemory(44 * 10**9, 80 * 10**9)])
    assert "41.3 GB" in reason.cause and "offload" in reason.remedy
