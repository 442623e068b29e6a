"""Every function of the namespace has the standard's signature, and every rule takes what the signature says."""

import inspect

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import registry
from sparsetangent.protocols.signatures import signature_of

NAMES = sorted(set(registry.TABLE) - {"__array_namespace_info__"})


def the_rules(name):
    """The signatures of what is registered under a name, without the library that creation functions take first."""
    creates = registry.TABLE[name] is registry.Structure.CREATION
    for rule in registry._IMPLEMENTATIONS[name].values():
        signature = inspect.signature(rule)
        parameters = list(signature.parameters.values())[creates:]
        yield signature.replace(parameters=parameters)


@pytest.mark.parametrize("name", NAMES)
def test_rules_take_every_argument_of_the_standard(name):
    standard = signature_of(name).parameters.values()
    required = [object() for p in standard if p.kind is p.POSITIONAL_ONLY]
    both = [p.name for p in standard if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = {p.name: object() for p in standard if p.kind is p.KEYWORD_ONLY}
    if name in registry.names():
        for rule in the_rules(name):
            rule.bind(*required, **{n: object() for n in both}, **named)
            rule.bind(*required, *(object() for _ in both), **named)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_those_of_the_standard(name):
    standard = signature_of(name).parameters
    if name in registry.names():
        for rule in the_rules(name):
            for parameter in rule.parameters.values():
                if parameter.name in standard and standard[parameter.name].default is not inspect.Parameter.empty:
                    assert parameter.default == standard[parameter.name].default


def test_signatures_are_shown():
    nx = st.namespace(np)
    assert str(inspect.signature(nx.sum)) == "(x, /, *, axis=None, dtype=None, keepdims=False)"
    assert str(inspect.signature(nx.add)) == "(x1, x2, /)"
    assert str(inspect.signature(nx.linalg.qr)) == "(x, /, *, mode='reduced')"
    assert str(inspect.signature(nx.meshgrid)) == "(*arrays, indexing='xy')"
    assert signature_of("save") is None


def test_arguments_by_position_and_by_name():
    t = st.IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,))
    nx = st.namespace(np)
    assert nx.expand_dims(t, 0).shape == nx.expand_dims(t, axis=0).shape == (1, 3)
    cast = nx.astype(t, np.float32, copy=False, device="cpu")
    assert cast.dtype == np.float32
    assert cast.densify().tolist() == [0.0, 5.0, 0.0]
    assert nx.newaxis is None
