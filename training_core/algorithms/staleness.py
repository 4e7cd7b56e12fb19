"""Bounds on the age of training data."""


def capacity(
    *, staleness: int, version: int, batch: int, accepted: int, running: int, max_concurrent: int
) -> int:
    """How many more tasks may start now; negative while more are running than allowed.

    AReaL's rule (arXiv 2505.24298, section 5.1). `accepted` counts tasks whose data was or will be used for training,
    `running` the unfinished ones; `batch` is the number of tasks per version. With staleness 0 all data is sampled by
    the version that is trained on it.
    """
    fresh = (staleness + version + 1) * batch - (accepted + running)
    return min(max_concurrent - running, fresh)
