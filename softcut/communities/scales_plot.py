"""A picture of the scales that were compared: modularity beside that of random graphs, and which one was chosen."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from softcut.colours import PALETTE
from softcut.errors import require
from softcut.files import atomic_write

_DPI = 130


def draw_scales(scales: Any, path: Any = None) -> Any:
    """Modularity of the graph and of random graphs, and surplus times agreement, over the resolution.

    `scales` is a :class:`softcut.communities.tree.Scales`.

    The chosen resolution is a vertical line; the numbers of communities stand along the upper edge. Returns a
    matplotlib figure, also written where `path` says so.

    >>> import networkx as nx, softcut as sc
    >>> figure = sc.GraphClustering().fit(nx.les_miserables_graph()).scales_.plot()
    >>> figure.axes[1].get_xlabel()
    'resolution (larger: more communities)'
    """
    fig = _figure()
    above, below = fig.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 2)})
    g, chosen = scales.resolution, scales.chosen
    number = int(scales.number[chosen])
    drawn = (
        (above, scales.modularity, "this graph", PALETTE[0], "o", "-"),
        (above, scales.random, "random graphs (mean)", PALETTE[5], "s", "--"),
        (below, scales.score, "surplus x agreement", PALETTE[2], "o", "-"),
        (below, scales.agreement, "agreement of seeds (right axis)", PALETTE[3], "^", ":"),
    )
    right = below.twinx()
    for ax, values, name, colour, mark, dash in drawn:
        ax = right if "right axis" in name else ax
        ax.plot(g, values, color=colour, marker=mark, markersize=5, linestyle=dash, label=name)
    shade = {"color": PALETTE[0], "alpha": 0.12, "linewidth": 0, "label": "surplus"}
    above.fill_between(g, scales.random, scales.modularity, **shade)
    said = f"chosen: {g[chosen]:.3g} ({number:,} {'community' if number == 1 else 'communities'})"
    for ax in (above, below):
        ax.axvline(g[chosen], color="#444444", lw=1.2, label=said if ax is above else None)
        ax.grid(alpha=0.25)
    above.set_xscale("log", base=2)
    below.set_xlabel("resolution (larger: more communities)")
    for ax in (above, below):
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    above.set_ylabel("modularity at that resolution")
    below.set_ylabel("surplus x agreement")
    right.set(ylabel="agreement (ARI)", ylim=(0, 1.05))
    counts = above.secondary_xaxis("top")
    shown = slice(None, None, -(-len(g) // 13))
    counts.set_xticks(g[shown], [f"{n:,}" for n in scales.number[shown].tolist()], fontsize=8)
    counts.minorticks_off()
    counts.set_xlabel("number of communities")
    above.legend(frameon=False, fontsize=9)
    lines = [each for ax in (below, right) for each in ax.get_legend_handles_labels()[0]]
    names = [line.get_label() for line in lines]
    below.legend(lines, names, fontsize=9, loc="lower center", framealpha=0.85, edgecolor="none")
    fig.suptitle("Scales of the graph beside those of random graphs")
    if path is not None:
        kind = Path(path).suffix.lstrip(".") or "png"
        atomic_write(Path(path), lambda file: fig.savefig(file, format=kind, dpi=_DPI))
    return fig


def _figure() -> Any:
    """A figure without a window, which notebooks show."""
    canvas = require("matplotlib.backends.backend_agg", "report", "a picture").FigureCanvasAgg
    made = require("matplotlib.figure", "report", "a picture").Figure

    class Shown(made):  # type: ignore[misc, valid-type]
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=_DPI)
            return file.getvalue()

    fig = Shown(figsize=(8, 6), layout="constrained")
    canvas(fig)
    return fig
