"""UpdateWorker: updates one policy, on data of its current version."""

import logging
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from training_core.llm.base_models.folder_creation import Progress, silent
from training_core.seeding import keyed_seed
from training_core.types import Group
from workers.actors.staleness import check_versions, check_weights
from workers.actors.worker import Worker, ready
from workers.protocol.records import Span, TransferFailure
from workers.protocol.spec import Address, PolicyUpdate, Ready, TokenFigures, WorkerSpec

if TYPE_CHECKING:
    from training_core.llm.learning.update_metrics import GroupAnnotation
    from workers.actors.model_loading import LoadedModel
    from workers.actors.weight_group import WeightGroup
    from workers.actors.weights import PackedWeights

log = logging.getLogger(__name__)
Item = TypeVar("Item")


class UpdateWorker(Worker):
    """Owns the policy's weights and optimiser, alone or as one of `update_workers` processes that train together."""

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        super().__init__(spec, progress)
        self.learner: Any = None
        self.version = 0
        self._store: Any = None
        """Where the members of the next process group for weights meet."""
        self._sending: WeightGroup | None = None
        """Process group through which this worker broadcasts weights."""

    def free_address(self) -> Address:
        """An address of this machine with a free port, for the communication between the policy's update workers."""
        host = _host()
        with socket.socket() as probe:
            probe.bind((host, 0))
            return host, int(probe.getsockname()[1])

    def start(self, resume_from: Path | None, address: Address | None = None) -> Ready:
        """Load model, optimiser and, if given, the checkpoint; several workers connect to each other at `address`.

        Raises ModelError, CheckpointError.
        """
        loaded = self._load()
        self._open_learner(loaded, address)
        return ready(loaded, self._resume(resume_from) if resume_from else 0)

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Update once on data of `version`. Raises StalePolicy."""
        name, policy, config = self._spec.name, self._spec.policy, self._spec.config
        check_weights(self.version, version, policy, name)
        start = time.time()
        groups = self.learner.fill_missing_logprobs(groups, version)
        checked = check_versions(groups, version, policy, config.stale_data, config.oldest_data)
        result = self.learner.update(checked.groups, iteration, version, annotated)
        positions = {(group.episode, group.turn): group for group in groups}
        annotations = {
            turn: _figures(annotation, positions[turn], checked.indices.get(turn))
            for turn, annotation in result.annotations.items()
        }
        span = Span(name, "update", policy, iteration, start, time.time(), result.flops, self._peak)
        return PolicyUpdate(
            result.metrics, annotations, checked.answers, checked.dropped, checked.lag, [span]
        )

    def weights(self, version: int) -> "PackedWeights":
        """The current weights, which become `version`. With several processes only the first one returns arrays."""
        from workers.actors.weights import pack

        self.version = version
        weights = self.learner.weights()
        return pack(weights if self._processes.rank == 0 else {}, version)

    def open_group(self) -> Address:
        """The address at which this worker and the policy's rollout workers form a process group. Ends an earlier group."""
        from workers.actors.weight_group import open_store

        if self._sending is not None:
            self._sending.close()
            self._sending = None
        host = _host()
        self._store = open_store(host)
        return host, int(self._store.port)

    def form_group(self, size: int) -> None:
        """Wait at the address until the rollout workers have joined. Raises TransferFailure."""
        from workers.actors.weight_group import WeightGroup

        self._sending = WeightGroup(self._store, 0, size, self.learner.model.device)

    def send_weights(self, version: int) -> "PackedWeights":
        """Broadcast the current weights, which become `version`. Returns them too, for rollout workers that could not receive
        them or that replace others. With several processes the first one broadcasts and returns.
        """
        from workers.actors.weights import pack

        self.version = version
        weights = self.learner.weights()
        if self._sending is not None:
            try:
                self._sending.send(weights, version)
            except TransferFailure as error:
                # The rollout workers do not receive the weights either, and report it.
                log.warning("%s", error)
        return pack(weights if self._processes.rank == 0 else {}, version)

    def save(self, folder: Path) -> None:
        """Write this policy into a checkpoint; with several processes the first one writes. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import policy_folder, save_policy

        if self._processes.rank > 0:
            self.learner.state_dict()  # all processes take part in gathering a sharded state
            return
        save_policy(policy_folder(folder, self._spec.policy), self.learner, self._tokenizer, self.version)

    def _open_learner(self, loaded: "LoadedModel", address: Address | None = None) -> None:
        from training_core.llm.learning.learner import make_learner
        from training_core.llm.learning.optimiser import SINGLE_PROCESS, join

        spec, config = self._spec, self._spec.config
        self._tokenizer, self._peak = loaded.tokenizer, loaded.peak
        self._processes = SINGLE_PROCESS
        if address:
            size = spec.section.devices.update_workers
            self._processes = join(spec.rank, size, *address, gpu=loaded.on_gpu)
        self.learner = make_learner(
            spec.section,
            config.algorithm,
            loaded.model,
            config.run.iterations,
            config.oldest_data,
            self._processes,
            keyed_seed(config.run.seed, crc32(spec.policy.encode())),
        )

    def _resume(self, checkpoint: Path) -> int:
        """Load the policy's part of a checkpoint. Returns the version. Raises CheckpointError."""
        from training_core.llm.learning.policy_checkpoint import check_tokenizer, load_policy, policy_folder

        folder = policy_folder(checkpoint, self._spec.policy)
        check_tokenizer(folder, self._tokenizer)
        self.version = load_policy(folder, self.learner)
        return self.version


def _host() -> str:
    """The address of this machine in the cluster."""
    import ray  # here: local runs have such workers too, and no Ray

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def _figures(annotation: "GroupAnnotation", group: Group, indices: list[int] | None) -> TokenFigures:
    """The learner's values in the order of the group's answers; `indices`: those that the learner got, if not all."""
    count = len(group.answers)
    places = list(range(count)) if indices is None else indices
    return TokenFigures(
        spread(annotation.ratios, places, count),
        spread(annotation.entropies, places, count),
        spread(annotation.training_logprobs, places, count),
        spread(annotation.masks, places, count),
    )


def spread(values: Sequence[list[Item]], indices: Sequence[int], count: int) -> list[list[Item]]:
    """A list of `count` lists: `values` at `indices`, empty ones elsewhere."""
    at = dict(zip(indices, values, strict=True))
    return [at.get(index, []) for index in range(count)]
