"""Made-up molecules for the tests of graph regression."""

import numpy as np

from softcut.datasets.qm9 import Molecules


def made_molecules(count: int = 130, seed: int = 0) -> Molecules:
    """Chains of 2 to 6 atoms with properties that depend on their atoms."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, count)
    atoms = rng.integers(0, 4, sizes.sum())
    first = np.concatenate([np.arange(size - 1) for size in sizes])
    share = np.add.reduceat(atoms, np.cumsum(sizes) - sizes) / sizes
    return Molecules(
        sizes=sizes,
        atoms=atoms,
        num_bonds=sizes - 1,
        bonds=np.stack([first, first + 1]),
        bond_type=rng.integers(1, 5, len(first)),
        targets=(share[:, None] * np.arange(1, 10) + 100).astype(np.float32),
        number=np.arange(count),
    )
