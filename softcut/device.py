"""Which device computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softcut.errors import ParameterError

if TYPE_CHECKING:
    import torch


def choose_device(name: str | torch.device) -> torch.device:
    """The device for a name; "auto" is a GPU where there is one.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    import torch  # here: `softcut --help` need not wait for it

    if not isinstance(name, str | torch.device):
        raise ParameterError(f"device must be 'auto', 'cpu', 'cuda' or a torch.device, got {name!r}.")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "meta" and the like make tensors, but compute nothing
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ParameterError(f"device {name!r} cannot be used here; try 'auto' or 'cpu'.") from error
    return device
