"""Metrics for TensorBoard, where its package is installed: one scalar for each metric, by step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import PIP, ConfigError


class Scalars:
    """A file of events in ``folder``. Steps from ``first`` on in older files of the folder count as never written."""

    def __init__(self, folder: Path, first: int) -> None:
        """Raises ConfigError if the package is not installed."""
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"--tensorboard needs {error.name}; install it with `{PIP} install 'assay-referee[tensorboard]'`"
            ) from error
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._writer: Any = EventFileWriter(str(folder))
        log: Any = event_pb2.SessionLog
        self._writer.add_event(
            self._event(wall_time=time.time(), step=first, session_log=log(status=log.START))
        )

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics of a step."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._writer.add_event(
            self._event(wall_time=time.time(), step=step, summary=self._summary(value=values))
        )

    def close(self) -> None:
        self._writer.close()
