"""``python -m softcut`` is the command line."""

from softcut.cli import main

if __name__ == "__main__":
    main()
