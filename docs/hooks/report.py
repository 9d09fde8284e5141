"""The report of all results (``softcut report``) as a file of the site."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from softcut.paper.report_sections import write_report

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tools/ of the checkout
from tools.measured import measured_sections


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(root / "results", path, rest=measured_sections)
        files.append(File.generated(config, "all-results.html", content=path.read_bytes()))
    return files
