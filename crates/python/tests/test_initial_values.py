"""What a module of PyTorch sets, and what it draws: initial values of parameters, and constants."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import trainyard.torch as ty
from trainyard.torch.adapter import Adapter

SETTINGS = {
    "run": {"intra_op_parallelism_threads": 0},
    "model": {"head": "binary", "loss_reduction": "sum_over_batch_size"},
}


class Net(ty.Module):
    """A layer over a number, with what a test adds to it."""

    def __init__(self, add: Callable[[Net], None]) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(1, 64)
        self.out = torch.nn.Linear(64, 1)
        add(self)

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        """Returns a logit for each row."""
        return self.out(torch.relu(self.hidden(batch["price"])))


def rules(add: Callable[[Net], None]) -> dict[str, Any]:
    """Returns the rules of the parameters of a module."""
    adapter = Adapter(lambda params: Net(add), None, json.dumps(SETTINGS))
    return {each.name: json.loads(each.initializer) for each in adapter.parameters(({"price": (0, 1)}, []), 1)}


def test_a_constant_that_the_module_sets_is_kept() -> None:
    def add(net: Net) -> None:
        torch.nn.init.constant_(net.out.bias, -3.0)
        torch.nn.init.zeros_(net.out.weight)

    found = rules(add)
    assert found["out/bias"] == {"kind": "constant", "value": -3.0}
    assert found["out/weight"] == {"kind": "constant", "value": 0.0}
    assert found["hidden/weight"] == {"kind": "uniform", "low": -1.0, "high": 1.0}


def test_a_drawn_parameter_of_one_number_is_no_constant() -> None:
    class One(ty.Module):
        def __init__(self, params: Any) -> None:
            super().__init__()
            self.scale = torch.nn.Linear(1, 1, bias=False)

        def forward(self, batch: ty.Batch) -> torch.Tensor:
            return self.scale(batch["price"])

    adapter = Adapter(One, None, json.dumps(SETTINGS))
    (scale,) = adapter.parameters(({"price": (0, 1)}, []), 1)
    assert json.loads(scale.initializer) == {"kind": "uniform", "low": -1.0, "high": 1.0}


def _set(net: Net) -> None:
    net.out.load_state_dict({"weight": torch.arange(64.0).view(1, 64), "bias": torch.zeros(1)})


def _pretrained(net: Net) -> None:
    net.days = torch.nn.Embedding.from_pretrained(torch.arange(14.0).view(7, 2), freeze=False)


def _padded(net: Net) -> None:
    net.days = torch.nn.Embedding(7, 4, padding_idx=2)


def _narrow(net: Net) -> None:
    torch.nn.init.normal_(net.out.weight, std=0.01)


def _buffer(net: Net) -> None:
    net.register_buffer("projection", torch.randn(1, 16))


def _attribute(net: Net) -> None:
    net.hidden.mask = torch.rand(16)


def _array(net: Net) -> None:
    net.projection = np.random.default_rng().normal(size=4)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (_set, "sets the values of the parameter `out.weight`.*Module.initializer"),
        (_pretrained, "sets the values of the parameter `days.weight`"),
        (_padded, "sets the row 2 of the parameter `days.weight` .as padding_idx does"),
        (_narrow, "draws the parameter `out.weight` with the deviation 0.01.*0.0722"),
        (_buffer, "`projection` is drawn anew in each process.*torch.nn.Parameter.*Generator"),
        (_attribute, "`hidden.mask` is drawn anew"),
        (_array, "`projection` is drawn anew"),
    ],
)
def test_values_that_the_servers_would_not_have_are_refused_with_a_remedy(add: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rules(add)


def test_a_rule_of_the_author_is_taken_whatever_the_module_sets() -> None:
    class Ruled(Net):
        def initializer(self, name: str, shape: tuple[int, ...]) -> Any:
            return {"kind": "truncated_normal", "stddev": 0.01} if name == "out.weight" else None

    adapter = Adapter(lambda params: Ruled(_narrow), None, json.dumps(SETTINGS))
    found = {each.name: json.loads(each.initializer) for each in adapter.parameters(({"price": (0, 1)}, []), 1)}
    assert found["out/weight"] == {"kind": "truncated_normal", "stddev": 0.01}


def test_constants_of_a_seed_of_their_own_are_kept() -> None:
    def add(net: Net) -> None:
        net.register_buffer("projection", torch.randn(1, 16, generator=torch.Generator().manual_seed(7)))
        net.register_buffer("steps", torch.arange(4))

    assert set(rules(add)) == {"hidden/weight", "hidden/bias", "out/weight", "out/bias"}


def test_a_module_that_seeds_pytorch_has_the_rules_of_one_that_does_not() -> None:
    def build(params: Any) -> Net:
        torch.manual_seed(5)
        return Net(lambda net: net.register_buffer("projection", torch.randn(1, 16)))

    adapter = Adapter(build, None, json.dumps(SETTINGS))
    found = {each.name: json.loads(each.initializer) for each in adapter.parameters(({"price": (0, 1)}, []), 1)}
    assert found == rules(lambda net: None)


def test_building_leaves_the_generator_of_the_program_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    rules(lambda net: None)
    assert torch.equal(torch.rand(3), expected)


def test_numbers_of_other_generators_are_the_same_in_each_process() -> None:
    def drawn() -> list[float]:
        numbers: list[float] = []

        def add(net: Net) -> None:
            # Each process builds the module from where its generators stand.
            net.scale = random.random()
            net.order = list(np.random.permutation(100))
            numbers.extend([net.scale, *net.order])

        Adapter(lambda params: Net(add), None, json.dumps(SETTINGS))
        return numbers

    first = drawn()
    random.seed()
    np.random.seed()
    assert drawn() == first
    before, of_numpy = random.getstate(), np.random.get_state()[1].tolist()
    drawn()
    assert random.getstate() == before and np.random.get_state()[1].tolist() == of_numpy


class Cooling(Net):
    """A module whose temperature falls."""

    def __init__(self, set_temperature: Callable[[Net], None]) -> None:
        super().__init__(set_temperature)

    def forward(self, batch: ty.Batch) -> torch.Tensor:
        """Returns logits, and replaces a constant."""
        if self.training:
            self.temperature = self.temperature * 0.9
        return super().forward(batch) / self.temperature


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda net: net.register_buffer("temperature", torch.ones(1)), "changed the buffer `temperature`.*is_moving_average"),
        (lambda net: setattr(net, "temperature", torch.ones(1)), "changed the tensor `temperature`.*register it as a buffer"),
    ],
)
def test_a_constant_that_a_step_replaces_is_refused(add: Any, message: str) -> None:
    adapter = Adapter(lambda params: Cooling(add), None, json.dumps(SETTINGS))
    described = adapter.parameters(({"price": (0, 1)}, []), 1)
    values = [np.ones(int(np.prod(each.shape)), dtype=np.float32) for each in described]
    adapter.forward((2, np.zeros(2, dtype=np.float32), [], []), values)
    with pytest.raises(ValueError, match=message):
        adapter.backward(np.ones(2, dtype=np.float32))
