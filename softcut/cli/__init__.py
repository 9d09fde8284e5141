"""The command line."""

from softcut.cli.app import main

__all__ = ["main"]
