"""The colours of clusters, the same in every picture, page and file."""

from __future__ import annotations

# Okabe and Ito's colours, then those farthest from all before them and from white, as people with normal vision and
# with each of the three kinds of colour blindness see them (CIE Lab, at least 16 apart for all four).
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#9600FF"),
    *("#4B1E1E", "#1E2D4B", "#00F087", "#A578FF", "#F00F5A", "#4B0078", "#A5D2B4"),
    *("#5A3CC3", "#870000", "#B4A54B", "#D2C3E1", "#874B78", "#4B693C"),
)


def cluster_colours(k: int) -> list[str]:
    """One colour per cluster; they repeat after 20.

    >>> cluster_colours(2)
    ['#0072B2', '#E69F00']
    """
    return [colour_of(i) for i in range(k)]


def colour_of(cluster: int) -> str:
    """The colour of a cluster.

    >>> colour_of(1), colour_of(21)
    ('#E69F00', '#E69F00')
    """
    return PALETTE[cluster % len(PALETTE)]
