"""Weights that change while a policy speaks: no token is lost, and each says whose it is; stale tokens are refused or left out."""

import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.workers.driver.builders import group
from tests.workers.running import small_config
from training_core.errors import StalePolicy
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.serving.batching import Gate
from training_core.types import NoiseKey, Prompt
from workers.actors.policy_workers import PolicyWorker, RolloutWorker, check_versions, check_weights, spread
from workers.actors.weights import PackedWeights, pack
from workers.driver.display import model_line
from workers.protocol import WorkerSpec
from workers.sizing.estimates import estimate


@pytest.mark.parametrize(
    ("prompts", "parts", "sizes"), [(7, 3, [3, 2, 2]), (2, 3, [1, 1, 0]), (6, 1, [6]), (0, 2, [0, 0])]
)
def test_parts_are_contiguous_and_even(prompts: int, parts: int, sizes: list[int]) -> None:
    from workers.actors.remote_policy import split

    made = [Prompt([number], 1, NoiseKey(0, 0, 0, number, 0, 0)) for number in range(prompts)]
    done = split(made, parts)
    assert [len(part) for part in done] == sizes
    assert [prompt for part in done for prompt in part] == made


def test_a_mutex_is_unlocked_after_unpickling_and_excludes_others() -> None:
    from workers.actors.members import Mutex  # imports Ray, which the cluster of other tests does first

    mutex = Mutex()
    with mutex:
        copy = pickle.loads(pickle.dumps(mutex))
    order = []
    with copy:
        thread = threading.Thread(target=lambda: (copy.__enter__(), order.append("other")))  # type: ignore[func-returns-value]
        thread.start()
        order.append("holder")
    thread.join()
    assert order == ["holder", "other"]


def test_fresh_groups_pass_untouched() -> None:
    groups = [group([[3, 3], [3]])]
    checked = check_versions(groups, 3, "planner", "error")
    assert checked.groups == groups
    assert (checked.dropped, checked.answers, checked.lag) == (0, 2, 0)


@pytest.mark.parametrize(
    ("versions", "bound", "message"),
    [
        ([[3, 3], [3, 2]], 0, r"at version 3, but .* tokens of version 2"),
        ([[4]], 0, "tokens of version 4"),
        ([[1, 4]], 5, "tokens of version"),  # newer tokens are never within the bound
    ],
)
def test_stale_and_newer_tokens_are_refused(versions: list[list[int]], bound: int, message: str) -> None:
    with pytest.raises(StalePolicy, match=message):
        check_versions([group(versions)], 3, "planner", "error", bound=bound)


def test_drop_leaves_out_the_stale_answer_with_its_advantage() -> None:
    checked = check_versions([group([[3], [3, 1], [3]]), group([[2], [2]])], 3, "planner", "drop")
    assert [item.advantages for item in checked.groups] == [[0.0, 2.0]]
    assert (checked.dropped, checked.answers, checked.lag) == (3, 5, 4)
    (kept,) = checked.groups
    assert checked.indices == {(kept.episode, kept.turn): [0, 2]}
    assert spread([[1.0], [2.0]], [0, 2], 3) == [[1.0], [], [2.0]], "values stay with their answers"


def test_weights_of_another_version_are_refused() -> None:
    check_weights(2, 2, "planner", "rollout-planner-0")
    with pytest.raises(StalePolicy, match="holds version 1 .* version 2 was asked for"):
        check_weights(1, 2, "planner", "rollout-planner-0")


def test_data_within_the_bound_passes_and_its_age_is_counted() -> None:
    groups = [group([[3, 3], [1, 2]])]
    checked = check_versions(groups, 3, "planner", "error", bound=2)
    assert checked.groups == groups
    assert (checked.dropped, checked.answers, checked.lag) == (0, 2, 2)


def test_data_beyond_the_bound_is_refused_or_left_out() -> None:
    groups = [group([[3, 3], [0, 3], [1]])]
    with pytest.raises(StalePolicy, match=r"tokens of version 0, 1, and rollout.staleness is 2"):
        check_versions(groups, 3, "planner", "error", bound=2)
    checked = check_versions(groups, 3, "planner", "drop", bound=2)
    assert [item.advantages for item in checked.groups] == [[0.0, 2.0]]
    assert checked.dropped == 1


LENGTH = 12
SETTINGS = SamplingSettings(temperature=1.7, max_tokens=LENGTH)
PROMPTS = [
    Prompt([5, 6, 7], 3, NoiseKey(0, 0, 1, 0, 0, 0)),
    Prompt([5, 8, 9, 10], 3, NoiseKey(0, 0, 1, 1, 0, 0)),
]


class Disturbed(Gate):
    """Calls `act` in another thread after the engine has checked `after` times for an interruption."""

    def __init__(self, after: int, act: Callable[[], object]) -> None:
        super().__init__()
        self._left = after
        self._thread = threading.Thread(target=act)

    @property
    def closing(self) -> bool:
        self._left -= 1
        if self._left == 0:
            self._thread.start()
            while not self._closings:
                time.sleep(0)
        return super().closing

    def acted(self) -> None:
        """Wait until it has been done: the engine may be through before that thread has its turn again."""
        self._thread.join()


@pytest.fixture
def worker(little_model: Path) -> RolloutWorker:
    config = small_config(
        little_model,
        rollout__staleness=1,
        policies__planner__devices__placement="apart",
        policies__executor__devices__placement="apart",
    )
    spec = WorkerSpec("rollout-planner-0", "planner", config, little_model.parent)
    made = RolloutWorker(spec)
    made.start(None)
    made.engine.stops = made.engine.stops[:0]  # every answer has its full length
    return made


def test_an_interrupted_answer_continues_with_the_new_weights(worker: RolloutWorker) -> None:
    model = worker.engine.model
    older = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(0)
    newer = {name: tensor + 0.05 * torch.randn_like(tensor) for name, tensor in older.items()}
    arrived: list[object] = []
    gate = worker._gate = Disturbed(5, lambda: arrived.append(worker.load_weights(pack(newer, 1), 1)))
    generated = worker.generate(PROMPTS, SETTINGS, 0)
    gate.acted()
    assert len(arrived) == 1 and len(generated.spans) == 2, "interrupted once"
    for prompt, answers in zip(PROMPTS, generated.answers, strict=True):
        for answer in answers:
            assert answer.stop_reason == "length" and len(answer.token_ids) == LENGTH
            said = answer.versions.count(0)
            assert 0 < said < LENGTH and answer.versions == [0] * said + [1] * (LENGTH - said)
            for version, weights in ((0, older), (1, newer)):
                model.load_state_dict(weights)
                with torch.no_grad():
                    logits = model(torch.tensor([[*prompt.token_ids, *answer.token_ids]])).logits[0]
                wanted = tempered_log_probs(logits[len(prompt.token_ids) - 1 : -1], SETTINGS.temperature)
                for place, token in enumerate(answer.token_ids):
                    if answer.versions[place] == version:
                        assert answer.logprobs[place] == pytest.approx(float(wanted[place, token]), abs=1e-4)


def test_late_older_weights_are_ignored(worker: RolloutWorker) -> None:
    held = {name: tensor.clone() for name, tensor in worker.engine.model.state_dict().items()}
    worker.load_weights(pack(held, 3), 3)
    worker.load_weights(pack({name: torch.zeros_like(tensor) for name, tensor in held.items()}, 2), 0)
    assert worker.engine.version == 3
    assert all(torch.equal(tensor, held[name]) for name, tensor in worker.engine.model.state_dict().items())


@pytest.mark.parametrize("partial", [True, False])
def test_a_pause_does_not_change_answers(worker: RolloutWorker, partial: bool) -> None:
    whole = worker.generate(PROMPTS, SETTINGS, 0)
    worker._spec = WorkerSpec(
        worker._spec.name,
        "planner",
        worker._spec.config.model_copy(
            update={"rollout": worker._spec.config.rollout.model_copy(update={"partial": partial})}
        ),
        worker._spec.home,
    )

    def pause() -> None:
        worker._gate.close()
        worker._gate.open()

    gate = Disturbed(4, pause)
    worker._gate = gate
    if not partial:  # the engine never asks: the pause waits for the answers' ends
        gate._left = 0
        waiting = threading.Thread(target=pause)
        waiting.start()
    again = worker.generate(PROMPTS, SETTINGS, 0)
    if not partial:
        waiting.join()
    assert len(again.spans) == (2 if partial else 1)
    for wanted, found in zip(whole.answers, again.answers, strict=True):
        for one, other in zip(wanted, found, strict=True):
            assert (other.token_ids, other.versions, other.text) == (one.token_ids, one.versions, one.text)
            assert other.logprobs == pytest.approx(one.logprobs, abs=1e-5)


def test_equal_weights_in_mid_sequence_give_the_same_tokens(worker: RolloutWorker) -> None:
    whole = worker.generate(PROMPTS, SETTINGS, 0)
    same: PackedWeights = pack(worker.engine.model.state_dict(), 1)
    worker._gate = Disturbed(6, lambda: worker.load_weights(same, 1))
    again = worker.generate(PROMPTS, SETTINGS, 0)
    assert [[item.token_ids for item in group] for group in again.answers] == [
        [item.token_ids for item in group] for group in whole.answers
    ]
    assert all(set(item.versions) == {0, 1} for group in again.answers for item in group)


def test_a_prompt_without_room_is_answered_with_nothing(worker: RolloutWorker) -> None:
    full = Prompt([5] * 256, 2, NoiseKey(0, 0, 1, 2, 0, 0))
    first, refused, last = worker.generate([PROMPTS[0], full, PROMPTS[1]], SETTINGS, 0).answers
    assert [first, last] == worker.generate(PROMPTS, SETTINGS, 0).answers
    assert [answer.had_no_room for answer in refused] == [True, True]


def test_on_a_gpu_the_peak_of_memory_stands_beside_its_estimate(
    little_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = WorkerSpec("policy-planner", "planner", small_config(little_model), little_model.parent)
    made = PolicyWorker(spec)
    made.learner = SimpleNamespace(model=SimpleNamespace(device=torch.device("cpu")))
    assert made._memory() == {}
    monkeypatch.setattr("workers.actors.policy_workers.peak_memory", lambda device: 1.5)
    memory = made._memory()
    assert memory["memory_peak_gib"] == 1.5 and memory["micro_batch_tokens"] == 4096
    planner = next(each for each in estimate(spec.config, spec.home).policies if each.policy == "planner")
    assert memory["memory_planned_gib"] * 1024**3 == pytest.approx(planner.workers[0].peak)


def test_auto_sizes_follow_the_card_of_the_process(
    little_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in one process has one card for all of its policies; the start reports the numbers."""
    cards = {f"policies__{name}__devices__rollout_gpus": 1.0 for name in ("planner", "executor")}
    config = small_config(little_model, **cards)
    monkeypatch.setattr("workers.actors.policy_workers.card_memory", lambda gpus: 60 * 2**20 * gpus)
    chosen = {}
    for together in (False, True):
        spec = WorkerSpec("planner", "planner", config, little_model.parent, 1.0, one_process=together)
        made = PolicyWorker(spec)
        made._spec = replace(spec, config=made._with_sizes())
        loaded = SimpleNamespace(base={}, on_gpu=True, model_name="m", span=None)
        chosen[together] = made._ready_with_sizes(loaded, 0).base["sizes"]  # type: ignore[arg-type]
        assert made._spec.section.learner.pass_tokens == chosen[together]["micro_batch_tokens"]
    assert chosen[True]["micro_batch_tokens"] < chosen[False]["micro_batch_tokens"] < 16_384
    facts = {"name": "little", "sizes": chosen[True]}
    assert f"{chosen[True]['micro_batch_tokens']:,} tokens in a forward pass" in model_line("planner", facts)
    on_cpu = SimpleNamespace(base={}, on_gpu=False, model_name="m", span=None)
    assert PolicyWorker(spec)._ready_with_sizes(on_cpu, 0).base == {}  # type: ignore[arg-type]
