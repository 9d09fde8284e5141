"""Where a result comes from: the commit, the device and the command that made it, and the day."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import torch


def commit() -> str:
    """$SOFTCUT_COMMIT where it is set (for copies without their history), else the commit of the checkout.

    A trailing "+" means that files of the package were changed since; "unknown" that there is no checkout.

    >>> os.environ["SOFTCUT_COMMIT"] = "1234567"
    >>> commit()
    '1234567'
    >>> del os.environ["SOFTCUT_COMMIT"]
    """
    if os.environ.get("SOFTCUT_COMMIT"):
        return os.environ["SOFTCUT_COMMIT"]
    here = Path(__file__).resolve().parent
    try:
        head = _git(here, "rev-parse", "--short", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def device_name(device: torch.device | str) -> str:
    """What computed a result, in words.

    >>> device_name("cpu").endswith("CPU")
    True
    """
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads, {platform.machine()} CPU"


def command_line() -> str:
    """The command that runs, to be pasted into a shell in the checkout: quoted, no path of the interpreter.

    >>> isinstance(command_line(), str)
    True
    """
    given = sys.orig_argv[1:]
    if given[:1] == ["-m"]:
        return shlex.join(["python", *given])
    script = Path(sys.argv[0])
    if script.suffix != ".py":  # a command that was installed
        return shlex.join([script.name, *sys.argv[1:]])
    script, checkout = script.resolve(), Path(__file__).resolve().parent.parent
    shown = script.relative_to(checkout).as_posix() if script.is_relative_to(checkout) else script.name
    return shlex.join(["python", shown, *sys.argv[1:]])


def origin(device: torch.device | str = "cpu") -> dict[str, str]:
    """Commit, device, command and date: what every file of results says about itself.

    >>> list(origin())
    ['commit', 'device', 'command', 'date']

    Parameters
    ----------
    device : torch.device or str
        What computed.
    """
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    return {"commit": commit(), "device": device_name(device), "command": command_line(), "date": today}


def on_device(command: str, device: str) -> str:
    """A command of ``softcut reproduce`` with the option that has it computed on a device of this name again.

    >>> on_device("softcut reproduce quality", "NVIDIA H200"), on_device("softcut reproduce quality --device cpu", "")
    ('softcut reproduce quality --device cuda', 'softcut reproduce quality --device cpu')

    Parameters
    ----------
    command : str
        What makes a result, with or without ``--device``.
    device : str
        Names as :func:`device_name` gives them.
    """
    if "--device" in command:
        return command
    return f"{command} --device {'cuda' if device and not device.endswith('CPU') else 'cpu'}"
