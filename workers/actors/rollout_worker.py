"""RolloutWorker: generates answers for one policy, with the requested version of its weights."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training_core.llm.base_models.folder_creation import Progress, silent
from training_core.llm.generation.base import Engine, SamplingSettings, generate_fitting, generate_until_ended
from training_core.llm.serving.batching import Gate
from training_core.types import Answer, Prompt
from workers.actors.staleness import check_weights
from workers.actors.worker import Worker, ready
from workers.protocol.records import Span, TransferFailure
from workers.protocol.spec import Address, Generated, Ready, WorkerSpec

if TYPE_CHECKING:
    from torch import Tensor

    from workers.actors.model_loading import LoadedModel
    from workers.actors.weight_group import WeightGroup
    from workers.actors.weights import PackedWeights


class RolloutWorker(Worker):
    """Holds a copy of the policy's weights; `load_weights` replaces it by newer versions."""

    engine: Engine

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        super().__init__(spec, progress)
        self._gate = Gate()
        self._restored = False
        """Whether the weights of a frozen policy are from a checkpoint."""
        self._started = threading.Event()
        """Set when `start` has ended: weights may arrive while it runs."""
        self._loading = threading.Lock()
        """Held while a version is compared and loaded: two may arrive at the same time."""
        self._group: WeightGroup | None = None
        """Process group through which the update worker broadcasts weights."""

    def start(self, resume_from: Path | None) -> Ready:
        """Load the base model. Trained weights come by `load_weights`; a frozen policy's may be in a checkpoint.

        Raises ModelError, CheckpointError.
        """
        try:
            loaded = self._load()
            self._open_engine(loaded)
            version = self._restore(resume_from) if resume_from else 0
        finally:  # `load_weights` must not wait for a worker that failed to start
            self._started.set()
        return ready(loaded, version)

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Sample answers for each prompt; concurrent calls run one after another. With `rollout.partial` new weights
        interrupt the answers, which continue with them. A prompt without room for an answer in the model's context gets
        answers without a token.

        Older weights than `version` are allowed if the update leaves such answers out (rollout.stale = "drop") or trains on
        them (rollout.staleness). Raises StalePolicy, EngineFailure.
        """
        rollout = self._spec.config.rollout
        interrupted = (lambda: self._gate.closing) if rollout.partial else None
        spans: list[Span] = []

        def generate_part(unfinished: Sequence[Prompt]) -> list[list[Answer]]:
            with self._gate.passing():
                if rollout.stale == "error" and not rollout.staleness:
                    check_weights(self.engine.version, version, self._spec.policy, self._spec.name)
                start = time.time()
                answers = self.engine.generate(unfinished, settings, interrupted)
                spans.append(self._span(unfinished, answers, start))
                return answers

        answers = generate_fitting(prompts, lambda fitting: generate_until_ended(fitting, generate_part))
        return Generated(answers, spans)

    def load_weights(self, packed: "PackedWeights", iteration: int) -> Span:
        """Load a version of the weights, before waiting calls generate. Ignores a version older than the current one: while
        a worker is replaced, a publication may reach the new worker before its initial weights.
        """
        from workers.actors.weights import unpack

        self._started.wait()
        start = time.time()
        self._replace_weights(packed.version, lambda: unpack(packed))
        return self._sync_span(iteration, start)

    def await_start(self) -> None:
        """Wait until `start` has ended."""
        self._started.wait()

    def join_group(self, address: Address, rank: int, size: int) -> None:
        """Join the process group that the update worker forms at `address`. Raises TransferFailure."""
        from workers.actors.weight_group import WeightGroup

        if self._group is not None:
            self._group.close()
        self._group = WeightGroup.join(address, rank, size, self._loaded.model.device)

    def receive_weights(self, iteration: int) -> Span:
        """Receive a version through the process group, then load it as `load_weights` does. Answers are generated until all weights
        have arrived. Raises TransferFailure; the engine's weights are unchanged then.
        """
        from training_core.llm.models.lora import trained_weights
        from workers.actors.weight_group import layout_of

        start = time.time()
        if self._group is None:
            raise TransferFailure("this worker is not in a process group")
        version, weights = self._group.receive(layout_of(trained_weights(self._loaded.model)))
        self._replace_weights(version, lambda: weights)
        return self._sync_span(iteration, start)

    def save(self, folder: Path) -> None:
        """Write a frozen policy into a checkpoint, unless it is the base model. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import policy_folder, save_frozen

        if self._restored:
            part = policy_folder(folder, self._spec.policy)
            save_frozen(part, self._loaded.model, self._loaded.tokenizer, self.engine.version)

    def _replace_weights(self, version: int, weights: "Callable[[], Mapping[str, Tensor]]") -> None:
        """Load weights between two generations, unless the current ones are newer."""
        with self._gate.closed(), self._loading:
            if version >= self.engine.version:
                self.engine.load_weights(weights(), version)

    def _sync_span(self, iteration: int, start: float) -> Span:
        return Span(self._spec.name, "sync", self._spec.policy, iteration, start, time.time())

    def _open_engine(self, loaded: "LoadedModel", *, sleeps: bool = False) -> None:
        from training_core.llm.generation.base import make_engine
        from training_core.llm.models.flops import shape_of

        self._loaded = loaded
        self._shape = shape_of(loaded.model.config)
        self.engine = make_engine(self._spec.section.engine, loaded.model, loaded.tokenizer, sleeps=sleeps)

    def _restore(self, checkpoint: Path) -> int:
        """Load a frozen policy's weights if the checkpoint has them. Returns the version. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import check_tokenizer, load_frozen, policy_folder
        from training_core.llm.models.lora import trained_weights

        folder = policy_folder(checkpoint, self._spec.policy)
        if folder.is_dir():
            check_tokenizer(folder, self._loaded.tokenizer)
            version = load_frozen(folder, self._loaded.model)
            self.engine.load_weights(trained_weights(self._loaded.model), version)
            self._restored = True
        return self.engine.version

    def _span(self, prompts: Sequence[Prompt], answers: list[list[Answer]], start: float) -> Span:
        from training_core.llm.models.flops import forward_flops, generation_work

        name, policy = self._spec.name, self._spec.policy
        iteration = prompts[0].key.iteration if prompts else 0
        flops = forward_flops(self._shape, generation_work(prompts, answers)) if self._shape else None
        return Span(name, "rollout", policy, iteration, start, time.time(), flops, self._loaded.peak)
