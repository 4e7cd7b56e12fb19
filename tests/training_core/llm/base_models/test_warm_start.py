"""The supervised warm start: what is learnt, from what, and that it is made once."""

import json
import math
from pathlib import Path

import pytest
import torch

from tests.training_core.llm.toys import TOKENIZER, make_model, naive_logprobs
from training_core.config.files import load_config
from training_core.config.models import WarmStart
from training_core.config.permitted import Permitted, check_permitted
from training_core.errors import ConfigError, DataError, ModelError
from training_core.llm.base_models.tiny import read_facts
from training_core.llm.base_models.warm_start import padded, read_conversations, train, warm_started_model
from training_core.llm.environments.external import External
from training_core.llm.environments.plan_path.game import PlanPath
from training_core.llm.learning.loss_masks import mask_messages
from training_core.llm.models.loading import load_model, load_tokenizer

GRID = PlanPath(size=3, max_turns=2, moves_per_turn=1)


def said(*turns: str) -> list[dict[str, str]]:
    """User and assistant in turn."""
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]


def write(path: Path, *conversations: list[dict[str, str]]) -> Path:
    path.write_text("\n".join(json.dumps({"messages": messages}) for messages in conversations) + "\n\n")
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    make_model().save_pretrained(tmp_path / "base")
    TOKENIZER.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def test_only_what_the_assistant_said_is_learnt() -> None:
    talks = [said("w1", "w2 w3", "w4", "w5"), said("w6", "w7")]
    ids, labels = padded([mask_messages("generic", talk, TOKENIZER) for talk in talks], 0)
    words = [TOKENIZER.convert_ids_to_tokens(row) for row in ids.tolist()]
    learnt = [
        [word for word, label in zip(row, marks, strict=True) if label >= 0]
        for row, marks in zip(words, labels.tolist(), strict=True)
    ]
    assert words[0] == [
        "<user>",
        "w1",
        "<assistant>",
        "w2",
        "w3",
        "<eos>",
        "<user>",
        "w4",
        "<assistant>",
        "w5",
        "<eos>",
    ]
    assert learnt == [["w2", "w3", "<eos>", "w5", "<eos>"], ["w7", "<eos>"]]
    assert labels[1, 5:].tolist() == [-100] * 6


def test_the_first_loss_is_that_of_a_naive_loop() -> None:
    """The mean over the assistant's tokens, of one step."""
    example = mask_messages("generic", said("w1", "w2 w3", "w4", "w5"), TOKENIZER)
    logprobs = naive_logprobs(make_model(), example.token_ids[:1], example.token_ids[1:])
    wanted = [value for value, learnt in zip(logprobs, example.loss_mask[1:], strict=True) if learnt]
    ids, labels = padded([example], 0)
    result = train(make_model(), ids, labels, WarmStart(steps=1, batch=1), lambda done, text: None)
    assert len(wanted) == 5
    assert result == pytest.approx(-sum(wanted) / 5, abs=1e-4)


def test_a_file_of_conversations_is_learnt(base: Path, tmp_path: Path) -> None:
    """Two answers to two questions, from far from certain to nearly so; the base model's folder stays as it is."""
    file = write(tmp_path / "talks.jsonl", said("w1", "w2 w3"), said("w4", "w5"))
    section = WarmStart(steps=60, file=str(file), batch=4, learning_rate=3e-3)
    folder = warm_started_model(base, section, GRID, tmp_path)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    for question, answer in (("w1", "w2 w3"), ("w4", "w5")):
        prompt = tokenizer.convert_tokens_to_ids(["<user>", question, "<assistant>"])
        words = tokenizer.convert_tokens_to_ids([*answer.split(), "<eos>"])
        before, after = (sum(naive_logprobs(one, prompt, words)) for one in (load_model(base), model))
        assert math.exp(before) < 0.1 and math.exp(after) > 0.9
    facts = read_facts(folder)
    assert facts["conversations"] == 2 and facts["model"] == str(base)
    assert "evaluation" not in facts, "the base model's figures are not this one's"


def test_it_is_made_once_and_again_where_anything_changes(base: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "talks.jsonl", said("w1", "w2"))
    section = WarmStart(steps=2, file=str(file), batch=2)
    folder = Path(warm_started_model(base, section, GRID, tmp_path))
    reported: list[str] = []
    assert (
        warm_started_model(base, section, GRID, tmp_path, "cpu", lambda done, text: reported.append(text))
        == folder
    )
    assert reported == []
    assert warm_started_model(base, section, PlanPath(size=5), tmp_path) == folder, "it is of the file alone"
    other = Path(warm_started_model(base, section, GRID, tmp_path / "elsewhere"))
    assert (other / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    write(file, said("w1", "w3"))
    assert warm_started_model(base, section, GRID, tmp_path) != folder


def test_nothing_is_done_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert warm_started_model("some/model", WarmStart(), External(), tmp_path) == "some/model"
    assert list(tmp_path.iterdir()) == []


def test_demonstrations_lower_the_loss(tmp_path: Path) -> None:
    """An untrained model with the environment's words."""
    from training_core.llm.base_models.tiny import TinyRecipe
    from training_core.llm.base_models.warm_start import new_model, word_tokenizer
    from training_core.llm.environments.registry import warm_start_of

    tokenizer = word_tokenizer(warm_start_of("plan_path").vocabulary(GRID))
    new_model(TinyRecipe(hidden_size=32, layers=2, heads=2), tokenizer).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    losses = [
        read_facts(
            warm_started_model(tmp_path / "base", WarmStart(steps=steps, learning_rate=3e-3), GRID, tmp_path)
        )["loss"]
        for steps in (1, 60)
    ]
    assert losses[1] < 0.6 * losses[0]


@pytest.mark.parametrize(
    ("line", "text"),
    [("{", "line 2"), ('{"prompt": "w1"}', "line 2"), ('{"messages": [{"role": "user"}]}', "line 2")],
)
def test_a_line_that_is_no_conversation_is_named(line: str, text: str, tmp_path: Path) -> None:
    file = write(tmp_path / "talks.jsonl", said("w1", "w2"))
    file.write_text(file.read_text().strip() + "\n" + line)
    with pytest.raises(DataError, match=f"talks.jsonl, {text}"):
        read_conversations(file)


def test_what_cannot_be_learnt_from_is_refused(base: Path, tmp_path: Path) -> None:
    def start(*messages: list[dict[str, str]]) -> None:
        file = write(tmp_path / "talks.jsonl", *messages)
        warm_started_model(base, WarmStart(steps=1, file=str(file)), GRID, tmp_path)

    with pytest.raises(DataError, match="has no conversation"):
        start()
    with pytest.raises(DataError, match="a conversation has no tokens to train on"):
        start(said("w1"))
    with pytest.raises(DataError, match="the model accepts at most 64"):
        start(said("w1", "w2 " * 80))
    with pytest.raises(ConfigError, match="there is no file"):
        warm_started_model(base, WarmStart(steps=1, file="nowhere.jsonl"), GRID, tmp_path)
    with pytest.raises(ModelError, match="no demonstrations of 'external'"):
        warm_started_model(base, WarmStart(steps=1), External(), tmp_path)


def test_a_file_elsewhere_is_not_for_everybody() -> None:
    config = load_config(
        "plan_path_duo", {"policies.planner.warm_start": {"steps": 1, "file": "/etc/passwd"}}
    )
    with pytest.raises(ConfigError, match="outside the server's data folder"):
        check_permitted(config, Permitted())


def test_the_global_generator_is_left_alone(base: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "talks.jsonl", said("w1", "w2"))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    warm_started_model(base, WarmStart(steps=1, file=str(file)), GRID, tmp_path)
    assert torch.equal(torch.rand(3), expected)


def test_dropout_in_a_warm_start_depends_on_nothing_outside_it() -> None:
    """Of a model that drops out while it is taught, whatever drew from torch's generator before."""
    ids, labels = padded(
        [mask_messages("generic", said("w1", "w2"), TOKENIZER)] * 4, int(TOKENIZER.pad_token_id)
    )
    taught = []
    for noise in (1, 2):
        model = make_model("gpt_neox")
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.5
        torch.manual_seed(noise)
        train(model, ids, labels, WarmStart(steps=2, batch=2), lambda share, text: None)
        taught.append(torch.cat([weight.flatten() for weight in model.parameters()]))
    assert torch.equal(*taught)
