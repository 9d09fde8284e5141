"""The command line.

Nothing heavy is imported before :func:`main` runs, so that Ctrl-C is answered without a traceback at any time.
"""

from __future__ import annotations

import os
import sys

from softcut.cli.interrupts import INTERRUPTS, Stopped

__all__ = ["main"]


def main() -> None:
    """Run a command and exit: 0 when all went well, 2 for bad input (one sentence), 130 after Ctrl-C."""
    # Threads that wait should sleep: spinning ones slow a shared machine down many times. Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        with INTERRUPTS:
            from softcut.cli.app import run

            code = run()
    except (KeyboardInterrupt, Stopped):
        print("softcut: interrupted.", file=sys.stderr)
        code = 130
    sys.exit(code)
