"""What a job of the local page is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PICTURES", "Order"]

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")


@dataclass(frozen=True)
class Order:
    """What a job is asked to do: files in its folder, the number of clusters ("auto" or a number), a seed.

    `n_init`, `threads` and `max_bytes` are the server's: networks (None: the estimator's), threads, and the most bytes
    that a compressed file may unpack to.
    """

    file: str
    features: str | None
    n_clusters: int | str
    seed: int = 0
    n_init: int | None = None
    threads: int = 1
    max_bytes: int = 2**28

    @property
    def is_picture(self) -> bool:
        return self.file.lower().endswith(PICTURES)
