"""The training loop, its schedule, and a progress bar that leaves nothing behind."""

import io
import math
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from jupyter_client.manager import start_new_kernel
from torch import nn

from tinyattn import training
from tinyattn.training import Progress, learning_rate, seeded, train


def regression(seed=0):
    """A linear map with dropout, and the loss of reproducing 3 x_0 - x_1 from a drawn batch."""
    with seeded(seed):
        model = nn.Sequential(nn.Dropout(0.2), nn.Linear(2, 1))

    def loss(generator):
        x = torch.randn(16, 2, generator=generator)
        return (model(x)[:, 0] - (3 * x[:, 0] - x[:, 1])).square().mean()

    return model, loss


# ---------------------------------------------------------------------------------- the loop


def test_it_learns_what_least_squares_would():
    weight = nn.Parameter(torch.zeros(2))

    def loss(generator):
        x = torch.randn(32, 2, generator=generator)
        return (x @ weight - x @ torch.tensor([3.0, -1.0])).square().mean()

    losses = train([weight], loss, 300, lr=0.1, warmup=10)
    assert len(losses) == 300
    assert losses[-1] < 1e-6 < losses[0]
    torch.testing.assert_close(weight.detach(), torch.tensor([3.0, -1.0]), atol=1e-3, rtol=0)


def test_the_same_seed_trains_the_same_model():
    runs = []
    for seed in ({"seed": 0}, {}, {"seed": 1}):  # 0 if it is not given
        model, loss = regression()
        losses = train(model, loss, 20, lr=0.01, **seed)
        runs.append((losses, model[1].weight))
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])
    assert runs[0][0] != runs[2][0]


def test_what_learns_outside_the_gradient_is_called_after_each_step():
    weight, seen = nn.Parameter(torch.zeros(1)), []
    losses = train(
        [weight],
        lambda generator: (weight - 1).square().sum(),
        3,
        lr=0.1,
        warmup=1,
        weight_decay=0.0,
        after_step=lambda: seen.append(weight.item()),
    )
    assert len(seen) == len(losses) == 3
    assert 0 < seen[0] < seen[1] < seen[2] == weight.item()


def test_training_leaves_the_global_random_state_alone():
    state = torch.get_rng_state()
    model, loss = regression()
    train(model, loss, 5, lr=0.01)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_is_trained_in_training_mode():
    model, loss = regression()
    model.eval()
    train(model, loss, 1, lr=0.01)
    assert model.training


def test_steps_move_by_the_schedule_and_not_by_the_size_of_the_gradient():
    """Adam's first step is as long as the learning rate, whatever the loss is multiplied by."""
    for size in (1e-3, 1.0, 1e6):
        x = nn.Parameter(torch.tensor([5.0]))
        train([x], lambda _, x=x, size=size: size * x.sum(), 1, lr=0.1, warmup=2)
        assert x.item() == pytest.approx(5.0 - 0.05, rel=1e-4)


def test_long_gradients_are_shortened(monkeypatch):
    norms = []
    clip = nn.utils.clip_grad_norm_

    def spy(parameters, max_norm):
        before = clip(parameters, max_norm)
        norms.append(parameters[0].grad.norm().item())
        return before

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", spy)
    some, standard = {"max_norm": 0.5}, {}
    for slope, option, expected in ((0.1, some, 0.1), (40.0, some, 0.5), (40.0, standard, 1.0)):
        x = nn.Parameter(torch.tensor([1.0]))
        train([x], lambda _, x=x, slope=slope: slope * x.sum(), 1, lr=0.1, **option)
        assert norms[-1] == pytest.approx(expected, rel=1e-4)


def test_only_matrices_decay():
    matrix, vector = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    train(
        [matrix, vector],
        lambda _: 0 * (matrix.sum() + vector.sum()),
        10,
        lr=0.1,
        warmup=0,
        weight_decay=0.5,
    )
    assert matrix.max() < 0.9
    assert torch.equal(vector.detach(), torch.ones(2))


def test_the_rate_rises_falls_and_never_starts_at_zero():
    rates = [learning_rate(step, 500, 2.0, warmup=50) for step in range(500)]
    assert rates[0] == 2.0 / 50
    assert max(rates) == rates[49] == 2.0
    assert all(a < b for a, b in pairwise(rates[:50]))
    assert all(a > b for a, b in pairwise(rates[50:]))
    assert 0 < rates[-1] < 0.001
    assert learning_rate(0, 10, 1.0, warmup=0) == 1.0
    assert learning_rate(3, 4, 1.0, warmup=100) == 0.04  # shorter than its own warm-up


def test_a_loss_that_is_no_number_stops_the_training_and_says_when():
    x = nn.Parameter(torch.tensor([1.0]))
    losses = iter([1.0, 1.0, math.nan])
    with pytest.raises(
        FloatingPointError, match="the loss must stay finite, got nan at step 2; a lower lr"
    ):
        train([x], lambda _: x.sum() * next(losses), 5, lr=0.1)


@pytest.mark.parametrize("at", [0, 2])
def test_a_gradient_that_is_no_number_leaves_the_model_as_it_was(at):
    x, steps = nn.Parameter(torch.tensor([4.0, 1.0])), iter(range(5))

    def loss(_: torch.Generator) -> torch.Tensor:
        hidden = torch.zeros(1) if next(steps) == at else torch.ones(1)
        return (x[0] * hidden).sqrt().sum() + x[1] ** 2  # the root is finite at 0, its slope is not

    seen = []
    with pytest.raises(FloatingPointError, match=f"gradient must stay finite, got .* at step {at}"):
        train([x], loss, at + 1, lr=0.1, after_step=lambda: seen.append(x.detach().clone()))
    assert len(seen) == at
    assert torch.equal(x, seen[-1] if seen else torch.tensor([4.0, 1.0]))


@pytest.mark.parametrize("wrong", [{"steps": 2.5}, {"steps": True}, {"warmup": 0.5}, {"seed": 0.5}])
@pytest.mark.usefixtures("refusals")
def test_steps_are_whole_numbers(wrong):
    arguments = {"steps": 1, "lr": 0.1} | wrong
    with pytest.raises(TypeError, match="must be a whole number"):
        train([nn.Parameter(torch.ones(1))], lambda _: torch.tensor(0.0), **arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"lr": 0.0},
        {"lr": math.nan},
        {"lr": math.inf},
        {"max_norm": -1.0},
        {"max_norm": math.nan},
    ],
)
def test_what_cannot_train_is_refused(wrong):
    arguments = {"steps": 1, "lr": 0.1} | wrong
    name, value = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=f"must be positive.*{name}={value}"):
        train([nn.Parameter(torch.ones(1))], lambda _: torch.tensor(0.0), **arguments)


@pytest.mark.parametrize(
    "wrong", [{"warmup": -5}, {"weight_decay": -0.1}, {"weight_decay": math.nan}]
)
def test_what_trains_backwards_is_refused(wrong):
    name, value = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=f"must be 0 or more.*{name}={value}"):
        train([nn.Parameter(torch.ones(1))], lambda _: torch.tensor(0.0), 1, lr=0.1, **wrong)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"step": -1}, ValueError),
        ({"step": 10}, ValueError),
        ({"steps": 0}, ValueError),
        ({"warmup": -5}, ValueError),
        ({"highest": 0.0}, ValueError),
        ({"highest": math.nan}, ValueError),
        ({"highest": math.inf}, ValueError),
        ({"step": 0.5}, TypeError),
        ({"steps": True}, TypeError),
        ({"warmup": 2.0}, TypeError),
    ],
)
@pytest.mark.usefixtures("refusals")
def test_a_rate_of_no_step_is_refused(wrong, error):
    arguments = {"step": 0, "steps": 10, "highest": 1.0, "warmup": 2} | wrong
    name, value = next(iter(wrong.items()))
    said = f"{name}={value}" if error is ValueError else f"{name} must be a whole number"
    with pytest.raises(error, match=said):
        learning_rate(**arguments)


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ValueError, match="a parameter that requires a gradient, got none"):
        train(nn.ReLU(), lambda _: torch.tensor(0.0), 1, lr=0.1)


# ------------------------------------------------------------------------------ the progress bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_in_a_terminal_the_bar_moves_and_is_erased(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(time, "monotonic", iter(range(10)).__next__)
    with Progress(4, "counting") as bar:
        for _ in range(4):
            bar.advance("so far")
    frames = sys.stderr.getvalue().split("\r\x1b[K")
    assert frames[1] == f"counting [{'#' * 7}{'.' * 23}] 1/4 so far"
    assert frames[4] == f"counting [{'#' * 30}] 4/4 so far"
    assert frames[-1] == ""  # the last thing written erases the line
    assert "\n" not in sys.stderr.getvalue()


def test_beside_the_bar_stands_the_loss_of_the_last_step(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(time, "monotonic", iter(range(10)).__next__)
    said = iter([4.0, 2.5, 1.25])
    x = nn.Parameter(torch.tensor([1.0]))
    train([x], lambda _: x.sum() * 0 + next(said), 3, lr=0.1, label="fitting")
    frames = sys.stderr.getvalue().split("\r\x1b[K")[1:4]
    assert [frame.split("] ")[1] for frame in frames] == [
        "1/3 loss 4.000", "2/3 loss 2.500", "3/3 loss 1.250",
    ]  # fmt: skip


def test_the_bar_is_erased_when_the_work_fails(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    losses = iter([1.0, math.nan])
    x = nn.Parameter(torch.tensor([1.0]))
    with pytest.raises(FloatingPointError):
        train([x], lambda _: x.sum() * next(losses), 5, lr=0.1)
    assert "training [######" in sys.stderr.getvalue()
    assert sys.stderr.getvalue().endswith("\r\x1b[K")


def test_a_busy_bar_is_drawn_ten_times_a_second(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    now = iter(step / 1000 for step in range(5000))  # 5000 steps in 5 seconds
    monkeypatch.setattr(time, "monotonic", now.__next__)
    with Progress(5000) as bar:
        for _ in range(5000):
            bar.advance()
    assert 45 <= sys.stderr.getvalue().count("[") - sys.stderr.getvalue().count("\x1b[") <= 51


@pytest.mark.parametrize(("stderr", "visible"), [(io.StringIO(), True), (Terminal(), False)])
def test_a_pipe_gets_nothing_and_neither_does_who_asks_for_none(monkeypatch, stderr, visible):
    monkeypatch.setattr(sys, "stderr", stderr)
    with Progress(3, visible=visible) as bar:
        bar.advance()
    assert stderr.getvalue() == ""


TRAINING_CELL = """
import torch
from tinyattn.training import train
x = torch.nn.Parameter(torch.tensor([5.0]))
print("before")
losses = train([x], lambda generator: (x - 1).square().sum(), 50, lr=0.1, label="a < b")
"""


@pytest.fixture(scope="module")
def kernel():
    manager, client = start_new_kernel()
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def outputs(client, metadata):
    """What a notebook would receive while a cell that trains runs."""
    content = {"code": TRAINING_CELL, "silent": False, "store_history": True}
    request = client.session.msg("execute_request", content, metadata=metadata)
    client.shell_channel.send(request)
    found = []
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
            continue
        if message["content"].get("execution_state") == "idle":
            return found
        if message["msg_type"] not in ("status", "execute_input"):
            found.append((message["msg_type"], message["content"]))


def test_a_notebook_without_a_front_end_stores_nothing(kernel):
    """nbclient and nbval send no metadata: they receive what the cell prints and nothing else."""
    assert outputs(kernel, {}) == [("stream", {"name": "stdout", "text": "before\n"})]


def test_a_person_at_a_notebook_sees_the_bar_and_then_nothing(kernel):
    found = outputs(kernel, {"cellId": "a-cell"})
    kinds = [kind for kind, _ in found if kind != "stream"]
    assert kinds[0] == "display_data"
    assert set(kinds[1:]) == {"update_display_data"}
    first = next(content for kind, content in found if kind == "display_data")
    assert (
        '<progress value="1" max="50"></progress> a &lt; b 1/50 loss 16.000'
        in first["data"]["text/html"]
    )
    assert found[-1][1]["data"] == {}
    assert found[-1][1]["transient"] == first["transient"]  # the same element, emptied


def test_a_bar_is_for_the_cell_that_a_front_end_names(monkeypatch):
    request = {"metadata": {"cellId": "a-cell"}}
    shell = SimpleNamespace(kernel=object(), get_parent=lambda: request)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert isinstance(training._screen(), training._NotebookElement)
    request["metadata"] = {}
    assert training._screen() is None


def test_a_bar_in_a_notebook_is_one_element_that_changes(monkeypatch):
    calls = []
    handle = SimpleNamespace(update=lambda bundle, raw: calls.append((bundle, raw)))

    def display(bundle, raw, display_id):
        calls.append((bundle, raw))
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    element = training._NotebookElement()
    element.clear()  # nothing was drawn yet
    element.draw(1, 4, "a <b>", "loss 2")
    element.draw(2, 4, "a <b>", "loss 1")
    element.clear()
    assert [raw for _, raw in calls] == [True] * 3
    assert [bundle.get("text/html", "") for bundle, _ in calls] == [
        f'<label><progress value="{done}" max="4"></progress> a &lt;b&gt; {done}/4 {note}</label>'
        for done, note in ((1, "loss 2"), (2, "loss 1"))
    ] + [""]
