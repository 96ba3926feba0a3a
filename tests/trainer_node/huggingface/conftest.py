"""The models here are captured and run as those of tests/trainer_node/capture: one thread in each process."""

from tests.trainer_node.capture.conftest import one_thread

__all__ = ["one_thread"]
