"""What makes the tables and pictures of README.md and docs/; run from the root as ``python -m tools.NAME``."""
