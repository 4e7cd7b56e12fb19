"""A policy's part of a checkpoint: learning goes on bit by bit, and the folder is a model."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training_core.llm.learning.test_learner import flat, groups
from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core import checkpoints
from training_core.algorithms.config import AtGrpo, Ppo
from training_core.algorithms.registry import Algorithm
from training_core.config.models import Policy
from training_core.errors import CheckpointError
from training_core.llm.learning.learner import Learner, make_learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.policy_checkpoint import load_policy, policy_folder, save_policy
from training_core.llm.models.loading import load_model, load_tokenizer

ALGORITHM = AtGrpo(kl_coefficient=0.1)


def fresh(
    precision: torch.dtype = torch.float32,
    kind: str = "llama",
    algorithm: Algorithm = ALGORITHM,
) -> Learner:
    settings = LearnerSettings(minibatches=2, epochs=2, schedule="cosine")
    model = make_model(kind).to(precision)
    return make_learner(Policy(learner=settings), algorithm, model, 6)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("algorithm", [ALGORITHM, AtGrpo(), Ppo(kl_coefficient=0.1)])
def test_a_run_cut_in_two_ends_with_the_same_state(
    tmp_path: Path, precision: torch.dtype, algorithm: Algorithm
) -> None:
    whole, first, second = (fresh(precision, algorithm=algorithm) for _ in range(3))
    for iteration in range(1, 7):
        whole.update(groups(), iteration, 0)
    for iteration in range(1, 4):
        first.update(groups(), iteration, 0)
    with checkpoints.writing(tmp_path, 3, {}) as draft:
        save_policy(policy_folder(draft, "planner"), first, TOKENIZER, 3)
    torch.manual_seed(99)  # another process's generator
    place = checkpoints.latest(tmp_path)
    assert place is not None
    assert load_policy(policy_folder(place, "planner"), second) == 3
    for iteration in range(4, 7):
        metrics = second.update(groups(), iteration, 0).metrics
    expected, state = whole.state_dict(), second.state_dict()
    for part, own in (
        (expected.weights, state.weights),
        (expected.optimiser, state.optimiser),
        (expected.critic, state.critic),
    ):
        assert part.keys() == own.keys() and all(
            torch.equal(tensor, own[name]) for name, tensor in part.items()
        )
    assert bool(state.critic) == isinstance(algorithm, Ppo)
    assert metrics["lr"] == pytest.approx(1e-4)


def test_a_checkpoint_does_not_depend_on_torchs_global_generator(tmp_path: Path) -> None:
    for seed in (5, 6):
        one = fresh()
        torch.manual_seed(seed)
        one.update(groups(), 1, 0)
        torch.manual_seed(seed)
        save_policy(tmp_path / str(seed), one, TOKENIZER, 1)
    for name in ("optimizer.safetensors", "model.safetensors", "policy.json"):
        assert (tmp_path / "5" / name).read_bytes() == (tmp_path / "6" / name).read_bytes(), name


def test_a_checkpoint_of_an_older_version_has_a_generator_and_is_read(tmp_path: Path) -> None:
    one = fresh()
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 4)
    file = tmp_path / "optimizer.safetensors"
    save_file(load_file(file) | {"generator": torch.get_rng_state()}, file)
    assert load_policy(tmp_path, fresh()) == 4


def test_the_folder_is_a_model_that_any_run_can_start_from(tmp_path: Path) -> None:
    one = fresh()
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 1)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        item.name for item in tmp_path.iterdir()
    }
    loaded = load_model(tmp_path)
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in one.weights().items())
    assert load_tokenizer(tmp_path).get_vocab() == TOKENIZER.get_vocab()


def test_tied_weights_come_back(tmp_path: Path) -> None:
    model = make_model()
    model.config.tie_word_embeddings = True
    model.tie_weights()
    one = make_learner(Policy(), AtGrpo(), model, 6)
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 1)
    expected = flat(one).clone()
    one.update(groups(), 2, 0)
    load_policy(tmp_path, one)
    assert torch.equal(flat(one), expected)
    assert one.model.get_output_embeddings().weight is one.model.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.safetensors", None, "not complete"),
        ("optimizer.safetensors", None, "not complete"),
        ("optimizer.safetensors", b"torn", "damaged"),
        ("model.safetensors", b"torn", "damaged"),
        ("policy.json", b"{", "damaged"),
        ("policy.json", b"[]", "damaged"),
    ],
)
def test_what_is_damaged_is_refused(name: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    one = fresh()
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 1)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        load_policy(tmp_path, one)


def test_another_models_checkpoint_is_refused(tmp_path: Path) -> None:
    one = fresh()
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 1)
    with pytest.raises(CheckpointError, match="does not fit"):
        load_policy(tmp_path, fresh(kind="gpt_neox"))


@pytest.mark.parametrize("name", ["..", "a/b", "/etc", "", "Planner", "planner\n"])
def test_policy_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError):
        policy_folder(tmp_path, name)
