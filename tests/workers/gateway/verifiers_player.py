"""Plays the episodes of a gateway in environments of verifiers, in an environment of its own: python verifiers_player.py FOLDER COUNT."""

import sys

import httpx
from openai import AsyncOpenAI

import troupe
from training_core.errors import ConfigError
from training_core.llm.agents.verifiers import VerifiersPlayer
from training_core.llm.environments.verifiers import Verifiers, VerifiersEnvironment


async def play(episode: troupe.OpenEpisode) -> None:
    """Play one task of the environment that its data names."""
    section = Verifiers(path=episode.data["path"], args=episode.data["args"])
    try:
        VerifiersEnvironment(section, 0).reset(episode.data["number"], "train")
        player = VerifiersPlayer(section, episode.roles, 0)
    except ConfigError as error:
        raise RuntimeError(str(error)) from None
    address = f"{episode.base_url.removesuffix('/v1')}/episodes/{episode.api_key}/v1"  # as agents in the run's process get it
    async with player.serving(), AsyncOpenAI(base_url=address, api_key=episode.api_key) as client:
        rewards = await player.run(episode.data, base_url=address, client=client)
        body = {"rewards": rewards.by_role, "parts": rewards.parts}
        async with httpx.AsyncClient(trust_env=False) as http:
            (await http.post(f"{episode.url}/reward", json=body)).raise_for_status()


if __name__ == "__main__":
    sys.stdout.write(repr(troupe.play_episodes(sys.argv[1], play, 1, progress=False)))
