"""Rows that are masked, that lie outside of their matrix, or that no query has fetched: at every door."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

import mercer
import mercer.sklearn as drop_in
from mercer.approximations import Nystrom
from mercer.diagnostics import importance, select, symptoms
from mercer.errors import InputError
from mercer.kernels import RBF, Polynomial
from mercer.preprocessing.preparation import Preparation

N, D = 40, 3
X = np.random.default_rng(0).standard_normal((N, D))
SPARSE = sparse.csr_array(X * (X > -0.5))
NAMES = ["a", "b", "c"]


def model(**params):
    return mercer.KernelPCA(2, kernel=RBF(0.5), **params)


def fitted(rows=X, **params):
    return model(**params).fit(rows)


# What takes rows, dense or sparse.
DOORS = {
    "fit": lambda x: model().fit(x),
    "fit_transform": lambda x: model().fit_transform(x),
    "transform": lambda x: fitted().transform(x),
    "reconstruction_error": lambda x: fitted().reconstruction_error(x),
    "PCA": lambda x: mercer.PCA(2).fit(x),
    "partial_fit": lambda x: mercer.IncrementalKernelPCA(2, kernel=RBF(0.5)).partial_fit(x),
    "next partial_fit": lambda x: (
        mercer.IncrementalKernelPCA(2, kernel=RBF(0.5)).fit(X).partial_fit(x)
    ),
    "detector": lambda x: mercer.KernelPCADetector(2).fit(X).predict(x),
    "batches": lambda x: model().fit(lambda: iter([x])),
    "kernel": RBF(0.5),
    "second rows of a kernel": lambda x: RBF(0.5)(X, x),
    "diag": RBF(0.5).diag,
    "feature map": Polynomial(2).feature_map(D),
    "check_kernel": lambda x: mercer.check_kernel(RBF(0.5), x),
    "select": lambda x: mercer.select(x, [RBF(0.5)], n_components=2, criterion="variance"),
    "symptoms": lambda x: symptoms(RBF(0.5), x),
    "landmarks": lambda x: model(approximation=Nystrom(landmarks=x)).fit(X),
    "drop-in fit": lambda x: drop_in.KernelPCA(2, kernel="rbf").fit(x),
    "drop-in transform": lambda x: drop_in.KernelPCA(2, kernel="rbf").fit(X).transform(x),
}
DENSE = {
    "detector fit": lambda x: mercer.KernelPCADetector(2).fit(x),
    "importance": lambda x: importance(fitted(), x),
    "prepared": lambda x: prepared().transform(x),
}


def prepared():
    preparation = Preparation(
        tuple(NAMES), fills=np.zeros(D), center=np.zeros(D), spread=np.ones(D)
    )
    return mercer.Prepared(preparation, fitted())


# ── masked ──────────────────────────────────────────────────────────────────
def masked():
    return np.ma.array(
        X, mask=np.zeros(X.shape, bool) | (np.arange(N)[:, None] == 7) & [0, 0, 1] > 0
    )


@pytest.mark.parametrize("door", [*DOORS, *DENSE])
def test_masked_values_are_refused_with_their_place(door):
    with pytest.raises(InputError, match=r"1 masked value, the first in row 7, column 2.*missing"):
        (DOORS | DENSE)[door](masked())


MASKED = {
    "integers": lambda: masked().astype(np.int64),
    "a list of rows": lambda: list(masked()),
    "a tuple of rows": lambda: tuple(masked()),
    "lists of numbers": lambda: [list(row) for row in masked()],
}


@pytest.mark.parametrize("kind", MASKED)
def test_masked_values_are_refused_in_whatever_form(kind):
    with pytest.raises(InputError, match=r"masked values?, the first in row 7, column 2"):
        model().fit(MASKED[kind]())


def test_masked_values_over_a_memory_map_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", X)
    rows = np.ma.array(np.load(tmp_path / "x.npy", mmap_mode="r"), mask=masked().mask)
    with pytest.raises(InputError, match=r"1 masked value"):
        model().fit(rows)


def test_a_frame_of_masked_values_has_gaps():
    with pytest.raises(InputError, match="NaN, first in row 7"):
        model().fit(pd.DataFrame(masked(), columns=NAMES))


@pytest.mark.parametrize("door", [*DOORS, *DENSE])
def test_a_mask_over_nothing_is_no_harm(door):
    (DOORS | DENSE)[door](np.ma.array(X, mask=False))


def test_a_mask_over_nothing_changes_no_number():
    plain, unmasked = fitted(X), fitted(np.ma.array(X, mask=np.zeros_like(X, dtype=bool)))
    np.testing.assert_array_equal(plain.eigenvalues_, unmasked.eigenvalues_)
    np.testing.assert_array_equal(plain.transform(X), unmasked.transform(np.ma.array(X)))


def test_masks_are_refused_beside_the_rows_too():
    gap = np.arange(N) == 3
    labels = np.ma.array(np.arange(N) % 2, mask=gap)
    for y in (labels, list(labels)):
        with pytest.raises(InputError, match=r"y has 1 masked value, the first in row 3\."):
            select(X, y=y)
    weights = np.ma.array(np.ones(N), mask=gap)
    for fit in (model().fit, mercer.IncrementalKernelPCA(2, kernel=RBF(0.5)).partial_fit):
        with pytest.raises(
            InputError, match=r"sample_weight has 1 masked value, the first in row 3\."
        ):
            fit(X, sample_weight=weights)
    K = np.ma.array(RBF(0.5)(X), mask=gap[:, None] & gap)
    given = mercer.KernelPCA(2, kernel="precomputed")
    with pytest.raises(InputError, match=r"masked values?, the first in row 3, column 3"):
        given.fit(K)
    given.fit(K.data)
    with pytest.raises(InputError, match=r"diag has 1 masked"):
        given.reconstruction_error(K.data, diag=weights)
    with pytest.raises(InputError, match="scores has 1 masked"):
        fitted(preimage="ridge").inverse_transform(
            np.ma.array(X[:4, :2], mask=[[0, 1]] + 3 * [[0, 0]])
        )


# ── sparse ──────────────────────────────────────────────────────────────────
def one_outside(form):
    """Just outside, so that what is not refused would read a little too far and live."""
    x = SPARSE.asformat(form).copy()
    if form == "coo":
        x.coords[1][3] = D
    elif form == "dia":
        x.offsets = x.offsets[:-1]
    elif form == "lil":
        x.rows[0] = [D] * len(x.rows[0])
    elif form == "dok":
        x._dict[(0, D)] = 1.0
    else:
        x.indices[3] = N if form == "csc" else D
    return x


FORMS = ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"]
WRONG = {
    "negative": lambda x: x.indices.__setitem__(3, -1),
    "no start": lambda x: x.indptr.__setitem__(0, 1),
    "falling": lambda x: x.indptr.__setitem__(2, 0),
    "beyond the end": lambda x: x.indptr.__setitem__(-1, x.nnz + 5),
    "short": lambda x: setattr(x, "indptr", x.indptr[:-1]),
    "cut": lambda x: setattr(x, "data", x.data[:-2]),
}


@pytest.mark.parametrize("door", DOORS)
def test_indices_outside_of_a_sparse_matrix_are_refused(door):
    with pytest.raises(InputError, match=r"csr_array of shape \(40, 3\) whose indices lie outside"):
        DOORS[door](one_outside("csr"))


@pytest.mark.parametrize("form", FORMS)
def test_every_sparse_form_is_looked_at(form):
    with pytest.raises(InputError, match="whose indices lie outside of it"):
        model().fit(one_outside(form))
    np.testing.assert_allclose(  # and an honest one is read
        model().fit(SPARSE.asformat(form)).eigenvalues_, fitted(SPARSE).eigenvalues_, rtol=1e-12
    )


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix])
def test_arrays_that_do_not_fit_together_are_refused(wrong, kind):
    x = kind(SPARSE.copy())
    WRONG[wrong](x)
    with pytest.raises(InputError, match="do not fit together"):
        fitted().transform(x)


def test_a_matrix_is_not_changed_while_it_is_looked_at():
    x = sparse.csr_matrix(SPARSE.copy())
    x.data, x.indices = np.append(x.data, 9.0), np.append(x.indices, D + 5).astype(np.int32)
    before = [part.copy() for part in (x.data, x.indices, x.indptr)]
    model().fit(x)  # what lies behind the last row belongs to none
    for part, was in zip((x.data, x.indices, x.indptr), before, strict=True):
        np.testing.assert_array_equal(part, was)


# ── queries and streams ─────────────────────────────────────────────────────
TABLE = pa.table(dict(zip(NAMES, X.T, strict=True)))


class Stream:
    """Hands out Arrow's C stream, and is nothing else."""

    def __init__(self, table, times=1):
        self.table, self.times = table, times

    def __arrow_c_stream__(self, requested_schema=None):
        self.times -= 1
        assert self.times >= 0, "read twice"
        return self.table.__arrow_c_stream__(requested_schema)


class Batch:
    """Hands out Arrow's C array."""

    def __arrow_c_array__(self, requested_schema=None):
        return TABLE.combine_chunks().to_batches()[0].__arrow_c_array__(requested_schema)


STREAMS = {
    "reader": TABLE.to_reader,
    "a class": lambda: Stream(TABLE),
    "an array": Batch,
    "lazy frame": lambda: pl.from_arrow(TABLE).lazy(),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_is_read_once_and_gives_the_rows(stream):
    make, whole = STREAMS[stream], fitted(TABLE)
    read = model().fit(make())
    np.testing.assert_array_equal(read.eigenvalues_, whole.eigenvalues_)
    assert list(read.feature_names_in_) == NAMES
    np.testing.assert_array_equal(whole.transform(make()), whole.transform(TABLE))
    np.testing.assert_array_equal(
        model().fit(lambda: iter([make()])).eigenvalues_, whole.eigenvalues_
    )
    np.testing.assert_array_equal(RBF(0.5)(make()), RBF(0.5)(X))
    mercer.IncrementalKernelPCA(2, kernel=RBF(0.5)).partial_fit(make())
    mercer.KernelPCADetector(2).fit(make()).predict(make())
    mercer.select(make(), [RBF(0.5)], n_components=2)
    assert prepared().transform(make()).shape == (N, 2)
    assert mercer.check_kernel(RBF(0.5), make()).valid


def test_columns_of_a_stream_go_by_name():
    turned = TABLE.select(NAMES[::-1]).append_column("other", pa.array(["text"] * N))
    np.testing.assert_array_equal(
        fitted(TABLE).transform(Stream(turned)), fitted(TABLE).transform(TABLE)
    )


REFUSED = {
    "expression": (lambda: pl.col("a"), r"polars Expr.*frame\.select"),
    "a stream of text": (
        lambda: Stream(pa.table({"city": ["Rome"] * N})),
        r"hold no numbers: 'city' \(string\)|column 'city' has words \(its type is string\)",
    ),
    "a column": (lambda: TABLE["a"], r"Expected 2D array, got 1D|2-D array"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("door", ["fit", "transform", "partial_fit", "kernel", "check_kernel"])
def test_what_has_no_rows_is_refused_in_words(case, door):
    make, says = REFUSED[case]
    with pytest.raises(InputError, match=says):
        DOORS[door](make())


@pytest.mark.parametrize("kind", [list, tuple, np.array])
@pytest.mark.parametrize(("short", "got"), [([1.0, 2.0], "2 numbers"), ([], "0 numbers")])
@pytest.mark.parametrize("door", [*DOORS.values(), *DENSE.values()], ids=[*DOORS, *DENSE])
def test_rows_of_unequal_lengths_are_refused_with_the_first(door, short, got, kind):
    rows = [kind(row) for row in X.tolist()]
    rows[3] = rows[7] = kind(short)
    with pytest.raises(
        InputError, match=f"rows of one length; got 3 numbers in row 0 and {got} in row 3"
    ):
        door(rows)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_number_among_rows_is_refused(door):
    with pytest.raises(InputError, match="3 numbers in row 0 and one number alone in row 2"):
        door([*X.tolist()[:2], 1.0, *X.tolist()[2:]])


def test_the_drop_in_says_what_to_pass():
    with pytest.raises(InputError, match=r"pyarrow\.table\(x\)"):
        drop_in.KernelPCA(2).fit(Stream(TABLE))


# ── things that are no rows ─────────────────────────────────────────────────
class Exchanged:
    """A frame that speaks the interchange protocol, and nothing else."""

    def __dataframe__(self, *_args, **_options):
        raise NotImplementedError


NO_ROWS = {
    "dict": (lambda: {name: X[:, j] for j, name in enumerate(NAMES)}, r"pandas\.DataFrame"),
    "set": (lambda: {1.0, 2.0}, "a list of rows"),
    "interchange": (Exchanged, "from_dataframe"),
}


@pytest.mark.parametrize("kind", NO_ROWS)
@pytest.mark.parametrize("door", sorted({*DOORS, *DENSE} - {"landmarks"}))  # which may be a number
def test_what_is_no_table_is_refused_with_what_makes_one(door, kind):
    make, remedy = NO_ROWS[kind]
    with pytest.raises(InputError, match=rf" is an? \w+; an array, .* is needed\. Pass .*{remedy}"):
        (DOORS | DENSE)[door](make())


# ── rows at any byte ────────────────────────────────────────────────────────
@pytest.mark.parametrize("estimator", [mercer.KernelPCA(2, kernel="poly"), mercer.PCA(2)], ids=repr)
def test_rows_at_odd_addresses_give_the_same_bits(estimator, rng):
    """NumPy multiplies them without BLAS, to other roundings: a view of a message is copied first."""
    x = rng.standard_normal((700, 33))
    astray = np.frombuffer(b"-" + x.tobytes(), dtype=x.dtype, offset=1).reshape(x.shape)
    assert not astray.flags.aligned
    for engine in ("numpy", "auto"):
        plain, found = (
            clone(estimator).set_params(engine=engine).fit(rows) for rows in (x, astray)
        )
        np.testing.assert_array_equal(found.eigenvalues_, plain.eigenvalues_)
        np.testing.assert_array_equal(found.transform(astray), plain.transform(x))
