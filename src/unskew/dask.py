"""DaskDCKM and DaskSelectionMixture: the same solvers on blocks of rows that the workers of a Dask
cluster store or read.

Each pass submits one pure task per block: the task contains the kernel, the gradient coefficients
and the block's part of the vectors; it returns the block's results, and the driver combines them in
block order. Workers keep no state except blocks that can be recomputed: after the loss of a worker
its blocks are recomputed and the result is bit-identical. Requires ``pip install 'unskew[dask]'``,
on the workers too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ._arrays import add_up
from ._data.sources import (
    Blocks,
    CachedBlocks,
    NpyFile,
    cast_block,
    check_block,
    check_finite,
    storage_dtype,
)
from ._data.tables import EncodedBlock, TableBlocks
from ._data.tiled import (
    TILES_PER_GROUP,
    TiledMatrix,
    as_aligned,
    bounds_from_sizes,
    convert_tile,
    copy_if_tile,
    split_range,
    tile_buffer,
    tile_rows_of_blocks,
)
from ._io import need
from ._parallel import one_blas_thread
from .dckm import DCKM
from .mixture import SelectionMixture

__all__ = ["DaskDCKM", "DaskSelectionMixture", "SchedulerGone"]

# Submitted tasks per thread of the cluster: one is running, the others are being transferred.
MAX_IN_FLIGHT = 3
# Seconds without a scheduler after which a fit fails, and between two polls.
SCHEDULER_TIMEOUT, POLL_SECONDS = 15.0, 2.0


class SchedulerGone(ConnectionError):
    """The scheduler of the cluster does not respond; the message has its address."""


# --------------------------------------------------------------------------------------------
# On the workers: pure functions


class Shape(NamedTuple):
    """Attributes of the rows that a kernel may use on a worker, without the data."""

    n: int
    d: int
    dtype: np.dtype
    shift: np.ndarray | None
    sparse: bool = False
    in_memory: bool = False


def on_block(
    block: Any, work: bytes, vectors: list[np.ndarray], shift: Any, dtype: str, additive: bool
) -> Any:
    """Results of a kernel for each tile of a block, or their sums over groups of tiles."""
    pickle = need("cloudpickle", "dask", "unskew.dask")
    kernel, coefs = pickle.loads(work)
    block, *vectors = (as_aligned(array) for array in (block, *vectors))
    out, bounds = [], split_range(0, len(block), tile_rows_of_blocks(block.shape[1]))
    with one_blas_thread():
        for start, stop in bounds:
            tile = convert_tile(block[start:stop], np.dtype(dtype), shift, tile_buffer)
            parts = [v[start:stop] for v in vectors]
            result = kernel(tile, *parts, *(() if coefs is None else (coefs,)))
            out.append(copy_if_tile(result, tile))
    if additive:
        return [
            tuple(add_up(out[slice(*group)])) for group in split_range(0, len(out), TILES_PER_GROUP)
        ]
    return packed(out, [stop - start for start, stop in bounds])


def packed(results: list, sizes: list[int]) -> Any:
    """Concatenate results of tiles that have one number per row: a few large arrays are transferred
    faster than many small ones. Other results are unchanged."""
    parts = [each if isinstance(each, tuple) else (each,) for each in results]
    per_row = all(
        isinstance(v, np.ndarray) and v.shape == (size,)
        for each, size in zip(parts, sizes)
        for v in each
    )
    if not per_row or len({len(each) for each in parts}) != 1:
        return results
    return Packed([np.concatenate(v) for v in zip(*parts)], sizes, isinstance(results[0], tuple))


class Packed(NamedTuple):
    vectors: list[np.ndarray]
    sizes: list[int]
    tuples: bool

    def results(self) -> Iterator[Any]:
        """The results of each tile, as before packing."""
        for start, stop in bounds_from_sizes(self.sizes):
            each = tuple(v[start:stop] for v in self.vectors)
            yield each if self.tuples else each[0]


def take_block_rows(block: Any, which: np.ndarray) -> np.ndarray:
    return block[which]


def make_block(
    load: Callable, item: Any, dtype: str | None, name: str, number: int, nan: bool
) -> np.ndarray:
    """Load a block as a validated, contiguous array; ``nan``: values may be missing."""
    block = check_block(load(item), name, number)
    stored = storage_dtype(block.dtype if dtype is None else dtype, name)
    block = cast_block(block, stored, name, number)
    check_finite(block, f"{name}, block {number}", 0, nan)
    return block


def as_given(block: Any) -> Any:
    return block


class EncodedFrame:
    """Encodes a table."""

    def __init__(self, encoder: Any):
        self.encoder = encoder

    def __call__(self, frame: Any) -> np.ndarray:
        return self.encoder._encode(frame).matrix


class ReadNpy:
    """Reads rows start..stop of a file that all workers can access."""

    def __init__(self, source: NpyFile):
        self.source = source

    def __call__(self, bounds: tuple[int, int]) -> np.ndarray:
        return self.source.read(*bounds)


def length(frame: Any) -> int:
    return len(frame)


def select_columns(frame: Any, names: list) -> Any:
    return frame[names]


# --------------------------------------------------------------------------------------------
# On the driver


class Cluster:
    """A client that returns results in order, with a bounded number of submitted tasks, and raises
    when the scheduler is lost."""

    def __init__(self, client: Any):
        self.client = client
        scheduler = getattr(client, "scheduler", None)
        self.address = getattr(scheduler, "address", None) or repr(client)

    def submit(self, function: Callable, *arguments: Any) -> Any:
        """Submit one task with a unique key, so that no earlier result is reused."""
        dask = need("dask", "dask", "unskew.dask")
        self.poll()
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            if dask.is_dask_collection(arguments[0]):
                task = dask.delayed(function, pure=False)(*arguments)
                return self.client.compute(task, optimize_graph=False)
            return self.client.submit(function, *arguments, pure=False)

    def poll(self) -> None:
        if self.client.status in ("closed", "closing", "newly-created"):
            raise SchedulerGone(
                f"the scheduler at {self.address} is lost (client is {self.client.status})"
            )

    def result(self, future: Any) -> Any:
        """Result of a task; raises its error, or SchedulerGone."""
        errors = need("concurrent.futures", "dask", "unskew.dask")
        comm = need("distributed.comm", "dask", "unskew.dask")
        since = None
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except TimeoutError:
                if future.status == "error":
                    raise
            except (errors.CancelledError, comm.CommClosedError) as error:
                if future.status != "error":
                    raise SchedulerGone(
                        f"the scheduler at {self.address} is lost or cancelled the task ({error})"
                    ) from error
                raise
            if self.client.status == "running":
                since = None
                continue
            since = since or time.monotonic()
            if self.client.status == "closed" or time.monotonic() - since > SCHEDULER_TIMEOUT:
                raise SchedulerGone(
                    f"the scheduler at {self.address} has not responded for "
                    f"{time.monotonic() - since:.0f} s"
                )

    def in_order(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """Results of tasks, in order; a bounded number is submitted at a time."""
        self.poll()
        try:
            threads = sum(self.client.nthreads().values())
        except (OSError, TimeoutError) as error:
            raise SchedulerGone(f"the scheduler at {self.address} is lost ({error})") from error
        waiting: deque[Any] = deque()
        for call in calls:
            waiting.append(call())
            if len(waiting) >= MAX_IN_FLIGHT * max(threads, 1):
                yield self.result(waiting.popleft())
        while waiting:
            yield self.result(waiting.popleft())


class PersistedBlocks(NamedTuple):
    """Rows on a cluster: for each block a future, or the arguments that load it.

    blocks   per block a future, or the arguments of make_block
    sizes    rows of each block
    """

    cluster: Cluster
    blocks: list
    sizes: list[int]
    d: int
    dtype: np.dtype
    name: str

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), self.d

    def bounds(self) -> list[tuple[int, int]]:
        step = tile_rows_of_blocks(self.d)
        return [
            tile
            for start, stop in bounds_from_sizes(self.sizes)
            for tile in split_range(start, stop, step)
        ]


def on_made_block(how: tuple, *arguments: Any) -> Any:
    return on_block(make_block(*how), *arguments)


def rows_of_made_block(how: tuple, which: np.ndarray) -> np.ndarray:
    return take_block_rows(make_block(*how), which)


class DistributedMatrix(TiledMatrix):
    """Rows whose blocks are on the workers; ``map`` submits one task per block."""

    def __init__(self, X: PersistedBlocks, *, shift: np.ndarray | None = None):
        super().__init__(X, shift=shift)
        self.chosen = list(range(len(X.sizes)))

    def __reduce__(self):
        return Shape, (self.n, self.d, self.dtype, self.shift)

    def with_shift(self, shift: np.ndarray | None) -> DistributedMatrix:
        return DistributedMatrix(self.X, shift=shift)

    def subsample(self, most: int) -> DistributedMatrix:
        """Every n-th block, about ``most`` rows in all."""
        few = DistributedMatrix(self.X, shift=self.shift)
        few.chosen = self.chosen[:: -(-self.n // most)]
        ends = bounds_from_sizes(self.X.sizes)
        step = tile_rows_of_blocks(self.d)
        few.source_bounds = [tile for b in few.chosen for tile in split_range(*ends[b], step)]
        few.bounds = bounds_from_sizes([stop - start for start, stop in few.source_bounds])
        few.n = few.bounds[-1][1]
        return few

    def select(self, which: np.ndarray) -> TiledMatrix:
        """The rows ``which`` in the driver's memory."""
        return TiledMatrix(self.take(which))

    def tile(self, number: int, dense: bool = True, out: Callable = np.empty) -> Any:
        start, stop = self.source_bounds[number]
        return self.take(np.arange(start, stop))

    def take(self, which: np.ndarray) -> np.ndarray:
        ends = np.cumsum([0, *self.X.sizes])
        which = np.asarray(which)
        of = np.searchsorted(ends, which, side="right") - 1
        used = np.unique(of)
        cluster = self.X.cluster
        parts = cluster.in_order(
            [lambda b=b: self._task(b, take_block_rows, which[of == b] - ends[b]) for b in used]
        )
        out = np.empty((which.size, self.d), dtype=self.dtype)
        for b, part in zip(used, parts):
            out[of == b] = part
        return out if self.shift is None else out - self.shift

    def _task(self, block: int, function: Callable, *arguments: Any) -> Any:
        made = self.X.blocks[block]
        if isinstance(made, tuple):
            function = {on_block: on_made_block, take_block_rows: rows_of_made_block}[function]
        return self.X.cluster.submit(function, made, *arguments)

    def map(
        self,
        kernel: Callable,
        *vectors: np.ndarray,
        coefs: Any = None,
        dense: bool = True,
        additive: bool = False,
    ) -> Iterator[Any]:
        pickle = need("cloudpickle", "dask", "unskew.dask")
        work = pickle.dumps((kernel, coefs))
        sizes = [self.X.sizes[b] for b in self.chosen]

        def call(block: int, start: int, stop: int) -> Any:
            parts = [np.ascontiguousarray(v[start:stop]) for v in vectors]
            return self._task(block, on_block, work, parts, self.shift, str(self.dtype), additive)

        calls = [
            lambda b=b, s=s, t=t: call(b, s, t)
            for b, (s, t) in zip(self.chosen, bounds_from_sizes(sizes))
            if t > s
        ]
        for results in self.X.cluster.in_order(calls):
            yield from results.results() if isinstance(results, Packed) else results

    def total(self, parts: Iterable[tuple]) -> list[Any]:
        """Sum of parts that are already summed within groups."""
        return add_up(parts)

    def run(self, function: Callable, items: Iterable) -> Iterator[Any]:
        """Run on the driver: operations on parts of d x t matrices."""
        yield from map(function, items)


class FrameReader:
    """Partitions of a dask dataframe as a reader of tables: whole columns are sent to the
    driver."""

    def __init__(self, cluster: Cluster, parts: list, sizes: list[int], columns: list):
        self.cluster, self.parts, self.sizes = cluster, parts, sizes
        self.n_blocks, self.name = len(parts), "dask dataframe"
        self.columns = columns

    def read(self, number: int, columns: Any = None) -> Any:
        part, columns = self.parts[number], columns or self.columns
        return self.cluster.result(self.cluster.submit(select_columns, part, list(columns)))


class _OnCluster(BaseEstimator):
    """An estimator whose rows are on the workers of a cluster; a base class before its own."""

    _local: Any  # the class of the same model in memory
    _allow_nan = False

    def __init__(self, client=None, *, persist=True, **parameters):
        self.client = client
        self.persist = persist
        super().__init__(**parameters)

    @classmethod
    def _get_param_names(cls):
        return sorted([*cls._local._get_param_names(), "client", "persist"])

    def __sklearn_clone__(self):
        # No deep copy: a client cannot be copied.
        parameters = self.get_params(deep=False)
        own = {name: parameters.pop(name) for name in ("client", "persist")}
        return type(self)(**own, **{k: clone(v, safe=False) for k, v in parameters.items()})

    def __getstate__(self):
        return {**super().__getstate__(), "client": None}

    def _cluster(self) -> Cluster:
        distributed = need("distributed", "dask", "unskew.dask")
        client = self.client
        if client is None:
            try:
                client = distributed.get_client()
            except ValueError as error:
                raise ValueError(
                    "client=None should mean the current dask client, but there is none; create "
                    "one, distributed.Client(...), or pass it"
                ) from error
        if not isinstance(client, distributed.Client):
            raise TypeError(
                f"client={client!r} should be a distributed.Client or None; other parameters "
                f"are keyword-only, {type(self).__name__}(random_state=...)"
            )
        cluster = Cluster(client)
        cluster.poll()
        return cluster

    # ------------------------------------------------------------------------ input validation
    def _open_source(self, X: Any) -> Any:
        kind = type(X).__module__.split(".")[0]
        if kind in ("dask", "dask_expr") and hasattr(X, "to_delayed"):
            cluster = self._cluster()
            if hasattr(X, "npartitions") and hasattr(X, "columns"):
                return self._frame(X, cluster)
            return self._array(X, cluster)
        above: Any = super()
        source = above._open_source(X)
        if source is None or isinstance(source, TableBlocks):
            return source
        cluster = self._cluster()
        n, d = source.shape
        if isinstance(source, NpyFile):
            step = tile_rows_of_blocks(d)
            rows = max(step, 2**24 // (d * step) * step)
            items: list = split_range(0, n, rows)
            load: Callable = ReadNpy(source)
            sizes = [stop - start for start, stop in items]
        else:
            items, load = list(range(len(source.starts) - 1)), source.load
            sizes = [stop - start for start, stop in pairwise(source.starts)]
        dtype, nan = str(source.dtype), source.allow_nan
        how = [(load, item, dtype, source.name, i, nan) for i, item in enumerate(items)]
        return self._persist(cluster, how, sizes, d, source.dtype, source.name)

    def _persist(self, cluster, how, sizes, d, dtype, name) -> PersistedBlocks:
        blocks: list = how
        if self.persist:
            blocks = [cluster.submit(make_block, *each) for each in how]
        return PersistedBlocks(cluster, blocks, list(map(int, sizes)), d, np.dtype(dtype), name)

    def _array(self, X: Any, cluster: Cluster) -> PersistedBlocks:
        if X.ndim != 2:
            raise ValueError(f"X has shape {X.shape}; a dask array should have rows and columns")
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        d, dtype = int(X.shape[1]), storage_dtype(X.dtype, "dask array")
        parts = list(X.to_delayed().ravel())
        sizes = list(X.chunks[0])
        if np.isnan(sizes).any():
            sizes = list(cluster.in_order([partial(cluster.submit, length, p) for p in parts]))
        blocks = self._made(cluster, as_given, parts, dtype, "dask array")
        return PersistedBlocks(cluster, blocks, list(map(int, sizes)), d, dtype, "dask array")

    def _made(self, cluster: Cluster, load: Callable, parts: list, dtype: Any, name: str) -> list:
        """Blocks of a dask collection: futures, or delayed objects that are computed each time."""
        delayed = need("dask", "dask", "unskew.dask").delayed
        blocks = [
            delayed(make_block)(load, part, str(dtype), name, i, self._allow_nan)
            for i, part in enumerate(parts)
        ]
        return cluster.client.compute(blocks) if self.persist else blocks

    def _frame(self, X: Any, cluster: Cluster) -> TableBlocks:
        parts = list(X.to_delayed())
        if self.persist:
            parts = cluster.client.persist(parts)
        sizes = list(cluster.in_order([partial(cluster.submit, length, p) for p in parts]))
        return TableBlocks(FrameReader(cluster, parts, sizes, list(X.columns)))

    def _as_tiled(self, matrix: Any) -> Any:
        if isinstance(matrix, PersistedBlocks):
            return DistributedMatrix(matrix)
        if isinstance(matrix, Blocks):
            # The workers keep the encoded blocks; the driver's disk cache is not used.
            load = matrix.load.made if isinstance(matrix.load, CachedBlocks) else matrix.load
            if isinstance(load, EncodedBlock):
                return DistributedMatrix(self._encoded(matrix, load))
        above: Any = super()
        return above._as_tiled(matrix)

    def _encoded(self, matrix: Blocks, load: EncodedBlock) -> PersistedBlocks:
        """Blocks of tables, encoded on the workers."""
        sizes = [stop - start for start, stop in pairwise(matrix.starts)]
        d, dtype, name = matrix.shape[1], matrix.dtype, matrix.name
        reader = load.reader
        if not isinstance(reader, FrameReader):
            nan = matrix.allow_nan
            how = [(load, i, str(dtype), name, i, nan) for i in range(len(sizes))]
            return self._persist(self._cluster(), how, sizes, d, dtype, name)
        encode = EncodedFrame(load.encoder)
        blocks = self._made(reader.cluster, encode, reader.parts, dtype, name)
        return PersistedBlocks(reader.cluster, blocks, sizes, d, dtype, name)

    # -------------------------------------------------------------------------------- after fit
    def to_local(self) -> Any:
        """The fitted model as an estimator that is independent of the cluster."""
        check_is_fitted(self)
        own = self.get_params(deep=False)
        local = self._local(**{k: v for k, v in own.items() if k not in ("client", "persist")})
        given = set(own)
        local.__dict__.update(
            {
                name: value
                for name, value in vars(self).items()
                if name not in given and not name.startswith(("_skl", "_callback", "_parent"))
            }
        )
        return local


class DaskDCKM(_OnCluster, DCKM):
    """DCKM on a Dask cluster: the same solver, with rows on the workers and weights on the driver.

    ``fit`` accepts dask arrays (chunked by rows; columns are rechunked to one chunk), dask
    dataframes (encoded like tables), readers of blocks and files that all workers can access, and
    in-memory input as DCKM. The driver stores vectors of length n, the workers the blocks. The
    result is bit-identical to DCKM on the same blocks, and to DCKM on the array where blocks are
    whole groups of 16 tiles of it (``unskew._data.tiled.tile_rows``; up to 128 columns). The loss
    of a worker does not change the result; if the scheduler is lost the fit raises SchedulerGone.
    See docs/scale.md.

    Parameters
    ----------
    client : distributed.Client or None
        None: the current client.
    persist : bool, default=True
        Whether workers keep the (encoded) blocks in memory between passes; False: they are computed
        again in each pass, for data larger than the cluster's memory.
    **parameters
        Parameters of DCKM. ``n_threads`` applies to rows in memory.

    The attributes are those of DCKM. ``to_local()`` returns a DCKM.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from unskew.dask import DaskDCKM
    >>> from unskew.simulate import make_sites
    >>> X = make_sites(200, n_clusters=2, n_features=4, random_state=0).X
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     model = DaskDCKM(client, n_clusters=2, n_init=1, random_state=0)
    ...     labels = model.fit(da.from_array(X, chunks=(100, -1))).labels_
    >>> labels.shape
    (200,)
    """

    _local = DCKM


class DaskSelectionMixture(_OnCluster, SelectionMixture):
    """SelectionMixture on a Dask cluster: sums of blocks on the workers, parameters on the driver.

    Input is that of `DaskDCKM`. Each iteration of EM sends the parameters to every block and adds
    the sums of the cells (group x level) in the order of the blocks; during the fit the driver has
    no vector with a number for each row. ``labels_`` and ``weights_``, 4 and 8 bytes per row, are
    collected at the end. The result is bit-identical to SelectionMixture on the same blocks, and to
    SelectionMixture on the array where blocks are whole groups of 16 tiles of it; the loss of a
    worker does not change it.

    Parameters
    ----------
    client : distributed.Client or None
        None: the current client.
    persist : bool, default=True
        Whether workers keep the (encoded) blocks in memory between passes.
    **parameters
        Parameters of SelectionMixture.

    The attributes are those of SelectionMixture. ``to_local()`` returns a SelectionMixture.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from unskew.dask import DaskSelectionMixture
    >>> from unskew.simulate import make_sites
    >>> X = make_sites(200, n_clusters=2, n_features=4, random_state=0).X
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     model = DaskSelectionMixture(client, n_components=2, n_init=1, random_state=0)
    ...     labels = model.fit(da.from_array(X, chunks=(100, -1))).labels_
    >>> labels.shape
    (200,)
    """

    _local = SelectionMixture
    _allow_nan = True
