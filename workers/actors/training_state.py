"""TrainingState: versions of the policies and baselines of the roles; the record of one iteration's updates."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.llm.learning.training_groups import (
    GroupedBatch,
    make_groups,
    read_baselines,
    save_baselines,
)
from training_core.types import Episode
from workers.protocol.records import Updated
from workers.protocol.spec import PolicyUpdate


class TrainingState:
    """What the coordinator remembers between updates."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self.versions: dict[str, int] = dict.fromkeys(config.used_policies, 0)
        self._baselines: dict[str, float] = {}
        """By name, if the algorithm has baselines; RAE's are by role."""
        self._unpublished: set[str] = set()
        """Policies that were updated since weights were last published."""

    def groups(self, episodes: list[Episode]) -> GroupedBatch:
        """Groups with advantages, by policy. Updates the baselines."""
        groups = make_groups(episodes, self._config, self._baselines)
        self._baselines = groups.baselines
        return groups

    def updated(self, policies: Iterable[str]) -> None:
        """Mark policies whose new weights are to be published."""
        self._unpublished.update(policies)

    def next_versions(self) -> dict[str, int]:
        """New versions of the updated policies, sorted by name; marks them as published."""
        versions = {policy: self.versions[policy] + 1 for policy in sorted(self._unpublished)}
        self._unpublished = set()
        return versions

    def restore(self, checkpoint: Path) -> None:
        """Load the baselines."""
        self._baselines = read_baselines(checkpoint)

    def save(self, folder: Path) -> None:
        """Write the baselines, if there are any."""
        if self._baselines:
            save_baselines(folder, self._baselines)


def update_record(
    updates: Mapping[str, PolicyUpdate],
    groups: GroupedBatch,
    annotations: list[dict[str, Any]],
    batch: list[dict[str, Any]],
) -> Updated:
    """The driver's record of the updates of all policies."""
    answers = sum(update.answers for update in updates.values())
    return Updated(
        {policy: update.metrics for policy, update in updates.items()},
        annotations,
        {role: asdict(counts) for role, counts in groups.counts.items()},
        sum(update.dropped for update in updates.values()),
        sum(update.lag for update in updates.values()) / answers if answers else 0.0,
        [span for update in updates.values() for span in update.spans],
        batch,
    )
