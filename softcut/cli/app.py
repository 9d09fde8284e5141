"""The commands of the program, and what happens when one of them fails."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from softcut import __version__
from softcut.cli.classify import classify
from softcut.cli.cluster import cluster, predict
from softcut.cli.commands import datasets, demo, partition, report, segment, serve
from softcut.cli.console import err, out, use_options_of, worded
from softcut.cli.regress import regress
from softcut.cli.reproduce import reproduce
from softcut.errors import SoftcutError

app = typer.Typer(
    name="softcut",
    help="Cluster and coarsen graphs with a differentiable minCUT objective.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (cluster, predict, classify, regress, segment, partition, datasets, demo, report, serve):
    app.command()(command)
app.add_typer(reproduce, name="reproduce")

# The base of all errors in how a command was called; newer versions of typer carry their own copy of click.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def _version(value: bool) -> None:
    if value:
        out.print(f"softcut {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        return
    command = context.command.get_command(context, context.invoked_subcommand)  # type: ignore[attr-defined]
    if command is not None:
        use_options_of(command)


def run() -> int:
    """Run the command in ``sys.argv``; the exit code. Bad input is one sentence, without a traceback."""
    for word in sys.argv:
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # what Python makes of other bytes
            return _refuse(f"{word!a} is not UTF-8; rename the file, or name another one.")
    try:
        code = app(standalone_mode=False)
    except SoftcutError as error:
        return _refuse(worded(error.sentence))
    except _UsageError as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "softcut")
        message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
        return _refuse(f"{message.rstrip('.')}; see '{command} --help'.")
    except BrokenPipeError:
        # Whoever read the output has enough; python would complain once more when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{name}{error.strerror or error}.")
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # what compiled code makes of Ctrl-C
            raise KeyboardInterrupt from None
        raise
    except (MemoryError, RuntimeError) as error:
        # By name: torch's error for a full GPU, without loading torch for commands that do not need it.
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            return _refuse("the memory is full; a smaller --n-init needs less, and so does a smaller graph.")
        raise
    if code == 130:  # typer's answer to Ctrl-C; commands that wrote something exit by themselves
        raise KeyboardInterrupt
    return int(code or 0)


def _refuse(sentence: str) -> int:
    err.print(f"softcut: {sentence}", markup=False, soft_wrap=True)
    return 2
