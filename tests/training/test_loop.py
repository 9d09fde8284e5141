"""The training loop against plain trainings: torch modules, torch.optim.Adam and stop rules written out in Python."""

import copy
import io
import math
import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from softcut.errors import FileFormatError, ParameterError
from softcut.training import Checkpoint, Loop, LoopSettings, Patience, Plateau, Task

REPLICAS, FEATURES, HIDDEN, BATCH = 4, 5, 6, 8


def module(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)).double()


def data(seed: int, noise: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + seed)
    x = torch.randn(40, FEATURES, generator=generator, dtype=torch.float64)
    y = x.sum(1, keepdim=True).sin() + noise * torch.randn(40, 1, generator=generator, dtype=torch.float64)
    return x, y


class Regressions(Task):
    """One regression per replica, with its own data and, if asked for, its own mini-batches."""

    presses = 0  # of Ctrl-C in the seventh step

    def __init__(self, seeds, minibatches: bool = False, validates: bool = False) -> None:
        self.validates = validates
        self.seeds = list(seeds)
        modules = [module(seed) for seed in seeds]
        self.model = modules[0]
        self.parameters, _ = torch.func.stack_module_state(modules)
        pairs = [data(seed) for seed in seeds]
        self.x, self.y = (torch.stack([pair[i] for pair in pairs]) for i in (0, 1))
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds] if minibatches else None
        self.active = torch.arange(len(self.seeds))
        self.widths: list[int] = []

    def select(self, active):
        self.active = active

    def rows(self) -> torch.Tensor:
        """[A, rows]: 30 rows to train on, or a random batch of them."""
        if self.generators is None:
            return torch.arange(30).expand(len(self.active), -1)
        picks = [torch.randint(0, 30, (BATCH,), generator=self.generators[r]) for r in self.active.tolist()]
        return torch.stack(picks)

    def errors(self, rows):
        x, y = (
            torch.take_along_dim(v[self.active], rows.unsqueeze(-1).expand(-1, -1, v.shape[-1]), 1)
            for v in (self.x, self.y)
        )
        model = torch.func.vmap(lambda p, x: torch.func.functional_call(self.model, p, (x,)))
        output = model(self.parameters, x)
        return output, (output - y).square().mean((1, 2))

    def step(self):
        self.widths.append(len(self.active))
        if len(self.widths) == 7:
            for _ in range(self.presses):
                os.kill(os.getpid(), signal.SIGINT)
        output, mse = self.errors(self.rows())
        size = self.parameters["0.weight"].square().sum((1, 2))
        return {"mse": mse, "size": size, "output": output}

    def warm_up(self):
        return self.parameters["0.weight"].square().mean((1, 2))

    def validate(self):
        output, mse = self.errors(torch.arange(30, 40).expand(len(self.active), -1))
        return {"loss": mse, "output": output}

    def state(self):
        return {"generators": [g.get_state() for g in self.generators or []]}

    def load_state(self, state):
        for generator, value in zip(self.generators or [], state["generators"], strict=True):
            generator.set_state(value)


def test_a_parameter_without_a_gradient_stays():
    class Once(Task):
        """The second parameter is read in the first step only."""

        def __init__(self) -> None:
            self.parameters = {name: torch.ones(1, 2).requires_grad_() for name in "ab"}
            self.steps = 0

        def step(self):
            self.steps += 1
            used = "ab" if self.steps == 1 else "a"
            return {"loss": sum(self.parameters[name].square().sum(1) for name in used)}

    task = Once()
    Loop(task, LoopSettings(iterations=5, lr=0.1, minimise={"loss": 1.0})).run()
    np.testing.assert_allclose(task.parameters["b"].detach(), 0.9, atol=1e-6)
    assert (task.parameters["a"] < 0.6).all()


def plain(
    seed,
    iterations,
    lr,
    *,
    weight=0.0,
    patience=None,
    tolerance=0.0,
    minibatches=False,
    every=None,
    decay=False,
):
    """One replica alone, as anybody would write it; `every`: stop on the validation loss of every so many steps."""
    model, (x, y) = module(seed), data(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    generator = torch.Generator().manual_seed(seed)
    out = {"mse": [], "size": [], "validation": [], "best": math.inf, "at": 0, "ran": iterations}
    since = 0
    for i in range(iterations):
        rows = torch.randint(0, 30, (BATCH,), generator=generator) if minibatches else torch.arange(30)
        output = model(x[rows])
        mse, size = (output - y[rows]).square().mean(), model[0].weight.square().sum()
        out["mse"].append(mse.item())
        out["size"].append(size.item())
        total = mse + weight * size
        before = copy.deepcopy(model.state_dict())
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        if decay:
            for group in optimiser.param_groups:
                group["lr"] = lr * 0.5 * (1 + math.cos(math.pi * (i + 1) / iterations))
        if patience is None:
            continue
        if every is None:
            watched, kept, state, at = total.item(), output, before, i
        elif (i + 1) % every == 0:
            with torch.no_grad():
                kept = model(x[30:])
                watched = float((kept - y[30:]).square().mean())
            out["validation"].append(watched)
            state, at = copy.deepcopy(model.state_dict()), i + 1
        else:
            continue
        if watched < out["best"] - tolerance:
            out |= {"best": watched, "at": at, "state": state, "output": kept.detach()}
            since = 0
        else:
            since += 1
        if since >= patience:
            out["ran"] = at
            break
    out["last"] = model.state_dict()
    return out


def run(task, iterations, lr=1e-2, minimise=None, *, callback=None, checkpoint=None, time_limit=None, **rest):
    settings = LoopSettings(iterations, lr, minimise or {"mse": 1.0}, **rest)
    return Loop(task, settings).run(callback, checkpoint, time_limit)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-9, rtol=0)


def close_parameters(task, replica, state):
    for name, value in task.parameters.items():
        close(value[replica].detach(), state[name])


@pytest.mark.parametrize("decay", [False, True])
@pytest.mark.parametrize("minibatches", [False, True])
def test_a_replica_follows_the_path_it_would_follow_alone(minibatches, decay):
    task = Regressions(range(REPLICAS), minibatches)
    result = run(task, 50, minimise={"mse": 1.0, "size": 0.01}, decay=decay)
    assert result.iterations == 50 and not (result.converged or result.interrupted or result.timed_out)
    for r in range(REPLICAS):
        alone = plain(r, 50, 1e-2, weight=0.01, minibatches=minibatches, decay=decay)
        close(result.history["mse"][:, r], alone["mse"])
        close(result.history["size"][:, r], alone["size"])
        close_parameters(task, r, alone["last"])


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("validates", "minibatches"),
    [(False, False), (True, False), (True, True)],
    ids=["step", "check", "batches"],
)
def test_patience_on_the_training_or_a_validation_loss(validates, minibatches, drop):
    """Against the plain loop: best values, when each replica stopped, its parameters and its history."""
    rule, every, options = Patience(3, watch="loss", keep=("output",)), 6, {"patience": 3, "every": 6}
    if not validates:
        rule, every = Patience(7, tolerance=2e-3, keep=("output", "mse")), 5
        options = {"weight": 0.05, "patience": 7, "tolerance": 2e-3}
    options["minibatches"] = minibatches
    minimise = {"mse": 1.0, "size": options.get("weight", 0.0)}
    task = Regressions(range(REPLICAS), minibatches, validates)
    result = run(task, 600, 2e-2, minimise, check_every=every, stop=rule, drop_finished=drop)
    assert result.converged
    alone = [plain(r, 600, 2e-2, **options) for r in range(REPLICAS)]
    assert len({a["ran"] for a in alone}) > 1, "the replicas should stop at different times"
    for r, a in enumerate(alone):
        close(result.best_loss[r], a["best"])
        assert (result.best_iteration[r], result.ran[r]) == (a["at"], a["ran"])
        close(result.best["output"][r], a["output"])
        close_parameters(task, r, a["state"])
        close(result.history["mse"][: a["ran"], r], a["mse"][: a["ran"]])
        if validates:
            checks = len(a["validation"])
            close(result.validation["loss"][:checks, r], a["validation"])
            assert result.validated_at[checks - 1] == a["ran"]
    assert np.isnan(result.history["mse"]).any() == drop
    assert task.active.tolist() == list(range(REPLICAS))
    assert (min(task.widths) < REPLICAS) == drop, "a dropped replica is not computed any more"


def test_plateau_ends_all_replicas_at_the_first_check_where_none_improved():
    result = run(Regressions(range(REPLICAS)), 2000, 2e-2, stop=Plateau(1e-3, patience=20), check_every=10)
    losses = np.stack([plain(r, result.iterations, 2e-2)["mse"] for r in range(REPLICAS)])

    def stops(t):
        return all(min(row[: t - 20]) - min(row[:t]) < 1e-3 for row in losses)

    first = next(t for t in range(30, 2001, 10) if stops(t))
    assert result.converged and result.iterations == first


def test_a_replica_that_diverges_leaves_the_others_alone():
    task = Regressions(range(REPLICAS))
    with torch.no_grad():
        task.parameters["0.weight"][1] = torch.nan
    rule = Patience(patience=10, tolerance=1e-3)
    result = run(task, 300, 2e-2, stop=rule, check_every=5, drop_finished=True)
    assert np.isinf(result.best_loss[1]) and result.ran[1] < 20
    for r in (0, 2, 3):
        close(result.best_loss[r], plain(r, 300, 2e-2, patience=10, tolerance=1e-3)["best"])


def test_warm_up_uses_the_same_optimiser_and_is_not_recorded():
    result = run(Regressions([3]), 5, warm_up=4)
    model, (x, y) = module(3), data(3)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for i in range(9):
        optimiser.zero_grad(set_to_none=False)
        mse = (model(x[:30]) - y[:30]).square().mean()
        (model[0].weight.square().mean() if i < 4 else mse).backward()
        if i < 4:
            for p in model.parameters():  # Adam's fused step counts each parameter from its first gradient
                p.grad = None if p is not model[0].weight else p.grad
        else:
            losses.append(float(mse.detach()))
        optimiser.step()
    close(result.history["mse"][:, 0], losses)


# ------------------------------------------------------------------------------------------- interrupted training


@pytest.mark.parametrize("kind", ["plateau", "validation"])
def test_stopping_after_every_iteration_and_resuming_changes_nothing(kind, tmp_path):
    options = {"minibatches": True, "validates": True}
    settings = {"iterations": 80, "lr": 3e-2, "check_every": 6, "drop_finished": True}
    settings["stop"] = Patience(patience=2, watch="loss", keep=("output",))
    if kind == "plateau":
        options, settings = {}, {"iterations": 30, "lr": 2e-2, "decay": True, "warm_up": 3, "check_every": 4}
        settings["stop"] = Plateau(0.0)
    whole = Regressions(range(REPLICAS), **options)
    expected = run(whole, **settings)
    checkpoint = Checkpoint(tmp_path / "a.pt", {"seeds": [0, 1, 2, 3]})
    for _ in range(200):
        task = Regressions(range(REPLICAS), **options)  # a new process would know nothing else
        result = run(task, **settings, checkpoint=checkpoint, time_limit=0.0)
        if not result.timed_out:
            break
    assert (result.iterations, result.converged) == (expected.iterations, expected.converged)
    for part in ("history", "validation"):
        for name, values in getattr(expected, part).items():
            np.testing.assert_array_equal(getattr(result, part)[name], values)
    for name in expected.best:
        assert torch.equal(result.best[name], expected.best[name])
    for name, value in whole.parameters.items():
        assert torch.equal(task.parameters[name], value)
    assert result.seconds > 0


class Making:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def saved_by_torch(content):
    buffer = io.BytesIO()
    torch.save({"described": "{}", "content": content}, buffer)
    return buffer.getvalue()


def test_a_checkpoint_is_written_by_the_clock_and_another_file_is_refused(tmp_path):
    path, seen = tmp_path / "a.pt", []
    for look, every in ((path.exists, 3600), (lambda: torch.load(path, weights_only=True)["done"], 0)):
        told, saved = (lambda _, look=look: seen.append(look())), Checkpoint(path, every=every)
        run(Regressions([0]), 20, check_every=5, callback=told, checkpoint=saved)
        assert torch.load(path, weights_only=True)["done"] == 20  # the end is saved, too
        path.unlink()
    assert seen == [False] * 4 + [4, 9, 14, 19]
    made = tmp_path / "made"
    for content in (b"oops", saved_by_torch(Making(made))):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="move it away"):
            run(Regressions([0]), 2, checkpoint=Checkpoint(path))
    assert not made.exists()  # nothing of a file is executed


@pytest.mark.parametrize("stop", [None, Patience(patience=2, watch="loss")], ids=["finished", "converged"])
def test_a_training_that_has_ended_is_not_trained_again(tmp_path, stop):
    def result(told):
        task = Regressions(range(REPLICAS), validates=True)
        saved = Checkpoint(tmp_path / "a.pt")
        return run(task, 600, 3e-2, check_every=6, stop=stop, callback=told.append, checkpoint=saved), task

    first, again = [], []
    (ended, task), (resumed, same) = result(first), result(again)
    assert len(first) > 1 and again == []
    assert resumed.iterations == ended.iterations
    assert resumed.converged == ended.converged == (stop is not None)
    np.testing.assert_array_equal(resumed.history["mse"], ended.history["mse"])
    for name, p in task.parameters.items():
        assert torch.equal(same.parameters[name], p)


@pytest.mark.parametrize(
    "change", [{"lr": 2e-2}, {"iterations": 21}, {"seeds": [1]}], ids=lambda c: next(iter(c))
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, change):
    def begin(iterations=20, lr=1e-2, seeds=(0,)):
        checkpoint = Checkpoint(tmp_path / "a.pt", {"seeds": list(seeds)})
        return run(Regressions(seeds), iterations, lr, checkpoint=checkpoint, time_limit=0.0)

    first = begin()
    assert first.iterations == 1 and first.timed_out and not (first.converged or first.interrupted)
    with pytest.raises(ParameterError, match=next(iter(change))):
        begin(**change)
    assert begin().iterations == 2


def test_ctrl_c_keeps_the_last_finished_iteration_and_a_second_one_leaves_at_once():
    task, hasty = Regressions([2]), Regressions([2])
    task.presses, hasty.presses = 1, 2
    result = run(task, 50)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert result.interrupted and result.iterations == 7
    alone = plain(2, 7, 1e-2)
    close(result.history["mse"][:, 0], alone["mse"])
    close_parameters(task, 0, alone["last"])
    with pytest.raises(KeyboardInterrupt):
        run(hasty, 50)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_callbacks_are_told_the_last_losses_of_the_active_replicas():
    told, rule = [], Patience(patience=2, watch="loss")
    task, rest = Regressions(range(REPLICAS), validates=True), {"check_every": 6, "drop_finished": True}
    result = run(task, 600, 3e-2, callback=told.append, stop=rule, **rest)
    assert [t.iteration for t in told] == list(range(6, result.iterations + 1, 6))
    for t in told:
        active = list(t.active)
        np.testing.assert_array_equal(t.losses["mse"], result.history["mse"][t.iteration - 1, active])
        since = result.history["mse"][t.iteration - 6 : t.iteration, active]
        np.testing.assert_allclose(t.means["mse"], since.mean(0), rtol=1e-12)
        validated = result.validation["loss"][t.iteration // 6 - 1, active]
        np.testing.assert_array_equal(t.validation["loss"], validated)
    assert len(told[-1].active) < REPLICAS
    np.testing.assert_array_equal(told[-1].best, result.best_loss)
