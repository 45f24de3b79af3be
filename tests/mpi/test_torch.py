"""Training with torch on every rank: the DDP hook, the optimizers, functions on tensors."""

from __future__ import annotations

import copy
import os

import pytest
from mpi4py import MPI

if MPI.COMM_WORLD.size not in (1, 2, 4):
    pytest.skip("training is tested on 1, 2 and 4 ranks", allow_module_level=True)
torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")  # the first DDP would load it; see gc in ../conftest.py

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import mpicomp  # noqa: E402
from mpicomp.torch import (  # noqa: E402
    DecentralizedOptimizer,
    DistributedOptimizer,
    HookState,
    allreduce,
    allreduce_,
    broadcast_optimizer_state,
    broadcast_parameters,
    ddp_hook,
    init_process_group,
    neighbor_allreduce,
)

WORLD = MPI.COMM_WORLD
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SUMS_ARE_EXACT = WORLD.size <= 2  # of two numbers there is only one order


@pytest.fixture(scope="module", autouse=True)
def group():
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # its 16-bit kernels end some virtual machines with an illegal instruction
    init_process_group(WORLD)
    yield
    dist.destroy_process_group()


def network(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 3)).to(dtype)


def batch(step=0, rank=None, dtype=torch.float32):
    """A rank's share of the data, another one in each step."""
    generator = torch.Generator().manual_seed(1000 * step + (WORLD.rank if rank is None else rank))
    x = torch.randn(8, 20, generator=generator, dtype=torch.float64)
    return x.to(dtype), x.sum(1).gt(0).long()


def loss_of(model, step=0, dtype=torch.float32):
    x, y = batch(step, dtype=dtype)
    return nn.functional.cross_entropy(model(x), y)


def parallel(comm, model=None, hook=True, codec=None, ddp=None, **settings):
    """(model, state): a DDP model whose gradients travel in several buckets,averaged by the hook or by torch itself."""
    wrapped = DistributedDataParallel(network() if model is None else model, bucket_cap_mb=0.003, **ddp or {})
    state = HookState(comm, codec, bucket_bytes=2500, **settings)
    if hook:
        wrapped.register_comm_hook(state, ddp_hook)
    return wrapped, state


def train(model, optimizer, steps, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()


def gradients(model):
    return [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]


def bits(tensors):
    """All tensors as bytes."""
    return b"".join(t.detach().contiguous().view(torch.uint8).numpy().tobytes() for t in tensors)


def assert_the_same_on_every_rank(tensors):
    everybody = WORLD.allgather(bits(tensors))
    assert all(each == everybody[0] for each in everybody)


def assert_close(ours, theirs, dtype=torch.float32):
    """Equal bits on two ranks; else what another order of the same sums can change."""
    for a, b in zip(ours, theirs):
        if SUMS_ARE_EXACT:
            assert torch.equal(a, b)
        else:
            scale = b.double().abs().max()
            assert (a - b).double().abs().max() <= 8 * WORLD.size * torch.finfo(dtype).eps * scale


def exact_mean(model, dtype, steps=(0,)):
    """The gradients' mean over all ranks, in float64, of gradients as each rank makes them."""
    total = None
    for rank in range(WORLD.size):
        single = copy.deepcopy(model)
        for step in steps:
            x, y = batch(step, rank, dtype)
            nn.functional.cross_entropy(single(x), y).backward()
        made = [p.grad.double() for p in single.parameters()]
        total = made if total is None else [a + b for a, b in zip(total, made)]
    return [t / WORLD.size for t in total]


# The hook


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_codec_raw_gives_the_gradients_of_ddp(comm, dtype):
    ours, _ = parallel(comm, network(dtype), codec="raw")
    theirs, _ = parallel(comm, network(dtype), hook=False)
    for step in range(3):  # DDP rebuilds its buckets after the first
        for model in (ours, theirs):
            model.zero_grad()
            loss_of(model, step, dtype).backward()
        assert_close(gradients(ours), gradients(theirs), dtype)
        assert_the_same_on_every_rank(gradients(ours))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("codec", ["raw", "natural"])
def test_gradients_of_every_type_are_averaged(comm, dtype, codec):
    model, _ = parallel(comm, network(dtype), codec=codec)
    expected = exact_mean(model.module, dtype)
    loss_of(model, dtype=dtype).backward()
    assert_the_same_on_every_rank(gradients(model))
    for got, wanted in zip(gradients(model), expected):
        if codec == "raw" or WORLD.size == 1:
            assert torch.allclose(
                got.double(), wanted, rtol=0, atol=float(2 * torch.finfo(dtype).eps * wanted.abs().max())
            )
        else:  # a value becomes a power of two next to it, twice
            assert (got.double() - wanted).norm() < 0.8 * wanted.norm()


def test_a_codec_that_cannot_carry_a_type_leaves_it_exact(comm):
    model, _ = parallel(comm, network(torch.float64), codec="natural:bits=8")
    expected = exact_mean(model.module, torch.float64)
    loss_of(model, dtype=torch.float64).backward()
    for got, wanted in zip(gradients(model), expected):
        assert torch.allclose(got, wanted, rtol=1e-12, atol=1e-15)


def test_parameters_stay_the_same_bits_for_100_steps_with_the_hook(comm):
    model, state = parallel(comm, codec="natural")
    train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), 100)
    assert_the_same_on_every_rank(model.parameters())
    assert len(state.buckets) > 1
    assert (state.bytes_sent > 0) == (WORLD.size > 1)


def test_no_sync_accumulates(comm):
    model, _ = parallel(comm, codec="raw")
    expected = exact_mean(model.module, torch.float32, steps=(0, 1, 2))
    for step in range(2):
        with model.no_sync():
            loss_of(model, step).backward()
    loss_of(model, 2).backward()
    for got, wanted in zip(gradients(model), expected):
        assert torch.allclose(got.double(), wanted, rtol=1e-5, atol=1e-6)


class Forked(nn.Module):
    """Each rank uses one half in even steps; nobody uses the third."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.halves = nn.ModuleList([nn.Linear(20, 3), nn.Linear(20, 3)])
        self.idle = nn.Linear(20, 3)
        self.common = nn.Linear(3, 3)

    def forward(self, x):
        return self.common(self.halves[WORLD.rank % 2](x))


def test_unused_parameters_are_found(comm):
    ours, _ = parallel(comm, Forked(), codec="raw", ddp={"find_unused_parameters": True})
    theirs, _ = parallel(comm, Forked(), hook=False, ddp={"find_unused_parameters": True})
    for step in range(3):
        for model in (ours, theirs):
            model.zero_grad()
            loss_of(model, step).backward()
        ours_made, theirs_made = gradients(ours), gradients(theirs)
        assert [g is None for g in ours_made] == [g is None for g in theirs_made]
        assert_close([g for g in ours_made if g is not None], [g for g in theirs_made if g is not None])


def test_weights_in_channels_last_order_are_averaged(comm):
    torch.manual_seed(0)
    base = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2)).to(
        memory_format=torch.channels_last
    )
    results = []
    for hook in (True, False):
        model, _ = parallel(comm, copy.deepcopy(base), hook=hook, codec="raw")
        torch.manual_seed(WORLD.rank)
        model(torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last)).square().sum().backward()
        results.append(gradients(model))
    assert_close(*results)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
@pytest.mark.parametrize("codec", ["raw", "natural", "natural:bits=8"])
def test_a_gradient_scaler_sees_what_overflowed_on_another_rank(comm, codec, bad):
    model, _ = parallel(comm, codec=codec)
    before = bits(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    loss = loss_of(model) * (bad if WORLD.rank == WORLD.size - 1 else 1.0)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0
    assert bits(model.parameters()) == before


def test_rules_choose_codecs_by_name(comm):
    base = network()
    rule = {"*.bias": "raw", "4.*": "fp16"}
    model, state = parallel(comm, base, codec=rule, named_parameters=base.named_parameters())
    train(model, torch.optim.SGD(model.parameters(), 0.1), 2)
    names = {id(p): name for name, p in base.named_parameters()}
    codecs = {names[id(p)]: str(bucket.settings.codec) for bucket in state.buckets for p in bucket.parameters}
    assert codecs == {
        "0.weight": "natural", "0.bias": "raw", "2.weight": "natural", "2.bias": "raw", "4.weight": "fp16", "4.bias": "raw"
    }  # fmt: skip


WAYS = [("natural", False), ({"*": "topk:ratio=0.1|natural"}, True), ({"*": "topk:ratio=0.1"}, "ef21")]
each_way = pytest.mark.parametrize("codec, feedback", WAYS, ids=["natural", "topk with feedback", "topk with ef21"])


@each_way
def test_a_resumed_ddp_training_makes_the_same_bits(comm, codec, feedback):
    def fresh():
        model, state = parallel(mpicomp.Comm(comm), codec=codec, feedback=feedback)
        return model, state, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    model, state, optimizer = fresh()
    train(model, optimizer, 5)
    saved = copy.deepcopy([part.state_dict() for part in (model, state, optimizer)])
    train(model, optimizer, 5, first=5)

    again = fresh()
    for part, was in zip(again, saved):
        part.load_state_dict(was)
    train(again[0], again[2], 5, first=5)
    assert bits(again[0].parameters()) == bits(model.parameters())


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("feedback", [True, "ef21"])
@pytest.mark.parametrize("wrap", ["hook", "optimizer"])
def test_feedback_sends_later_what_was_left_out(comm, wrap, feedback):
    """The same gradients again and again, of which each step sends a tenth: on average all of them arrive.

    DDP rebuilds its buckets after the first, and what was left out by then must find its gradient again.
    """
    steps, rule = 60, {"*": "topk:ratio=0.1"}
    model = network()
    expected = exact_mean(model, torch.float32)
    if wrap == "hook":
        model, _ = parallel(comm, model, codec=rule, feedback=feedback)
    else:
        optimizer = optimizer_of(model, comm, rule, feedback=feedback)
    total = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    for _ in range(steps):
        model.zero_grad()
        loss_of(model).backward()
        if wrap == "optimizer":
            optimizer.synchronize()
        assert_the_same_on_every_rank(gradients(model))
        for sum_, gradient in zip(total, gradients(model)):
            sum_ += gradient
    for sum_, wanted in zip(total, expected):
        assert (sum_ / steps - wanted).norm() < 0.35 * wanted.norm()  # without feedback about 0.7


@pytest.mark.parametrize("codec", [{"*": "topk:ratio=0.1"}, "natural"])
def test_with_feedback_what_is_not_finite_gets_through_once(comm, codec):
    model, _ = parallel(comm, codec=codec, feedback=True)
    for bad in (True, False):
        model.zero_grad()
        (loss_of(model) * (float("nan") if bad and WORLD.rank == 0 else 1)).backward()
        finite = [torch.isfinite(g).all() for g in gradients(model)]
        assert not any(finite) if bad else all(finite)


@pytest.mark.skipif(WORLD.size == 1, reason="nobody to disagree with")
def test_an_error_in_a_collective_reaches_every_training_loop(comm):
    model, _ = parallel(comm, codec="natural" if WORLD.rank else "raw")
    with pytest.raises(RuntimeError, match="disagree|different arguments|other arguments"):
        loss_of(model).backward()
    comm.Barrier()


@pytest.mark.skipif(WORLD.size == 1, reason="nobody to hear of it")
def test_an_error_on_one_rank_reaches_the_training_loops_of_all(comm):
    class Broken(mpicomp.codecs.FP16):
        def encode_into(self, x, wire, stream):
            if WORLD.rank == 1:
                raise ArithmeticError("broken on purpose")
            super().encode_into(x, wire, stream)

    model, _ = parallel(comm, codec=Broken())
    with pytest.raises((RuntimeError, ArithmeticError), match="broken on purpose"):  # torch makes one the other, or not
        loss_of(model).backward()
    comm.Barrier()


# The optimizer


def optimizer_of(model, comm, codec="natural", lr=0.1, **settings):
    inner = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    return DistributedOptimizer(inner, comm, codec, model.named_parameters(), bucket_bytes=2000, **settings)


def test_the_optimizer_with_codec_raw_averages_as_ddp_does(comm):
    ours, (theirs, _) = network(), parallel(comm, hook=False)
    optimizer = optimizer_of(ours, comm, "raw")
    for step in range(3):
        for model in (ours, theirs):
            model.zero_grad()
            loss_of(model, step).backward()
        optimizer.synchronize()
        assert_close(gradients(ours), gradients(theirs))


@pytest.mark.ranks(1, 2)  # with the hook: on 4 too
def test_parameters_stay_the_same_bits_for_100_steps_with_the_optimizer(comm):
    model = network(seed=WORLD.rank)
    broadcast_parameters(model.state_dict(), comm)
    optimizer = optimizer_of(model, comm)
    train(model, optimizer, 100)
    assert_the_same_on_every_rank(model.parameters())
    assert len(optimizer.buckets) > 1
    assert (optimizer.bytes_sent > 0) == (WORLD.size > 1)


def test_gradients_are_clipped_after_synchronize(comm):
    ours, (theirs, _) = network(), parallel(comm, hook=False)
    optimizer = optimizer_of(ours, comm, "raw")
    loss_of(theirs).backward()
    expected = nn.utils.clip_grad_norm_(theirs.parameters(), 0.01)
    loss_of(ours).backward()
    optimizer.synchronize()
    norm = nn.utils.clip_grad_norm_(ours.parameters(), 0.01)
    assert torch.allclose(norm, expected, rtol=1e-6)
    clipped = gradients(ours)
    optimizer.step()  # does not average again
    assert bits(gradients(ours)) == bits(clipped)
    assert float(norm) > 0.01


def test_the_optimizer_accumulates_within_no_sync(comm):
    model = network()
    expected = exact_mean(model, torch.float32, steps=(0, 1))
    optimizer = optimizer_of(model, comm, "raw")
    with optimizer.no_sync():
        loss_of(model, 0).backward()
    loss_of(model, 1).backward()
    optimizer.synchronize()
    for got, wanted in zip(gradients(model), expected):
        assert torch.allclose(got.double(), wanted, rtol=1e-5, atol=1e-6)


def test_backward_twice_without_a_step_is_refused(comm):
    model = network()
    optimizer = optimizer_of(model, comm)
    loss_of(model).backward()
    with pytest.raises(RuntimeError, match="no_sync"):
        loss_of(model).backward()
    optimizer.synchronize()  # what came out is worth nothing; the next step is sound
    train(model, optimizer, 1)
    assert_the_same_on_every_rank(model.parameters())


def test_a_gradient_that_a_rank_does_not_make_counts_as_zero(comm):
    model = Forked()
    optimizer = optimizer_of(model, comm, "raw")
    loss_of(model).backward()
    mine = gradients(model.halves[WORLD.rank % 2])[0]
    optimizer.synchronize()
    assert_the_same_on_every_rank(gradients(model))
    assert not model.idle.weight.grad.any()
    if WORLD.size == 2:
        assert torch.equal(model.halves[WORLD.rank].weight.grad, mine / 2)


def test_a_closure_is_evaluated_and_its_gradients_averaged(comm):
    ours, (theirs, _) = network(), parallel(comm, hook=False)
    optimizer = optimizer_of(ours, comm, "raw")

    def closure():
        optimizer.zero_grad()
        loss = loss_of(ours)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    loss_of(theirs).backward()
    assert loss.item() == loss_of(network()).item()
    assert_close(gradients(ours), gradients(theirs))


def test_schedulers_and_scalers_take_the_wrapped_optimizer(comm):
    model = network()
    optimizer = optimizer_of(model, comm, lr=0.4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for bad in (False, True):
        optimizer.zero_grad()
        before = bits(model.parameters())
        scaler.scale(loss_of(model) * (float("inf") if bad and WORLD.rank == 0 else 1)).backward()
        optimizer.synchronize()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        assert (bits(model.parameters()) == before) == bad
    assert scaler.get_scale() == 4.0
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
    assert_the_same_on_every_rank(model.parameters())


@pytest.mark.ranks(1, 2)
@each_way
def test_a_training_resumed_with_the_optimizer_makes_the_same_bits(comm, codec, feedback):
    def fresh():
        model = network()
        return model, optimizer_of(model, mpicomp.Comm(comm), codec, feedback=feedback)

    model, optimizer = fresh()
    train(model, optimizer, 5)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, 5, first=5)

    again, resumed = fresh()
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    train(again, resumed, 5, first=5)
    assert bits(again.parameters()) == bits(model.parameters())


def test_everybody_gets_the_roots_parameters_and_momenta(comm):
    model = network(seed=WORLD.rank)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    train(model, optimizer, 1)
    root = WORLD.size - 1
    broadcast_parameters(model.named_parameters(), comm, root)
    broadcast_optimizer_state(optimizer, comm, root)
    assert_the_same_on_every_rank(model.parameters())
    assert_the_same_on_every_rank([state["momentum_buffer"] for state in optimizer.state.values()])


def test_a_scaler_unscales_for_a_fused_inner_optimizer(comm):
    moved = []
    for fused in (False, True):
        model = network()
        optimizer = DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, fused=fused), comm, "raw")
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(loss_of(model)).backward()
        optimizer.synchronize()
        scaler.step(optimizer)
        moved.append([p.detach().clone() for p in model.parameters()])
    for a, b in zip(*moved):
        assert torch.allclose(a, b, rtol=1e-5)


def test_synchronize_averages_what_no_hook_saw(comm):
    model = network()
    optimizer = optimizer_of(model, comm, "raw")
    with optimizer.no_sync():
        loss_of(model).backward()
    optimizer.synchronize()
    assert_the_same_on_every_rank(gradients(model))
    optimizer.step()
    for p, made in zip(model.parameters(), torch.autograd.grad(loss_of(model, 1), list(model.parameters()))):
        p.grad = made
    optimizer.step()
    assert_the_same_on_every_rank(model.parameters())


def test_a_rank_without_a_batch_takes_part(comm):
    model = network()
    optimizer = optimizer_of(model, comm, "raw")
    if WORLD.rank or WORLD.size == 1:
        loss_of(model).backward()
    optimizer.step()
    assert_the_same_on_every_rank(model.parameters())
    train(model, optimizer, 1, first=1)
    assert_the_same_on_every_rank(model.parameters())


@pytest.mark.parametrize("way", ["freeze", "unfreeze", "add"])
def test_parameters_that_change_after_wrapping_are_noticed(comm, way):
    model = network()
    model[0].requires_grad_(way != "unfreeze")
    inner = torch.optim.SGD(model.parameters(), 0.1)
    ring = mpicomp.ring(comm)
    for optimizer in (DistributedOptimizer(inner, comm, "raw"), DecentralizedOptimizer(inner, ring, "d-psgd")):
        if way == "add":
            inner.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
        else:
            model[0].requires_grad_(way == "unfreeze")
        before = bits(model.parameters())
        WORLD.Barrier()
        with pytest.raises(RuntimeError, match="wrap the inner optimizer again"):
            loss_of(model).backward()
            optimizer.step()
        optimizer.remove_hooks()
        assert bits(model.parameters()) == before
        model[0].requires_grad_(way != "unfreeze")


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("in backward")


@pytest.mark.parametrize("everywhere", [True, False])
def test_after_an_error_within_backward_training_goes_on(comm, everywhere):
    model = network()
    optimizer = DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), comm, "raw", bucket_bytes=100)

    def failing():
        x, y = batch()
        for k, layer in enumerate(model):
            x = layer(Failing.apply(x) if k == 2 and (everywhere or WORLD.rank == 0) else x)
        return nn.functional.cross_entropy(x, y)

    with pytest.raises((ValueError, mpicomp.Error, RuntimeError), match="in backward|backward ended"):
        try:
            failing().backward()
            if WORLD.size == 1 and not everywhere:
                raise ValueError("in backward")
            optimizer.step()
        finally:
            optimizer.zero_grad()
    WORLD.Barrier()
    train(model, optimizer, 2)
    assert_the_same_on_every_rank(model.parameters())


def test_an_optimizer_that_is_gone_or_wrapped_again_leaves_backward_alone(comm):
    model = network()
    inner = torch.optim.SGD(model.parameters(), 0.1)
    optimizer = DistributedOptimizer(inner, comm, "raw")
    optimizer = DistributedOptimizer(inner, comm, "raw")
    train(model, optimizer, 3)
    assert_the_same_on_every_rank(model.parameters())
    sent = comm.stats.calls
    del optimizer
    train(model, inner, 2)
    assert comm.stats.calls == sent


def test_states_that_do_not_fit_change_nothing(comm):
    def fresh(lr, **settings):
        model = network()
        return DistributedOptimizer(torch.optim.SGD(model.parameters(), lr), comm, "natural", **settings)

    saved = fresh(0.1, bucket_bytes=100).state_dict()
    for optimizer, state, words in (
        (fresh(0.5), saved, "for 1 buckets"),
        (fresh(0.5), {"optimizer": saved["optimizer"]}, "expected"),
        (fresh(0.5), {**fresh(0.1).state_dict(), "buckets": [{"step": 0}]}, "with feedback"),
    ):
        calls = optimizer.comm._calls
        with pytest.raises(ValueError, match=words):
            optimizer.load_state_dict(state)
        assert optimizer.param_groups[0]["lr"] == 0.5 and optimizer.comm._calls == calls
    ring = mpicomp.ring(comm)
    one, other = (
        DecentralizedOptimizer(torch.optim.SGD(network().parameters(), lr), ring, method)
        for lr, method in ((0.1, "dcd"), (0.5, "power-gossip"))
    )
    with pytest.raises(ValueError, match="another method"):
        other.load_state_dict(one.state_dict())
    assert other.param_groups[0]["lr"] == 0.5


def test_a_hook_state_from_before_the_first_step_forgets_everything(comm):
    model, state = parallel(comm, codec="topk:ratio=0.1", feedback=True, algorithm="direct")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    begin, parameters = copy.deepcopy(state.state_dict()), copy.deepcopy(model.state_dict())
    results = []
    for _ in range(2):
        state.load_state_dict(begin)
        model.load_state_dict(parameters)
        train(model, optimizer, 3)
        results.append(bits(model.parameters()))
    assert results[0] == results[1]


def test_sparse_gradients_are_refused_on_every_rank(comm):
    layer = nn.Embedding(10, 4, sparse=True)
    optimizer = DistributedOptimizer(torch.optim.SGD(layer.parameters(), 0.1), comm, "raw")
    with pytest.raises(mpicomp.Error, match="sparse"):
        layer(torch.tensor([1])).sum().backward()
    optimizer.remove_hooks()
    WORLD.Barrier()
    model = DistributedDataParallel(nn.Embedding(10, 4, sparse=True))
    model.register_comm_hook(HookState(comm, "raw"), ddp_hook)
    with pytest.raises((RuntimeError, mpicomp.Error), match="sparse"):
        model(torch.tensor([1])).sum().backward()


def test_what_cannot_be_wrapped_copied_or_named_says_so(comm):
    model = network()
    with pytest.raises(TypeError, match="closure"):
        DistributedOptimizer(torch.optim.LBFGS(model.parameters()), comm)
    optimizer = optimizer_of(model, comm)
    with pytest.raises(TypeError, match="state_dict"):
        copy.deepcopy(optimizer)
    with pytest.raises(ValueError, match="named_parameters"):
        DistributedOptimizer(optimizer.optimizer, comm, {"*.bias": "raw"})
    with pytest.raises(ValueError, match="named_parameters"):
        HookState(comm, {"*.bias": "raw"})


def test_what_is_broadcast_must_be_the_same_on_every_rank(comm):
    model = network(seed=WORLD.rank)
    optimizer = optimizer_of(model, comm)
    with optimizer.no_sync():
        loss_of(model).backward()
    optimizer.optimizer.step()
    broadcast_optimizer_state(optimizer, comm)
    assert_the_same_on_every_rank([state["momentum_buffer"] for state in optimizer.state.values()])
    z = torch.full((3,), 1.0 - 1j * (1 + WORLD.rank)).conj()
    broadcast_parameters([z], comm)
    assert torch.equal(z, torch.full((3,), 1.0 + 1j))
    if WORLD.size == 1:
        return
    odd = WORLD.rank == 0
    for mine in (
        [torch.zeros(4)] * (1 + odd),
        [torch.zeros(4, dtype=torch.int32 if odd else torch.float32)],
        [torch.zeros(4 + odd)],
    ):
        WORLD.Barrier()
        with pytest.raises(mpicomp.DisagreementError, match="tensors"):
            broadcast_parameters(mine, comm)


@pytest.mark.skipif(WORLD.size == 1, reason="nobody to hear of it")
def test_an_error_in_the_optimizer_reaches_every_rank(comm):
    model = network()
    optimizer = optimizer_of(model, comm, "natural" if WORLD.rank else "fp16")
    with pytest.raises(mpicomp.Error, match="disagree|different arguments|other arguments"):
        loss_of(model).backward()
        optimizer.step()
    comm.Barrier()


# Neighbours


def decentralized(comm, method, model=None, seed=0, **settings):
    model = network(seed=seed) if model is None else model
    inner = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    return model, DecentralizedOptimizer(inner, mpicomp.ring(comm), method, **settings)


METHODS = [
    ("d-psgd", {}),
    ("power-gossip", {"rank": 2}),
    ("dcd", {"codec": "natural"}),
    ("ecd", {"codec": "raw"}),
    ("choco", {"codec": "natural", "gamma": 0.5}),
]
each_method = pytest.mark.parametrize("method, settings", METHODS)


@each_method
def test_a_decentralized_step_is_the_methods_own(comm, method, settings):
    model, optimizer = decentralized(comm, method, seed=WORLD.rank, **settings)
    reference = network(seed=WORLD.rank)
    inner = torch.optim.SGD(reference.parameters(), 0.1, momentum=0.9)
    theirs = [p.detach() for p in reference.parameters()]
    gossip = mpicomp.gossip.find(method)(mpicomp.ring(comm), theirs, **settings)
    for step in range(3):
        train(model, optimizer, 1, first=step)
        before = [p.clone() for p in theirs]
        train(reference, inner, 1, first=step)
        update = [p - b for p, b in zip(theirs, before)]
        for p, b in zip(theirs, before):
            p.copy_(b)
        gossip.step(theirs, update)
        assert bits(model.parameters()) == bits(theirs)
    assert optimizer.bytes_sent == gossip.bytes_sent


@each_method
def test_decentralized_training_learns_and_ranks_come_together(comm, method, settings):
    model, optimizer = decentralized(comm, method, **settings)
    with torch.no_grad():
        before = sum(loss_of(model, step).item() for step in range(10))
    train(model, optimizer, 60)
    local = bits(model.parameters())
    with optimizer.average_model():
        assert_the_same_on_every_rank(model.parameters())
        mean = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            after = sum(loss_of(model, step).item() for step in range(10))
    assert bits(model.parameters()) == local
    assert after < 0.5 * before
    away = sum((p - m).double().square().sum() for p, m in zip(model.parameters(), mean)) ** 0.5
    assert away < 0.2 * sum(m.double().square().sum() for m in mean) ** 0.5


@each_method
def test_a_resumed_decentralized_training_makes_the_same_bits(comm, method, settings):
    model, optimizer = decentralized(comm, method, **settings)
    train(model, optimizer, 4)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, 4, first=4)
    again, resumed = decentralized(comm, method, **settings)
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    train(again, resumed, 4, first=4)
    assert bits(again.parameters()) == bits(model.parameters())


@pytest.mark.parametrize("method", ["d-psgd", "choco"])
def test_a_scaler_that_finds_an_overflow_on_one_rank_skips_its_local_step_alone(comm, method):
    model = network()
    inner = torch.optim.SGD(model.parameters(), 0.1)
    optimizer = DecentralizedOptimizer(
        inner, mpicomp.ring(comm), method, **({"gamma": 0.3} if method == "choco" else {})
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for step in range(4):
        optimizer.zero_grad()
        bad = step == 1 and WORLD.rank == 0
        scaler.scale(loss_of(model, step) * (float("inf") if bad else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        assert all(torch.isfinite(p).all() for p in model.parameters())
    assert scaler.get_scale() == (32.0 if WORLD.rank == 0 else 64.0)
    assert optimizer.gossip.calls == 4
    if WORLD.size == 1:
        plain = network()
        reference = torch.optim.SGD(plain.parameters(), 0.1)
        for step in (0, 2, 3):
            reference.zero_grad()
            loss_of(plain, step).backward()
            reference.step()
        for a, b in zip(model.parameters(), plain.parameters()):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_an_average_that_fails_leaves_the_parameters_alone(comm):
    model = network(seed=WORLD.rank)
    optimizer = DecentralizedOptimizer(torch.optim.SGD(model.parameters(), 0.1), mpicomp.ring(comm), "d-psgd")
    before = bits(model.parameters())
    if WORLD.size > 1:
        with pytest.raises(mpicomp.Error), optimizer.average_model(nn.BatchNorm1d(3 + WORLD.rank)):
            pass
    assert bits(model.parameters()) == before


def test_a_model_with_channels_last_weights_and_running_means_is_averaged(comm):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten()).to(memory_format=torch.channels_last)
    model, optimizer = decentralized(comm, "power-gossip", model)
    torch.manual_seed(WORLD.rank)
    for _ in range(2):
        optimizer.step(lambda: model(torch.randn(5, 3, 6, 6)).square().sum().backward())
    with optimizer.average_model(model):
        assert_the_same_on_every_rank([*model.parameters(), model[1].running_mean])


# Functions


@pytest.mark.parametrize("dtype", DTYPES)
def test_allreduce_sums_and_averages_tensors(comm, dtype):
    x = torch.arange(6, dtype=dtype).reshape(2, 3) * (WORLD.rank + 1)
    total = sum(range(1, WORLD.size + 1))
    expected = torch.arange(6, dtype=dtype).reshape(2, 3) * total
    assert torch.equal(allreduce(x, codec="raw", comm=comm), expected)
    assert torch.equal(allreduce(x.T, codec="raw", comm=comm), expected.T)
    assert allreduce_(x, op="mean", codec="raw", comm=comm) is x
    assert torch.equal(x, expected / WORLD.size)


def test_the_gradient_of_an_allreduce_is_an_allreduce(comm):
    x = torch.ones(5, requires_grad=True)
    (allreduce(x, codec="raw", comm=comm) * (WORLD.rank + 1)).sum().backward()
    assert torch.equal(x.grad, torch.full((5,), float(sum(range(1, WORLD.size + 1)))))


def test_second_derivatives_go_through_an_allreduce_too(comm):
    """F = s^2 sum x_r^2, s = sum x_r; G = sum dF/dx_r. By hand on two ranks: dG/dx = 4 q + 8 s x + 6 s^2."""
    x = torch.tensor([2.0], requires_grad=True)
    total = allreduce(x, codec="raw", comm=comm)
    (first,) = torch.autograd.grad(((total * x) ** 2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    if WORLD.size == 2:
        assert second.item() == pytest.approx(192)


def test_the_average_with_the_neighbours_and_its_gradient(comm):
    ring = mpicomp.ring(comm, "raw")
    weights = torch.tensor(ring.mixing.matrix, dtype=torch.float32)
    x = torch.arange(4.0).mul(WORLD.rank + 1).requires_grad_()
    y = neighbor_allreduce(x, ring)
    everybody = torch.stack([torch.arange(4.0) * (rank + 1) for rank in range(WORLD.size)])
    assert torch.allclose(y, (weights @ everybody)[WORLD.rank])
    (y * everybody[WORLD.rank]).sum().backward()
    assert torch.allclose(x.grad, (weights @ everybody)[WORLD.rank])
    with pytest.raises(ValueError, match="detach"):
        neighbor_allreduce(x, ring, weights={WORLD.rank: 1.0})


@pytest.mark.skipif("MPICOMP_PROGRESS" in os.environ, reason="this is about the variable")
def test_training_works_without_the_progress_thread(comm, monkeypatch):
    monkeypatch.setenv("MPICOMP_PROGRESS", "0")
    model, _ = parallel(comm)
    train(model, torch.optim.SGD(model.parameters(), 0.1), 2)
    optimizer = optimizer_of(model.module, comm)
    train(model.module, optimizer, 2)
    optimizer.remove_hooks()
    assert_the_same_on_every_rank(model.parameters())
