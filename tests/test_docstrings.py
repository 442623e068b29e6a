"""Every public name tells what it takes, gives and raises, and shows it: numpydoc, with examples that run as doctests.

What is public: the functions and classes in ``__all__`` of the modules in `MODULES`, and the members of those classes. The rule, by kind:

- A function, or a class that takes parameters, has a one-line summary; **Parameters**, each by name with a type and a description, which
  for an array tells its shape and its dtype (or refers: "As for ..."); **Returns** where something is returned; **Raises**, unless it is
  one of `CANNOT_FAIL`; **Examples**, two at least, each with what it gives.
- A class that takes none (an exception, a marker, an enumeration) has a sentence and one example.
- A method has the same without **Raises** (its class or the function that it calls states that), and one example: its own, or a line of its
  class's examples that calls it.
- A property, which is metadata in one line, has a sentence, and one example, likewise.

An inherited member is documented where it is defined.
"""

import doctest
import importlib
import inspect
import re
import types

import pytest

numpydoc_validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")

NEIGHBOURS = {
    "autograd": "autograd",
    "jax": "jax",
    "memmap": "numpy",
    "pydata": "sparse",
    "safetensors": "safetensors",
    "scipy": "scipy",
    "tensorflow": "numpy",
    "torch": "torch",
    "torch_distributed": "torch",
}
"""The files of `sparsetangent.interop`, and what must be installed to import them."""
MODULES = [
    "sparsetangent",
    "sparsetangent.registry",
    "sparsetangent.rules",
    "sparsetangent.steps",
    "sparsetangent.tree",
    "sparsetangent.interop",
    *(f"sparsetangent.interop.{name}" for name in NEIGHBOURS),
    *(f"sparsetangent.testing{name}" for name in ("", ".laws", ".operations", ".oracle", ".plugin", ".strategies")),
]
# What numpydoc's validator must not find: sections unknown, doubled or out of order; a summary that has no end or two lines; parameters or
# results without a name or a description.
CODES = ["GL03", "GL06", "GL07", "GL08", "PR01", "PR02", "PR07", "PR10", "RT01", "RT03", "SS01", "SS03", "SS06", "YD01"]
# numpydoc takes a parameter `cls` for a class method's, and an enumeration's metaclass for its signature.
EXCUSED = {"sparsetangent.register_tangent": "PR02", "sparsetangent.registry.Structure": "PR01"}
# Whatever they are given they take; if it is wrong, what they make fails when it is used.
CANNOT_FAIL = {
    "sparsetangent.register_kernels",
    "sparsetangent.registry.implements",
    *(f"sparsetangent.steps.{name}" for name in ("adagrad", "momentum", "rowwise_adagrad", "sgd")),
    "sparsetangent.interop.torch_distributed.Traffic",
    *(f"sparsetangent.testing.operations.{name}" for name in ("indexing_operations", "reductions", "shape_operations")),
    *(f"sparsetangent.testing.strategies.{name}" for name in ("dtypes_of", "fills", "one_hots", "tangents", "zeros")),
}
ARRAY = re.compile(r"\b(Array|Tangent|IndexedSlices|OneHot|Fill|Zero|Tensor)\b")
SHAPE = re.compile(r"shape|axes|axis|scalar|``\(", re.IGNORECASE)
REFERENCE = re.compile(r"As (for|in) ")
DTYPE = re.compile(r"dtype|integer|float|bool|real|complex|numeric|ids", re.IGNORECASE)


def documented():
    """Functions and classes by path, and the members of the classes, with the class whose docstring speaks of them."""
    tops, members = {}, {}
    for path in MODULES:
        parent, _, name = path.rpartition(".")
        if parent == "sparsetangent.interop" and importlib.util.find_spec(NEIGHBOURS[name]) is None:
            continue
        module = importlib.import_module(path)
        for name in module.__all__:
            thing = getattr(module, name)
            if thing not in tops.values() and (inspect.isfunction(thing) or inspect.isclass(thing)):
                tops[f"{path}.{name}"] = thing
    for path, thing in tops.items():
        for name in dir(thing) if inspect.isclass(thing) else ():
            speaking = speaking_class(thing, name)
            if speaking and (speaking, name) not in members.values():
                members[f"{path}.{name}"] = speaking, name
    return tops, members


def speaking_class(cls, name):
    """The class that documents a public method or property that a class of ours defines, if it is that."""
    owners = [c for c in cls.__mro__ if name in vars(c)]
    if name.startswith("_") or not owners[0].__module__.startswith("sparsetangent"):
        return None
    if not isinstance(vars(owners[0])[name], (property, classmethod, staticmethod, types.FunctionType)):
        return None
    return next((c for c in owners if vars(c)[name].__doc__), owners[0])


TOPS, MEMBERS = documented()


def complaints(path, thing):
    try:
        found = numpydoc_validate.validate(path)["errors"]
    except OSError:  # Hypothesis makes its composites without a source
        named = {name for names, _, _ in sections(thing)["Parameters"] for name in names.split(", ")}
        return [f"{name} is not named" for name in inspect.signature(thing).parameters if name not in named]
    return [f"{code}: {text}" for code, text in found if code in CODES and code != EXCUSED.get(path)]


def sections(thing):
    return numpydoc_validate.get_doc_object(thing)


def examples(text):
    return doctest.DocTestParser().get_examples(text or "")


@pytest.mark.parametrize("path", TOPS)
def test_functions_and_classes(path):
    thing = TOPS[path]
    problems = complaints(path, thing)
    doc = sections(thing)
    takes = doc["Parameters"]
    if takes and path not in CANNOT_FAIL and not doc["Raises"]:
        problems.append("no Raises")
    shown = sum(bool(e.want or e.exc_msg) for e in examples(thing.__doc__))
    if shown < (wanted := 2 if takes or inspect.isfunction(thing) else 1):
        problems.append(f"{shown} examples with what they give, not {wanted}")
    for name, kind, text in takes:
        if REFERENCE.match(" ".join(text)):
            continue
        text = " ".join([kind, *text])
        if not kind:
            problems.append(f"{name} has no type")
        if ARRAY.search(kind) and not SHAPE.search(text):
            problems.append(f"the shape of {name} is not told")
        if re.search(r"\bArray\b", kind) and not DTYPE.search(text):
            problems.append(f"the dtype of {name} is not told")
    assert not problems, f"{path}: " + "; ".join(problems)


@pytest.mark.parametrize("path", MEMBERS)
def test_members(path):
    cls, name = MEMBERS[path]
    member = vars(cls)[name]
    text = inspect.cleandoc(member.__doc__ or "")
    problems = [] if isinstance(member, property) else complaints(f"{cls.__module__}.{cls.__qualname__}.{name}", member)
    if not re.match(r"[^\n]+\.(\n|$)", text):
        problems.append("no sentence")
    lines = [e.source for source in (text, *(c.__doc__ for c in cls.__mro__)) for e in examples(source)]
    if not any(re.search(rf"\.{name}\b", line) for line in lines):
        problems.append("no example")
    assert not problems, f"{path}: " + "; ".join(problems)
