"""GPU kernels for the sparse product and the cut loss, in Triton, behind the same calls as everything else.

Nothing here is needed: where Triton or a GPU is absent, or a product is small, PyTorch's own operations are used.

    dispatch.py   which product goes to a kernel; `use` forces one or the other
    plan.py       how rows are shared out to programs; tile sizes, or measured ones (benchmarks/gpu_tuning.py)
    product.py    A S, the two sums of the cut loss with it, and their gradient; S'Y and S M per graph or replica
    programs.py   the Triton programs
"""

from softcut.ops.kernels.dispatch import takes, use

__all__ = ["takes", "use"]
