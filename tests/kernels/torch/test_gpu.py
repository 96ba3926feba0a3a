"""CUDA tensors go to the CUDA backend and give the CPU's bits; without a GPU another executor replaces it."""

import contextlib

import pytest
import repops.torch as rt
import torch
from repops import torch_executor
from repops.backends import Backend

from . import networks


def on_torch(name, inputs, attrs, out=None):
    """Execute with the signature of repops.cuda.execute, on CPU tensors."""
    assert all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in inputs)
    arrays = [torch_executor.as_array(x, name) for x in inputs]
    results = [torch.from_numpy(array) for array in torch_executor.cpu.execute(name, arrays, attrs)]
    if out is None:
        return results
    for place, result in zip(out, results, strict=True):
        place.copy_(result)
    return list(out)


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(torch_executor, "on_gpu", lambda tensors: len(tensors) > 0)
    monkeypatch.setattr(torch_executor, "backend", lambda name: Backend(name, on_torch))
    monkeypatch.setattr(torch.cuda, "device", lambda _device: contextlib.nullcontext())


@pytest.mark.usefixtures("stand_in")
def test_views_of_inputs_are_written_where_other_inputs_are():
    def crosswise(o, x, y):
        return o.reshape(y, shape=x.shape), o.reshape(x, shape=x.shape)

    x, y = torch.arange(6.0), -torch.arange(6.0)
    got = torch_executor.apply(crosswise, x, y, out=[x, y])
    assert [value.tolist() for value in got] == [(-torch.arange(6.0)).tolist(), torch.arange(6.0).tolist()]


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_the_way_of_cuda_tensors(name, request):
    losses, network = networks.train(name, "repops")
    request.getfixturevalue("stand_in")
    again, stood_in = networks.train(name, "repops")
    assert again == losses
    assert networks.digest(stood_in) == networks.digest(network)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_training_on_a_gpu_has_the_bits_of_the_cpu(name):
    losses, network = networks.train(name, "repops")
    again, elsewhere = networks.train(name, "repops", "cuda")
    assert again == losses
    assert networks.digest(elsewhere) == networks.digest(network)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_operators_without_inputs_take_a_device():
    assert rt.arange(n=3, device=torch.device("cuda")).tolist() == [0, 1, 2]
    assert rt.full(shape=[2], dtype=torch.bool, bits=1, device=torch.device("cuda")).is_cuda
