"""A meter of tensors' memory."""

import gc

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


def bytes_in_use() -> int:
    """Bytes of all storages of this process that a tensor refers to, each once; without those of compilers, which have no memory."""
    gc.collect()
    tensors = [item for item in gc.get_objects() if issubclass(type(item), Tensor)]
    storages = [item.untyped_storage() for item in tensors if not issubclass(type(item), FakeTensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
