"""Laws of model files: what was saved is what is loaded, to the last bit, for every kind of model."""

import warnings
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.gaussian_process import kernels as gp
from sklearn.model_selection import KFold

import mercer
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.approximations import APPROXIMATIONS, Nystrom, RandomFourier, RPCholesky
from mercer.data.sources import as_source
from mercer.kernels import RBF, Custom, GaussianProcess, Kernel, Linear, Polynomial
from mercer.kernels.map_base import FeatureMap
from mercer.operators.sections import OnEngine
from mercer.persistence.encode import FORGOTTEN
from mercer.persistence.model_file import read_header, save
from mercer.persistence.schema import ESTIMATORS, PARAMETERS, STORED, check_for
from mercer.persistence.scikit_learn import STORED as FOREIGN
from mercer.preimage import PREIMAGES, Ridge
from mercer.solvers import SOLVERS, BlockKrylov

pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")

RNG = np.random.default_rng(3)
X = RNG.standard_normal((50, 3)) * [2.0, 1.0, 0.5]
NEW = RNG.standard_normal((7, 3))
SQUARE = RBF(0.2)(X)
SPARSE = sparse.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
NEW_SPARSE = sparse.csr_array(np.where(np.abs(NEW) > 0.7, NEW, 0.0))
WEIGHTS = np.arange(50) % 4

KERNELS = {
    name: kernel
    for name, kernel in {**VALID, **HISTOGRAM, **INDEFINITE}.items()
    if not isinstance(kernel, Custom) and name != "minus-rbf"  # which has no positive eigenvalue
}


def fitted(new=NEW, rows=X, weights=None, **knobs):
    knobs = {"kernel": RBF(0.2), **knobs}
    return lambda: (KernelPCA(3, **knobs).fit(rows, sample_weight=weights), new)


def a_stream(new=NEW, rows=X, **knobs):
    def made():
        model = IncrementalKernelPCA(2, max_landmarks=15, **knobs)
        for batch in (rows[:20], rows[20:45]):
            model.partial_fit(batch)
        return model, new

    return made


def a_drop_in(new=NEW, rows=X, **knobs):
    return lambda: (mercer.sklearn.KernelPCA(3, **knobs).fit(rows), new)


MODELS = {
    "lapack": fitted(),
    "krylov": fitted(solver=BlockKrylov(tol=1e-8)),
    "all components": lambda: (KernelPCA(None, kernel=RBF(0.2)).fit(X), NEW),
    "primal": fitted(kernel=Polynomial(2) + 0.5 * Linear()),
    "float32": fitted(NEW.astype(np.float32), X.astype(np.float32)),
    "fortran": fitted(NEW, np.asfortranarray(X)),
    "sparse": fitted(NEW_SPARSE, SPARSE),
    "sparse primal": fitted(NEW_SPARSE, SPARSE, kernel="linear"),
    "weights": fitted(weights=WEIGHTS),
    "precomputed": fitted(RBF(0.2)(NEW, X), SQUARE, kernel="precomputed"),
    "precomputed, weights": fitted(RBF(0.2)(NEW, X), SQUARE, WEIGHTS, kernel="precomputed"),
    "rpcholesky": fitted(approximation=RPCholesky(rank=20)),
    "refined": fitted(approximation=RPCholesky(rank=20, refine=2)),
    "nystrom": fitted(approximation=Nystrom(X[:12])),
    "fourier": fitted(approximation=RandomFourier(30)),
    "pca": lambda: (PCA(2).fit(X, sample_weight=WEIGHTS), NEW),
    "pca, wide and sparse": lambda: (PCA(1).fit(SPARSE.T), NEW_SPARSE[:3] @ SPARSE.T),
    "stream": a_stream(kernel=RBF(0.2)),
    "stream, sparse": a_stream(NEW_SPARSE, SPARSE, kernel=RBF(0.2)),
    "stream, forgetting": a_stream(kernel=RBF(0.2), forgetting=0.99, preimage="gradient"),
    "stream, fitted": lambda: (IncrementalKernelPCA(2, max_landmarks=9).fit(X), NEW),
    "detector": lambda: (KernelPCADetector(kernel=RBF(0.1)).fit(X), NEW),
    "detector of pca": lambda: (
        KernelPCADetector(model=PCA(2), folds=KFold(3, shuffle=True, random_state=0)).fit(X),
        NEW,
    ),
    "drop-in": a_drop_in(kernel="rbf", fit_inverse_transform=True),
    "drop-in, precomputed": a_drop_in(RBF(0.2)(NEW, X), SQUARE, kernel="precomputed"),
    "drop-in, scikit-learn's kernel": a_drop_in(kernel="poly", gamma=0.1, degree=0.5, coef0=9.0),
    "ridge of other rows": fitted(
        RBF(0.2)(NEW, X), SQUARE, kernel="precomputed", preimage=Ridge(rows=X)
    ),
    **{
        f"preimage {name}": fitted(kernel="linear" if name == "exact" else "rbf", preimage=name)
        for name in PREIMAGES
    },
}
QUESTIONS = (
    "transform",
    "reconstruction_error",
    "predict",
    "score_samples",
    "statistics",
    "contributions",
    "monitor",
)


@pytest.fixture(params=sorted(MODELS), scope="module")
def market(request):
    return MODELS[request.param]()


def answers(model, new):
    """All that a model can be asked about new rows, as arrays."""
    precomputed = str(getattr(model, "kernel", None)) == "precomputed"
    for question in QUESTIONS:
        if not hasattr(model, question) or (question == "reconstruction_error" and precomputed):
            continue
        found = getattr(model, question)(new)
        found = found.table if question == "monitor" else found
        if hasattr(found, "to_pandas"):
            for name in found.columns:
                yield f"{question}, {name}", found[name]
        else:
            yield question, found
    if getattr(model, "preimage", None) is not None or hasattr(model, "dual_coef_"):
        yield "inverse_transform", model.inverse_transform(model.transform(new))


def assert_same(model, again, new):
    told = dict(answers(again, new))
    assert told
    for question, answer in answers(model, new):
        assert np.array_equal(told[question], answer), question
        assert told[question].dtype == answer.dtype


# ── identity ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("mmap", [False, True])
def test_a_loaded_model_answers_to_the_last_bit(market, mmap, tmp_path):
    model, new = market
    save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer", mmap=mmap)
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    assert_same(model, again, new)


def test_what_is_loaded_saves_to_the_same_bytes(market, tmp_path):
    model, _ = market
    save(model, tmp_path / "a.mercer")
    save(mercer.load(tmp_path / "a.mercer"), tmp_path / "b.mercer")
    assert (tmp_path / "a.mercer").read_bytes() == (tmp_path / "b.mercer").read_bytes()


def test_the_evidence_is_kept(market, tmp_path):
    model, _ = market
    save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    for inner, twin in (
        (model, again),
        (getattr(model, "model_", None), getattr(again, "model_", None)),
    ):
        if hasattr(inner, "fit_"):
            assert str(twin.fit_) == str(inner.fit_)
            assert np.array_equal(twin.fit_.bounds, inner.fit_.bounds)
            assert list(map(str, twin.fit_.warnings())) == list(map(str, inner.fit_.warnings()))
            assert np.array_equal(twin.residuals_, inner.residuals_)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_every_kernel_of_the_market_is_kept(name, tmp_path):
    rows, new = (np.abs(X), np.abs(NEW)) if name in HISTOGRAM else (X, NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelPCA(2, kernel=KERNELS[name]).fit(rows)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert repr(again.kernel_) == repr(model.kernel_)
    assert np.array_equal(again.transform(new), model.transform(new))


def test_gaussian_process_kernels_of_all_sorts_are_kept(tmp_path):
    kernel = (
        gp.RBF([1.0, 2.0, 3.0], "fixed") * gp.ConstantKernel(2.0, (0.1, 3.0))
        + gp.Matern(1.3, nu=0.7) ** 2.0
        + gp.RationalQuadratic() * gp.DotProduct(0.5)
        + gp.PairwiseKernel(gamma=0.3, metric="rbf")
        + gp.ExpSineSquared(2.0, 9.0)
        + gp.WhiteKernel(0.1)
    )
    model = KernelPCA(2, kernel=GaussianProcess(kernel)).fit(X)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.kernel_.kernel == kernel
    assert np.array_equal(again.transform(NEW), model.transform(NEW))


# ── a stream goes on ────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", ["stream", "stream, sparse", "stream, forgetting"])
def test_a_loaded_stream_goes_on_as_the_saved_one(name, tmp_path):
    model, new = MODELS[name]()
    save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer", mmap=True)
    for batch in (new[:3], new[3:]):
        model.partial_fit(batch)
        again.partial_fit(batch)
    assert again.n_samples_seen_ == model.n_samples_seen_
    assert_same(model, again, new)


@pytest.mark.parametrize(
    "bits", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64]
)
def test_random_numbers_go_on_where_they_stood(bits, tmp_path):
    rng = np.random.Generator(bits(7))
    model = KernelPCA(2, random_state=rng, approximation=RPCholesky(rank=9)).fit(X)
    rng.integers(5, dtype=np.uint32)  # leaves half a word behind
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert np.array_equal(again.random_state.standard_normal(9), rng.standard_normal(9))
    assert np.array_equal(again.random_state.integers(9, size=9), rng.integers(9, size=9))


def test_an_old_random_state_goes_on(tmp_path):
    state = np.random.RandomState(5)
    state.standard_normal()  # one of a pair is left
    model = KernelPCA(2, random_state=state).fit(X)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer").random_state
    assert np.array_equal(again.standard_normal(5), state.standard_normal(5))


# ── rows in a file ──────────────────────────────────────────────────────────
def test_rows_that_are_still_in_a_file_are_copied_a_slice_at_a_time(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    source = as_source(tmp_path / "x.npy")
    model = KernelPCA(3, kernel=RBF(0.2)).fit(X)
    sections = replace(model.fit_.projection.sections, points=source)
    model.fit_ = replace(model.fit_, projection=replace(model.fit_.projection, sections=sections))
    heights, blocks = [], type(source).blocks
    monkeypatch.setattr("mercer._core.container.CHUNK_BYTES", 10 * 24)
    monkeypatch.setattr("mercer.persistence.invariants.BLOCK", 10 * 3)
    monkeypatch.setattr("mercer.model.checkpoint.BLOCK_BYTES", 10 * 24)
    monkeypatch.setattr(type(source), "blocks", lambda s, h: (heights.append(h), blocks(s, h))[1])
    monkeypatch.setattr(type(source), "__getitem__", _small(type(source).__getitem__))
    save(model, tmp_path / "m.mercer")
    assert len(heights) == 3  # a look whether the kernel takes them, the digest, and the file
    monkeypatch.undo()
    expected = model.transform(NEW)
    (tmp_path / "x.npy").unlink()
    # Points in a file are met by NumPy, those in memory by compiled tiles.
    found = mercer.load(tmp_path / "m.mercer").transform(NEW)
    np.testing.assert_allclose(found, expected, atol=1e-13 * np.abs(expected).max())


def _small(read):
    def checked(source, key):
        assert isinstance(key, slice)
        assert len(range(*key.indices(source.shape[0]))) <= 10
        return read(source, key)

    return checked


def test_a_model_of_a_path_and_one_of_the_array_have_the_same_digest(tmp_path):
    np.save(tmp_path / "x.npy", X)
    model = KernelPCA(2, kernel=RBF(0.2), approximation=RPCholesky(rank=9)).fit(X)
    model.save(tmp_path / "a.mercer", data=X)
    model.save(tmp_path / "b.mercer", data=tmp_path / "x.npy")
    a, b = (read_header(tmp_path / f"{name}.mercer")["data"] for name in "ab")
    assert a == b
    assert a["digest_of"] == "data"
    KernelPCA(2, kernel=RBF(0.2)).fit(X).save(tmp_path / "c.mercer")
    assert read_header(tmp_path / "c.mercer")["data"]["digest"] == a["digest"]
    model.save(tmp_path / "d.mercer", data=X[::-1])
    assert read_header(tmp_path / "d.mercer")["data"]["digest"] != a["digest"]


# ── what is around a model ──────────────────────────────────────────────────
def test_names_outputs_and_requests_survive(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "β", "c,\n"])
    model = KernelPCA(2).fit(frame).set_output(transform="pandas")
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight="w")
        model.save(tmp_path / "m.mercer")
        again = mercer.load(tmp_path / "m.mercer")
        assert (
            again.get_metadata_routing()._serialize() == model.get_metadata_routing()._serialize()
        )
    pd.testing.assert_frame_equal(again.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame[["β", "a", "c,\n"]])
    assert read_header(tmp_path / "m.mercer")["features"] == ["a", "β", "c,\n"]


def test_what_was_one_array_is_one_array(tmp_path):
    model = KernelPCA(3, preimage="gradient").fit(X)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.preimage_.space.projection.coef is again.fit_.projection.coef
    assert again.preimage_.space.projection.sections is again.fit_.projection.sections
    entries = read_header(tmp_path / "m.mercer")["arrays"].values()
    assert len({entry["sha256"] for entry in entries}) == len(entries)


def test_a_mapped_model_reads_the_file_and_changes_nothing(tmp_path):
    model = KernelPCA(3, kernel=RBF(0.2)).fit(X)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer", mmap=True)
    points = again.fit_.projection.sections.points
    assert type(points) is np.ndarray
    assert not points.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        points[0, 0] = 1.0
    again.save(tmp_path / "m.mercer")  # over the file that it is mapped from
    assert np.array_equal(again.transform(NEW), model.transform(NEW))
    assert_same(model, mercer.load(tmp_path / "m.mercer"), NEW)


def test_prepared_models_are_kept_with_their_scaling(tmp_path):
    from mercer.preprocessing.preparation import Preparation

    center, spread = X.mean(axis=0), X.std(axis=0)
    names = ("a", "b", "c")
    preparation = Preparation(
        names, fills=center, center=center, spread=spread, id="id", label=None
    )
    model = mercer.Prepared(preparation, KernelPCA(2, preimage="ridge").fit((X - center) / spread))
    save(model, tmp_path / "m.mercer", about={"command": "fit", "nan": float("nan")})
    again = mercer.load(tmp_path / "m.mercer")
    assert np.array_equal(again.transform(NEW), model.transform(NEW))
    assert np.array_equal(again.reconstruct(NEW), model.reconstruct(NEW))
    assert (again.preparation.id, again.preparation.numbers) == ("id", names)
    header = read_header(tmp_path / "m.mercer")
    assert (header["kind"], header["prepared"], header["features"]) == (
        "KernelPCA",
        True,
        list(names),
    )
    assert header["about"] == {"command": "fit", "nan": None}


# ── the list of types is the code's ─────────────────────────────────────────
def subclasses(kind):
    for sub in kind.__subclasses__():
        yield sub
        yield from subclasses(sub)


TYPES = STORED | FOREIGN


def test_no_field_of_a_known_type_is_forgotten():
    for name, known in TYPES.items():
        if known.making == "value" and is_dataclass(known.kind):
            names = {field.name for field in fields(known.kind)}
            if issubclass(known.kind, OnEngine):  # where it is computed is not a part of a model
                names.remove("engine")
            assert names == set(known.fields), name


def test_nothing_that_an_estimator_learns_is_forgotten(market):
    """A fitted model has nothing but its parameters and what its classes annotate, and all of that."""
    model, _ = market
    known = next(known for known in TYPES.values() if known.kind is type(model))
    learned = set(vars(model)) - set(model.get_params(deep=False)) - set(FORGOTTEN)
    assert known.required <= learned <= set(known.fields)


def test_every_annotation_can_be_checked():
    """A name in an annotation that no table knows is a KeyError here."""
    told = [a for known in TYPES.values() for a in known.fields.values()]
    for annotation in [*told, *PARAMETERS.values()]:
        assert check_for(annotation)(object(), {}) == (annotation == "Any")


def test_every_part_of_a_model_has_a_name_in_the_file():
    known = {entry.kind for entry in TYPES.values()}
    parts = [*SOLVERS.values(), *APPROXIMATIONS.values(), *PREIMAGES.values()]
    made = [kind for base in (Kernel, FeatureMap) for kind in subclasses(base)]
    ours = [k for k in made if k.__module__.startswith("mercer.") and not k.__subclasses__()]
    assert {kind for kind in [*parts, *ours] if kind not in known} == set()
    assert {PCA, KernelPCA, IncrementalKernelPCA, KernelPCADetector} == set(ESTIMATORS)
