"""The tiny base model: a real Hugging Face folder, made once, whatever happens while it is made."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from training_core.config.files import load_config
from training_core.errors import ModelError
from training_core.llm.base_models import tiny, warm_start
from training_core.llm.base_models.base_evaluation import KINDS, base_evaluation
from training_core.llm.base_models.folder_creation import (
    FACTS,
    Progress,
    create_once,
    creation_progress,
    silent,
)
from training_core.llm.base_models.registry import resolve_model
from training_core.llm.base_models.tiny import TinyRecipe, ensure_tiny, read_facts, tiny_folder
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.environments.plan_path.game import PlanPath
from training_core.llm.environments.registry import ENVIRONMENTS, warm_start_of
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_independent
from training_core.types import Message
from workers.telemetry.metrics import episode_facts, eval_metrics

SMALL = PlanPath(size=3, max_turns=2, moves_per_turn=1)


class QuickRecipe(TinyRecipe):
    """A few steps of a very small model: enough to see that it learns."""

    hidden_size: int = 16
    layers: int = 1
    heads: int = 2
    steps: int = 60
    batch: int = 16


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "TinyRecipe", QuickRecipe)


@dataclass(frozen=True)
class Made:
    """A model that was made once for several tests, and what was told while it was."""

    home: Path
    folder: Path
    told: list[float]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    home = tmp_path_factory.mktemp("home")
    told: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "TinyRecipe", QuickRecipe)
        folder = ensure_tiny(SMALL, home, lambda done, text: told.append(done))
    return Made(home, folder, told)


@pytest.mark.extended
def test_the_folder_is_a_hugging_face_model_with_facts(made: Made) -> None:
    folder, told = made.folder, made.told
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", FACTS}
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]  # no draft left
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, LlamaForCausalLM)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    facts = read_facts(folder)
    assert facts["parameters"] == sum(weight.numel() for weight in model.parameters())
    assert (facts["demonstrations"], facts["seed"], facts["steps"]) == (60 * 16, 0, 60)
    assert facts["demonstration_noise"] == warm_start_of("plan_path").noise
    assert facts["evaluation"]["conditions"]["episodes"] == 256
    for kind in ("eval", "eval_sampled"):
        assert 0.0 <= facts["evaluation"][kind][f"{kind}/success"] <= 1.0
        assert f"{kind}/executor/reward" in facts["evaluation"][kind]


@pytest.mark.usefixtures("_quick")
def test_it_is_made_once_and_the_same_everywhere(made: Made, tmp_path: Path) -> None:
    folder = made.folder
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert ensure_tiny(SMALL, made.home, lambda done, text: pytest.fail("made twice")) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    other = ensure_tiny(SMALL, tmp_path)
    assert (other / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert tiny_folder(PlanPath(size=4), tmp_path) != tiny_folder(SMALL, tmp_path)


@pytest.mark.usefixtures("_quick")
def test_two_builders_at_once_make_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    makings: list[Path] = []
    real = warm_start.make_tiny
    monkeypatch.setattr(warm_start, "make_tiny", lambda *given: makings.append(given[2]) or real(*given))
    with ThreadPoolExecutor(2) as threads:
        folders = list(threads.map(lambda _: ensure_tiny(SMALL, tmp_path), range(2)))
    assert folders[0] == folders[1]
    assert len(makings) == 1


def test_who_waits_for_a_model_is_told_how_far_it_is(tmp_path: Path) -> None:
    """The maker goes on only once the other has heard of its work: whatever the pace, the order is this."""
    folder, told = tmp_path / "model", []
    begun, heard = Event(), Event()

    def make(draft: Path, report: Progress) -> dict[str, object]:
        report(0.25, "step 1")
        begun.set()
        assert heard.wait(60)
        return {"made": True}

    def hear(done: float, text: str) -> None:
        told.append((done, text))
        heard.set()

    def wait() -> Path:
        assert begun.wait(60)
        return create_once(folder, lambda draft, report: pytest.fail("made twice"), hear)

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(create_once, folder, make, silent), threads.submit(wait)
        assert first.result() == second.result() == folder
    assert told == [(0.25, "step 1")]
    assert read_facts(folder) == {"made": True}
    assert creation_progress(folder) is None


@pytest.mark.usefixtures("_quick")
def test_a_build_that_dies_leaves_nothing_that_looks_like_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(warm_start, "evaluate_model", dies)
        with pytest.raises(KeyboardInterrupt):
            ensure_tiny(SMALL, tmp_path)
    folder = tiny_folder(SMALL, tmp_path, QuickRecipe())
    assert not folder.exists()
    (folder.parent / f".{folder.name}-killed").mkdir()  # as a killed process leaves it
    folder.mkdir()  # and as an unfinished copy would
    assert ensure_tiny(SMALL, tmp_path) == folder
    assert (folder / FACTS).is_file()
    assert not list(folder.parent.glob(".*"))


def test_what_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(ModelError, match="cannot write the tiny model"):
        ensure_tiny(SMALL, tmp_path)
    monkeypatch.setitem(ENVIRONMENTS, "plan_path", replace(ENVIRONMENTS["plan_path"], warm_start=None))
    with pytest.raises(ModelError, match="there is no \"tiny\" model for 'plan_path'"):
        ensure_tiny(SMALL, tmp_path)


def test_names_that_are_not_made_here_are_folders_or_hub_ids(tmp_path: Path) -> None:
    assert resolve_model(str(tmp_path), SMALL, tmp_path) == tmp_path
    assert resolve_model("Qwen/Qwen3-0.6B", SMALL, tmp_path) == "Qwen/Qwen3-0.6B"
    assert read_facts("Qwen/Qwen3-0.6B") == {}


def test_only_the_words_of_the_answer_are_learnt() -> None:
    tokenizer = warm_start.word_tokenizer(warm_start_of("plan_path").vocabulary(SMALL))
    pairs = [("goal 2 east", "east east"), ("goal 1 north", "north")]
    ids, labels = warm_start.padded(warm_start.encode_pairs(pairs, tokenizer), int(tokenizer.pad_token_id))
    words = [tokenizer.convert_ids_to_tokens(row) for row in ids.tolist()]
    assert words[0] == ["<user>", "goal", "2", "east", "<assistant>", "east", "east", "<eos>"]
    assert words[1] == ["<user>", "goal", "1", "north", "<assistant>", "north", "<eos>", "<pad>"]
    learnt = [
        [word if label >= 0 else "" for word, label in zip(row, marks, strict=True)]
        for row, marks in zip(words, labels.tolist(), strict=True)
    ]
    assert learnt == [[""] * 5 + ["east", "east", "<eos>"], [""] * 5 + ["north", "<eos>", ""]]


def test_making_a_model_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tokenizer = warm_start.word_tokenizer(("up",))
    first, second = (warm_start.new_model(QuickRecipe(), tokenizer).state_dict() for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_base_figures_are_those_that_a_run_would_have_measured(made: Made) -> None:
    """Two policies of their own, another run seed, half of the tasks at a time: the same figures."""
    given = {
        "environment.size": 3,
        "environment.max_turns": 2,
        "environment.moves_per_turn": 1,
        "run.seed": 9,
    }
    config = load_config("plan_path_duo", given)
    folder = made.folder
    engines = {name: TorchEngine(load_model(folder), load_tokenizer(folder)) for name in config.used_policies}

    def render(messages: Sequence[Message]) -> list[int]:
        tokenizer = engines["planner"].tokenizer
        return list(tokenizer.apply_chat_template(list(messages), add_generation_prompt=True)["input_ids"])  # type: ignore[index, arg-type]

    voices = {name: engine.generate for name, engine in engines.items()}
    context = RolloutContext(
        config, EnvironmentHost(config.environment, 9), voices, dict.fromkeys(voices, render), 1, 0
    )
    figures = base_evaluation(config, [read_facts(folder)] * 2)
    for kind in KINDS:
        episodes = [
            *play_independent(range(128), context, kind),
            *play_independent(range(128, 256), context, kind),
        ]
        measured = eval_metrics(kind, [episode_facts(episode) for episode in episodes])
        assert figures[kind] == pytest.approx(measured)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("environment.wall_share", 0.2),
        ("team.roles.planner.prompt", "You are a planner."),
        ("team.roles.planner.examples", ["goal 1 east", "east"]),
        ("team.roles.executor.sampling.top_k", 3),
        ("algorithm.team_weight", 2.0),
        ("algorithm.team_reward_to", "speaker"),
        ("evaluation.episodes", 64),
        ("evaluation.temperature", 0.5),
        ("team.turn_order", ["executor", "planner"]),
    ],
)
def test_figures_of_other_conditions_are_not_used(override: str, value: object) -> None:
    facts = {"evaluation": tiny_evaluation()}
    plain = load_config("plan_path_duo", {})
    assert base_evaluation(plain, [facts, facts]) == {"eval": {"eval/success": 0.5}, "eval_sampled": {}}
    assert base_evaluation(load_config("plan_path_duo", {override: value}), [facts, facts]) == {}


def test_figures_of_two_different_models_are_not_mixed() -> None:
    plain = load_config("plan_path_duo", {})
    other = {"evaluation": tiny_evaluation() | {"eval": {"eval/success": 0.6}}}
    for facts in (
        [{"evaluation": tiny_evaluation()}, other],
        [{"evaluation": tiny_evaluation()}, {}],
        [{}],
        [],
    ):
        assert base_evaluation(plain, facts) == {}


def tiny_evaluation() -> dict[str, object]:
    """As it stands in troupe.json, for the preset's own conditions."""
    role = {
        "prompt": "",
        "examples": [],
        "may_pass": False,
        "speaks": {"first": 1, "last": 0, "every": 1},
        "sampling": {"top_k": 0, "top_p": 1.0, "eval_temperature": 0.0, "max_tokens": 8, "stop": []},
    }
    evaluation = {
        "conditions": {
            "environment": load_config("plan_path_duo", {}).environment.model_dump(mode="json"),
            "order": ["planner", "executor"],
            "parallel": [],
            "roles": {"planner": role, "executor": role},
            "rewards": [1.0, 1.0, "team"],
            "episodes": 256,
            "temperature": 1.0,
            "feedback": None,
            "precision": ["fp32"],
        },
        "eval": {"eval/success": 0.5},
        "eval_sampled": {},
    }
    return json.loads(json.dumps(evaluation))  # type: ignore[no-any-return]
