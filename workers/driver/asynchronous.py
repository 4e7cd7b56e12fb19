"""The asynchronous loop: tasks are played in the background, with weights that are published while they are in play.

What an iteration does is what the synchronous loop does, but for one thing: to collect is to wait for a batch of finished
tasks, while others go on (see workers.actors.collector). How far play may run ahead follows from `rollout.staleness`
(see workers.transfer.admission); at 0 nothing may begin before the weights are published, and every number is the
synchronous loop's. After AReaL (arXiv 2505.24298).
"""

from pathlib import Path

from workers.driver.synchronous import Run, begin, go_on


def train(run: Run, resume_from: Path | None, *, forks: bool = False) -> tuple[str, int]:
    """Play the run to its end, or until it is asked to stop. Returns its last state and the iterations completed."""
    first, started = begin(run, resume_from, forks=forks)
    run.backend.play_ahead(first, run.keeper.admission)
    return go_on(run, first, started)
