"""Segment a photo.

The photo is divided into small regions of one colour; regions that touch are the edges of a graph, the heavier the more
alike they are; the graph is clustered into six segments. The picture shows their borders and mean colours. Give a file
of your own, or one of scikit-image's photos is taken.

    python examples/photo.py [PHOTO [SEGMENTS]]
"""

import sys

from PIL import Image
from skimage import data

import softcut as sc

photo = sys.argv[1] if len(sys.argv) > 1 else data.astronaut()
k = int(sys.argv[2]) if len(sys.argv) > 2 else 6

result = sc.segment_image(photo, k)
height, width = result.labels.shape
print(f"{width} x {height} pixels, {len(result.region_labels)} regions, {result.n_segments} segments")
for segment in range(result.n_segments):
    print(f"segment {segment}: {(result.labels == segment).mean():.0%} of the photo")

Image.fromarray(result.overlay()).save("photo-segments.png")
