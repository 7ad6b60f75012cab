"""Modules: names of nested inputs and outputs, export."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.nets import NETS
from twinnet.errors import UsageError
from twinnet.network import TorchNetwork, input_placeholders, load_network, output_nodes
from twinnet.network.tree import name_inputs


def named(module, args, kwargs=None):
    names, leaves, _ = name_inputs(module, args, kwargs or {})
    return {n: leaf for n, leaf in zip(names, leaves, strict=True) if isinstance(leaf, torch.Tensor)}


@pytest.mark.parametrize("name", NETS)
def test_names_agree_between_eager_export_and_file(name, tmp_path):
    module, args, kwargs = NETS[name]()
    net = load_network((module, (args, kwargs)), name=name)
    inputs = named(module, args, kwargs)
    outputs = net.call(inputs)
    program = net.exported(inputs)
    assert program is not None, net.failure
    assert list(input_placeholders(program)) == list(inputs)
    assert list(output_nodes(program)) == list(outputs)
    after = net.call(inputs)  # exporting must leave the module as it was
    assert all(torch.equal(after[key], value) for key, value in outputs.items())
    nodes = {node.name for node in program.graph.nodes}
    assert set(input_placeholders(program).values()) | set(output_nodes(program).values()) <= nodes

    torch.export.save(program, tmp_path / "net.pt2")
    loaded = load_network(tmp_path / "net.pt2")
    assert loaded.signature.inputs == net.signature.inputs
    assert [o.name for o in loaded.signature.outputs] == list(outputs)
    assert loaded.parameters == net.parameters == sum(p.numel() for p in module.parameters())
    again = loaded.call(inputs)
    for key, value in outputs.items():
        torch.testing.assert_close(again[key], value, rtol=1e-4, atol=1e-5)


def test_unflatten_gives_back_the_same_call():
    module, args, kwargs = NETS["dict_io"]()
    net = load_network((module, (args, kwargs)))
    got_args, got_kwargs = net.unflatten(named(module, args, kwargs))
    assert list(got_kwargs) == ["temperature", "bias"]
    assert got_args[0]["image"] is args[0]["image"]
    direct = module(*args, **kwargs)["logits"]
    assert torch.equal(net.call(named(module, args, kwargs))["logits"], direct)


def test_plain_numbers_of_the_example_stay():
    module, args, _ = NETS["many_inputs"]()
    net = load_network((module, args))
    assert [s.name for s in net.signature.inputs] == ["tokens", "mask", "dense", "pair.0", "pair.1"]
    assert net.unflatten(named(module, args))[0][3] == 0.5


class Rest(torch.nn.Module):
    def forward(self, first, *rest, scale=1.0, **more):
        return first + sum(rest) * scale + sum(more.values())


def test_variable_arguments_are_named_and_put_back():
    ones = torch.ones(2)
    net = load_network((Rest(), ((ones, ones * 2, ones * 3), {"late": ones * 4})))
    assert [s.name for s in net.signature.inputs] == ["first", "rest_0", "rest_1", "late"]
    inputs = {s.name: torch.full((2,), float(10**i)) for i, s in enumerate(net.signature.inputs)}
    assert net.call(inputs)["output"].tolist() == [1111.0, 1111.0]


@dataclass
class Batch:
    image: torch.Tensor
    extra: torch.Tensor | None = None


class TakesDataclass(torch.nn.Module):
    def forward(self, batch: Batch) -> Batch:
        return Batch(batch.image * 2, batch.image + 1)


def test_dataclasses_that_torch_does_not_know_yet_are_taken_apart():
    net = load_network((TakesDataclass(), (Batch(torch.ones(1, 2)),)))
    assert [s.name for s in net.signature.inputs] == ["batch.image"]
    inputs = {"batch.image": np.full((1, 2), 3, "float32")}
    assert {k: v.tolist() for k, v in net.call(inputs).items()} == {"image": [[6, 6]], "extra": [[4, 4]]}
    program = net.exported(inputs)
    assert program is not None, net.failure
    assert list(output_nodes(program)) == ["image", "extra"]


class Recorder(torch.nn.Module):
    def forward(self, x):
        x.add_(1)
        return x, [x * 2, {"deep": x * 3}], 5, None


def test_outputs_are_named_by_path_and_the_callers_sample_is_not_changed():
    sample = np.zeros((1,), "float32")
    net = TorchNetwork(Recorder(), example=torch.zeros(1))
    outputs = net.call({"x": sample})
    assert {k: v.tolist() for k, v in outputs.items()} == {
        "output_0": [1.0],
        "output_1.0": [2.0],
        "output_1.1.deep": [3.0],
        "output_2": 5,
    }
    assert sample.tolist() == [0.0]


class Branches(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum().item() > 0 else x - 1


def test_a_failing_export_is_kept_as_text_and_eager_still_runs():
    net = TorchNetwork(Branches(), example=torch.ones(2))
    assert net.exported({"x": torch.ones(2)}) is None
    assert net.failure is not None
    assert "data-dependent" in net.failure.log.lower() or "guard" in net.failure.log.lower()
    assert net.call({"x": torch.ones(2)})["output"].tolist() == [2.0, 2.0]


def test_exports_are_cached_by_shape_and_dtype():
    net = TorchNetwork(torch.nn.ReLU(), example=torch.ones(2))
    a = net.exported({"input": np.ones(2, "float32")})
    assert net.exported({"input": torch.zeros(2)}) is a
    assert net.exported({"input": torch.zeros(3)}) is not a


def test_training_mode_is_left_and_remembered():
    module = torch.nn.Dropout(0.5).train()
    net = load_network(module)
    assert net.was_training and not module.training
    assert not load_network(torch.nn.ReLU().eval()).was_training


def test_without_an_example_names_come_from_forward():
    class Two(torch.nn.Module):
        def forward(self, x, mask=None, flag: bool = True):
            return x if mask is None else x * mask

    net = load_network(Two().double())
    assert [(s.name, s.shape, s.optional) for s in net.signature.inputs] == [
        ("x", None, False),
        ("mask", None, True),
    ]
    assert net.call({"x": torch.ones(1)})["output"].tolist() == [1.0]
    with pytest.raises(UsageError, match="no input 'flag'"):
        net.call({"flag": torch.ones(1)})
    assert load_network(Two(), shape={"x": (1, 2)}).signature.inputs[0].shape == (1, 2)


def test_another_shape_than_the_example_may_be_stated():
    net = load_network((torch.nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8)), shape={"input": (1, 3, 16, 20)})
    assert net.signature.inputs[0].shape == (1, 3, 16, 20)


def test_lazy_modules_get_their_weights_from_the_example():
    assert load_network((torch.nn.LazyLinear(3), torch.ones(1, 5))).parameters == 18
    with pytest.raises(UsageError, match="lazy layers"):
        load_network(torch.nn.LazyLinear(3))


def test_weights_without_data_are_refused():
    with torch.device("meta"), pytest.raises(UsageError, match="meta device"):
        load_network(torch.nn.Linear(2, 2))


def test_bfloat16_goes_in_and_out():
    import ml_dtypes

    net = load_network((torch.nn.Linear(2, 2).bfloat16(), torch.ones(1, 2, dtype=torch.bfloat16)))
    assert net.signature.inputs[0].dtype == "bfloat16"
    assert net.call({"input": np.ones((1, 2), ml_dtypes.bfloat16)})["output"].dtype == torch.bfloat16


def test_an_example_that_does_not_fit_forward_is_told():
    with pytest.raises(UsageError, match=r"do not fit ReLU\.forward"):
        load_network((torch.nn.ReLU(), (torch.ones(1), torch.ones(1))))


def test_embedding_tables_bound_their_indices():
    module, args, kwargs = NETS["transformer"]()
    assert load_network((module, (args, kwargs))).bounds() == {"tokens": (0, 49)}


def test_wrapped_modules_are_unwrapped():
    inner = torch.nn.Linear(2, 2)
    for wrapped in (torch.compile(inner), torch.nn.DataParallel(inner)):
        assert load_network(wrapped).module is inner


def test_a_sample_handed_over_in_python_becomes_the_example():
    module, args, kwargs = NETS["dict_io"]()
    plain = load_network(module)
    net = plain.with_example({"batch": args[0], **kwargs})
    assert [s.name for s in net.signature.inputs] == ["batch.image", "batch.text", "temperature", "bias"]
    assert net.with_example((1, 2)) is net

    class OneDict(torch.nn.Module):
        def forward(self, batch):
            return batch["x"]

    sample = {"x": np.ones((1, 2))}
    assert [str(s) for s in load_network(OneDict()).with_example(sample).signature.inputs] == [
        "batch.x: float32 ?x?"
    ]
