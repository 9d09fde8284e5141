"""The command line.

Nothing is imported before :func:`main` runs, so that Ctrl-C is answered without a traceback as early as Python allows.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run a command and exit: 0 when all went well, 2 for bad input (one sentence), 130 after Ctrl-C."""
    _open_streams()
    gc.set_threshold(100_000)  # what is loaded stays: hardly anything of it is garbage to look for
    try:
        code = _run()
    except KeyboardInterrupt:
        print("softcut: interrupted.", file=sys.stderr)
        code = 130
    if code == 130:
        _end_quietly()
    gc.freeze()  # the end of the process would search all it has loaded for garbage
    sys.exit(code)


def _open_streams() -> None:
    """Streams that the caller closed lead nowhere: no file that is opened later may take their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _run() -> int:
    for package in ("typer", "rich"):
        if importlib.util.find_spec(package) is None:
            print(
                f"softcut: the command line needs the package '{package}': run pip install 'softcut[cli]' "
                "(in a clone of the source: pip install -e '.[cli]').",
                file=sys.stderr,
            )
            return 2
    from softcut.cli.interrupts import INTERRUPTS, Stopped

    try:
        with INTERRUPTS:
            from softcut.cli.app import run

            return run()
    except Stopped:
        raise KeyboardInterrupt from None


def _end_quietly() -> None:
    """Let the process exit with its own code, whatever is pressed meanwhile.

    Python ends itself with a signal, whatever the exit code, when Ctrl-C came while a C library (torch's, as it is
    loaded) ran a piece of Python; running another piece the same way clears that.
    """
    import ctypes
    import signal

    with contextlib.suppress(ValueError):  # only the main thread may ignore signals
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.pythonapi.PyRun_SimpleString(b"")
