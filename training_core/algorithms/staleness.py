"""How old data may be when it is learnt from."""


def capacity(
    *, staleness: int, version: int, batch: int, accepted: int, running: int, max_concurrent: int
) -> int:
    """How many more tasks may begin now; negative while more are in play than would be allowed.

    AReaL's rule (arXiv 2505.24298, section 5.1). `accepted` are tasks whose data was or will be learnt from, `running` those
    in play; `batch` is what one version learns from. With staleness 0 all data is of the version that learns from it.
    """
    fresh = (staleness + version + 1) * batch - (accepted + running)
    return min(max_concurrent - running, fresh)
