"""A meter of tensors' memory."""

import gc

from torch import Tensor


def bytes_in_use() -> int:
    """Bytes of all storages of this process that a tensor refers to, each once."""
    gc.collect()
    storages = [item.untyped_storage() for item in gc.get_objects() if issubclass(type(item), Tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
