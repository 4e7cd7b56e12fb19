"""TensorBoard's event files in `tensorboard/<project>/<name>/` of the run folder. Does not import torch, as drivers do not."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from training_core.loggers.registry import LoggerSetup

BINS = 30


class TensorBoard:
    """Writes metrics to TensorBoard event files. The config is written as a text."""

    def __init__(self, setup: LoggerSetup) -> None:
        folder = (
            setup.folder / "tensorboard" / setup.project / re.sub(r"[^\w.-]", "_", setup.name).lstrip(".")
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventFileWriter(str(folder))
        text = orjson.dumps(setup.config, option=orjson.OPT_INDENT_2)
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(
            dtype="DT_STRING", string_val=[b"```json\n" + text + b"\n```"], tensor_shape=shape
        )
        metadata = create_summary_metadata("config", "The resolved config.")
        self._add(0, [Summary.Value(tag="config", metadata=metadata, tensor=tensor)])

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._add(step, [Summary.Value(tag=name, simple_value=value) for name, value in values.items()])

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        finite = np.asarray([number for number in numbers if np.isfinite(number)], np.float64)
        if not len(finite):
            return
        counts, edges = np.histogram(finite, BINS)
        bins = HistogramProto(
            min=finite.min(),
            max=finite.max(),
            num=len(finite),
            sum=finite.sum(),
            sum_squares=float(finite @ finite),
            bucket_limit=edges[1:].tolist(),
            bucket=counts.tolist(),
        )
        self._add(step, [Summary.Value(tag=name, histo=bins)])

    def close(self) -> None:
        self._writer.close()

    def _add(self, step: int, values: list[Any]) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
