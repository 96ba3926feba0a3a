"""The command line of a node that kills itself, once at each moment of each act's transaction.

    python -m tests.campaigns.killed MOMENTS trainer run ...

    before    the act is decided, and nothing is stored
    stored    the signed transaction is stored, and not sent
    mined     it is mined, and that is not stored

The file MOMENTS has those that have come: each kills one process, with SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

from trainer_node.chain.outbox import Outbox
from trainer_node.cli import main

MOMENTS = ("before", "stored", "mined")


def come(moments: Path, moment: str, action: str) -> None:
    """Kill this process if it is the first time that this moment comes."""
    line = f"{moment} {action}\n"
    if line in (moments.read_text() if moments.exists() else ""):
        return
    with moments.open("a") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    os.kill(os.getpid(), signal.SIGKILL)


def watch(moments: Path) -> None:
    """Let the outbox of this process come to its moments."""
    add, finish = Outbox.add, Outbox.finish

    def adding(self: Outbox, call: Any, *given: Any) -> Any:
        come(moments, "before", call.action)
        row = add(self, call, *given)
        come(moments, "stored", call.action)
        return row

    def finishing(self: Outbox, row: Any, *given: Any) -> None:
        come(moments, "mined", row.action)
        finish(self, row, *given)

    Outbox.add, Outbox.finish = cast(Any, adding), cast(Any, finishing)  # type: ignore[method-assign]


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main()
