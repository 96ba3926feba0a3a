"""The command line: `assay ...`. Every expected error is one line on standard error and exit code 2."""

from __future__ import annotations

import errno
import os
import sys

from rich.console import Console
from rich.markup import escape

from referee_py.errors import AssayError

FAILED = 70
"""Exit code of a failure that nobody has foreseen: EX_SOFTWARE of sysexits.h."""

SWITCH_S = 0.0005
"""Seconds that a thread may hold the interpreter while another one waits for it, a tenth of Python's own. SAFETY: each
kernel of a run or a dispute waits for the interpreter when it returns, and whoever posts a long program has a thread
read it meanwhile."""


def main() -> None:
    """Entry point of the `assay` command."""
    sys.setswitchinterval(SWITCH_S)
    # NOTE: --debug is accepted anywhere, so that it can be appended to any command that failed.
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        from .app import application

        application(sys.argv[1:], complete="_ASSAY_COMPLETE" in os.environ)(prog_name="assay")
    except (AssayError, OSError) as error:
        if debug:
            raise
        if isinstance(error, AssayError):
            told = str(error) + (error.advice and f"; {error.advice}")
        else:
            told = f"{type(error).__name__}: {error}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                told += "; make room, or name a place on another disk"
        # SAFETY: names of files of others are in it; an escape sequence must not reach the terminal.
        text = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in told)
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"[red]error:[/red] {escape(text)}")
        sys.exit(2)
    except Exception:
        if debug:
            raise
        # SAFETY: Python's own code for a failure is 1, which `assay audit` gives for a run that differs.
        sys.excepthook(*sys.exc_info())
        sys.exit(FAILED)
    except KeyboardInterrupt:
        # NOTE: a daemon that runs handles the signal itself; this one was still starting.
        sys.stderr.write("interrupted\n")
        sys.exit(130)
