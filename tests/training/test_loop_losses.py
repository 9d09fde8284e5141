"""What the loop minimises, and who looks after Ctrl-C while it does."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import torch

from softcut.errors import ParameterError
from softcut.training import Loop, LoopSettings, Task


class Two(Task):
    """Two replicas with two losses: the distances from 1 and from -1."""

    def __init__(self, shape: str = "right") -> None:
        self.parameters = {"p": torch.zeros(2, dtype=torch.float64, requires_grad=True)}
        self.shape = shape

    def step(self):
        up, down = (self.parameters["p"] - 1).square(), (self.parameters["p"] + 1).square()
        if self.shape == "number":
            return {"up": up.mean()}
        if self.shape == "one":
            return {"up": up.mean()[None]}
        return {"up": up, "down": down}


def end(minimise) -> torch.Tensor:
    task = Two()
    Loop(task, LoopSettings(40, 0.05, minimise)).run()
    return task.parameters["p"].detach()


def test_losses_count_by_their_weights():
    alone = end({"up": 1.0})
    assert (alone > 0.9).all()
    torch.testing.assert_close(end({"up": 1.0, "down": 0.0}), alone)
    torch.testing.assert_close(end({"up": 0.0, "down": 1.0}), -alone)
    torch.testing.assert_close(end({"up": 1.0, "down": 1.0}), torch.zeros(2, dtype=torch.float64))
    # 3 (p - 1)^2 + (p + 1)^2 is smallest at 1/2.
    task = Two()
    Loop(task, LoopSettings(400, 0.05, {"up": 3.0, "down": 1.0})).run()
    torch.testing.assert_close(
        task.parameters["p"].detach(), torch.full((2,), 0.5).double(), atol=1e-3, rtol=0
    )


@pytest.mark.parametrize(("shape", "said"), [("number", r"got \[\]"), ("one", r"got \[1\]")])
def test_a_loss_of_all_replicas_together_is_refused(shape, said):
    with pytest.raises(ParameterError, match=rf"must be \[2\], one per active replica, {said}"):
        Loop(Two(shape), LoopSettings(2, 0.05, {"up": 1.0})).run()


class Interrupted(Two):
    def step(self):
        os.kill(os.getpid(), signal.SIGINT)
        return super().step()


def test_a_handler_of_the_callers_is_left_alone():
    heard = []

    def own(number, frame):
        heard.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        result = Loop(Interrupted(), LoopSettings(3, 0.05, {"up": 1.0})).run()
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT] * 3
    assert not result.interrupted
    assert result.iterations == 3


def test_training_in_a_thread_has_nothing_to_do_with_ctrl_c():
    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = threading.Thread(
            target=lambda: done.append(Loop(Two(), LoopSettings(3, 0.05, {"up": 1.0})).run())
        )
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert done[0].iterations == 3
