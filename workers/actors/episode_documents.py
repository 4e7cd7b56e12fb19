"""EpisodeDocuments: transcripts and annotations of episodes, as fields of events."""

from collections.abc import Mapping, Sequence
from typing import Any

from training_core.config.run import RunConfig
from training_core.types import Episode
from training_core.versions import oldest_versions
from workers.protocol.spec import PolicyUpdate
from workers.telemetry.transcripts import annotation_document, choose_transcripts, episode_document


class EpisodeDocuments:
    """Builds documents. Each token is decoded once per policy."""

    def __init__(self, config: RunConfig, tokenizers: Mapping[str, Any]) -> None:
        self._config = config
        self._tokenizers = tokenizers
        self._texts: dict[str, dict[int, str]] = {}
        """Text of tokens, by policy and id."""

    def choose(self, iteration: int, episodes: Sequence[Episode]) -> list[Episode]:
        """The training episodes of an iteration that get transcripts."""
        count = self._config.reporting.episodes_per_iteration
        chosen = choose_transcripts(self._config.run.seed, iteration, len(episodes), count)
        return [episodes[index] for index in sorted(chosen)]

    def transcripts(self, episodes: Sequence[Episode], versions: Mapping[str, int]) -> list[dict[str, Any]]:
        """Fields of episode events. `versions` are those of policies that generated nothing in an episode."""
        return [
            episode_document(episode, {**versions, **oldest_versions(episode)}, self._token_texts)
            for episode in episodes
        ]

    def _token_texts(self, policy: str, ids: Sequence[int]) -> list[str]:
        texts = self._texts.setdefault(policy, {})
        for number in ids:
            if number not in texts:
                texts[number] = self._tokenizers[policy].decode([number])
        return [texts[number] for number in ids]


def annotations(
    episodes: Sequence[Episode], updates: Mapping[str, PolicyUpdate], consumed: float
) -> list[dict[str, Any]]:
    """Fields of annotation events. `consumed`: start of the update, in seconds since the epoch."""
    figures = {turn: item for update in updates.values() for turn, item in update.annotations.items()}
    return [
        annotation_document(episode, figures, {"generated": episode.ended, "consumed": consumed})
        for episode in episodes
    ]
