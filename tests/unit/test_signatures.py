"""Names in signatures, which an editor completes, are the names that are known."""

import inspect
from typing import get_args

import pytest

import mercer
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.approximations import APPROXIMATIONS, ApproximationName
from mercer.engine.resolve import NAMES, EngineName
from mercer.estimators import parameters
from mercer.kernels.names import KERNELS, KernelName
from mercer.preimage import PREIMAGES, PreimageName
from mercer.pyod import KernelPCADetector as PyodDetector
from mercer.solvers import SOLVERS, SolverName

TABLES = {
    "kernels": (KernelName, KERNELS),
    "solvers": (SolverName, ["auto", *SOLVERS]),
    "approximations": (ApproximationName, APPROXIMATIONS),
    "preimages": (PreimageName, PREIMAGES),
    "engines": (EngineName, NAMES),
}
ESTIMATORS = (KernelPCA, PCA, IncrementalKernelPCA, KernelPCADetector, PyodDetector)
TYPES = {
    "kernel": ("KernelLike", KernelName),
    "solver": ("SolverLike", SolverName),
    "approximation": ("ApproximationLike", ApproximationName),
    "preimage": ("PreimageLike", PreimageName),
    "engine": ("EngineLike", EngineName),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_names_of_a_type_are_those_of_its_table(name):
    literal, table = TABLES[name]
    assert sorted(get_args(literal)) == sorted(table)


@pytest.mark.parametrize("name", TYPES)
def test_the_type_of_a_parameter_has_the_names(name):
    alias, literal = TYPES[name]
    flat = {value for part in get_args(getattr(parameters, alias)) for value in get_args(part)}
    assert set(get_args(literal)) <= flat
    assert str in get_args(getattr(parameters, alias))  # texts such as "rbf(gamma=2)" too


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{e.__module__}.{e.__name__}")
def test_every_estimator_has_them_in_its_signature(estimator):
    found = {p.name: p.annotation for p in inspect.signature(estimator).parameters.values()}
    assert found.keys() & TYPES.keys()
    for name in found.keys() & TYPES.keys():
        assert found[name] == TYPES[name][0], name


def test_every_name_is_taken():
    for name in get_args(KernelName):
        assert mercer.kernels.as_kernel(name) is not None
    for name in get_args(PreimageName):
        assert KernelPCA(preimage=name).get_params()["preimage"] == name
