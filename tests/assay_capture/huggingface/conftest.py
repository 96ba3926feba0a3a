"""The models here are captured and run as those of tests/assay_capture/capture: one thread in each process."""

from tests.assay_capture.capture.conftest import one_thread

__all__ = ["one_thread"]
