"""The asynchronous loop: tasks are played in the background while the policies are updated.

An iteration differs from the synchronous loop's in one step: `collect` waits for a batch of finished tasks while others
are still played (see workers.actors.collector). `rollout.staleness` bounds how far play runs ahead of the update
(see training_core.llm.serving.admission). With 0, no task begins before the weights are published, and all results equal the
synchronous loop's. After AReaL (arXiv 2505.24298).
"""

from pathlib import Path

from workers.driver.synchronous import Run, begin, iterate


def train(run: Run, resume_from: Path | None, *, forks: bool = False) -> tuple[str, int]:
    """Train until the last iteration or a stop request. Returns the final state and the number of completed iterations."""
    first, started = begin(run, resume_from, forks=forks)
    run.backend.play_ahead(first, run.keeper.admission)
    return iterate(run, first, started)
