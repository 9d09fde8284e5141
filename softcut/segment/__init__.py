"""Images divided into segments by clustering the graph of their regions.

>>> import numpy as np
>>> from softcut.segment import segment_image
>>> image = np.zeros((30, 40), dtype=np.uint8)
>>> image[:, 20:] = 200
>>> segment_image(image, 2).n_segments
2
"""

from softcut.segment.images import as_rgb, read_image
from softcut.segment.methods import METHODS, MincutSettings, cluster_regions, mincut_regions
from softcut.segment.region_graph import RegionGraph, over_segment, region_graph
from softcut.segment.scores import SegmentationScores, segmentation_scores
from softcut.segment.segmentation import Segmentation, segment_image

__all__ = [
    "METHODS",
    "MincutSettings",
    "RegionGraph",
    "Segmentation",
    "SegmentationScores",
    "as_rgb",
    "cluster_regions",
    "mincut_regions",
    "over_segment",
    "read_image",
    "region_graph",
    "segment_image",
    "segmentation_scores",
]
