"""csv: the numbers of a run, line by line."""

from pathlib import Path

from examples.csv_logger.csv import CsvLogger
from training_core.loggers.registry import LoggerSetup


def test_every_number_is_a_line(tmp_path: Path) -> None:
    logger = CsvLogger(LoggerSetup(tmp_path, "lab", "abc", "name", {}))
    logger.scalars(1, {"eval/success": 0.5, "eval/length": 2.0})
    logger.histogram(2, "train/returns", [1.0, 3.0])
    logger.close()
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert lines == ["1,eval/success,0.5", "1,eval/length,2.0", "2,train/returns/mean,2.0"]
