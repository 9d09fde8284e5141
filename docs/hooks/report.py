"""The report of all results (``softcut report``) as a file of the site."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from softcut.paper.report_sections import write_report


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(root / "results", path)
        files.append(File.generated(config, "all-results.html", content=path.read_bytes()))
    return files
