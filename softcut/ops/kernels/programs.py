# mypy: ignore-errors
"""The Triton programs. Importable without Triton; the functions can then not be launched.

One program, :func:`sum_rows`, does every pass over a sparse matrix: the rows, the pieces of long rows, and the sums
of those pieces. An optional tensor that is None is left out when the program is compiled. Sizes in capitals are
compiled in: a short row length K lets loads be vectors, the tile sizes set registers and occupancy.
"""

from __future__ import annotations

import os

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None

__all__ = ["add_scaled", "gram_rows", "multiply_rows", "sum_rows"]


def _jit(**options):
    """``triton.jit`` with these options, where Triton is installed."""
    return lambda function: function if triton is None else triton.jit(function, **options)


# One compilation for all numbers of rows; strides of 1 and sizes that are multiples of 16 are compiled in, so that
# several numbers are loaded at once.
_jit_strided = _jit(do_not_specialize=["rows"])


def _mend_interpreter():
    """Triton's interpreter turns arrays of one element into loop bounds, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def index(self):
        return int(self.handle.data.item())

    def mended(tensor, *scope):  # Triton from 3.3 on keeps what it patched in a scope
        patch(tensor, *scope)
        if scope:
            scope[0].set_attr(tensor, "__index__", index)
        else:
            tensor.__index__ = index

    interpreter._patch_lang_tensor = mended


if triton is not None and os.environ.get("TRITON_INTERPRET") == "1":
    _mend_interpreter()


# One compilation for all numbers of rows and all places in memory of their bounds.
@_jit(
    do_not_specialize=["count", "repeat", "sums_at", "sums_stride"],
    do_not_specialize_on_alignment=["first", "last", "dest"],
)
def sum_rows(
    out,  # [.., K]: sums of rows of x
    x,  # [M, K]
    col,  # which row of x each entry takes; None: entry e takes row e
    val,  # its weight; None: 1
    inner,  # [M]: a factor of each row of x; None: 1
    first,  # [count]: the entries of each sum ..
    last,
    dest,  # .. and the row of `out` it is written to; None: sum i to row i
    outer,  # a factor of each row of out; None: 1
    s,  # [.., K]: where `sums` is asked for
    degree,
    sums,  # [2, .]: of each program, sum(s * outer * out) and sum(degree * s * s); None: not wanted
    sums_at,  # where the programs of this launch begin in it
    sums_stride,
    count,
    repeat,  # blocks of ROWS sums that a program does one after another
    width,  # numbers of a row, where K is 0
    K: tl.constexpr,  # the same, compiled in; 0 for long rows, which come in many lengths
    ROWS: tl.constexpr,
    NEIGHBOURS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ALONG_ROWS: tl.constexpr,  # threads of a warp share out rows; else the neighbours of a row
    STREAM: tl.constexpr,  # what is read once leaves the cache first
    AHEAD: tl.constexpr,  # indices of the next tile are read before this one is added
    WIDE: tl.constexpr,  # float64 sums
):
    ACC: tl.constexpr = tl.float64 if WIDE else tl.float32
    ONCE: tl.constexpr = "evict_first" if STREAM else ""
    OFTEN: tl.constexpr = "evict_last" if STREAM else ""
    # Triton spreads threads along columns, then along the first axis.
    AXIS: tl.constexpr = 1 if ALONG_ROWS else 0
    if K == 0:
        length = width
    else:
        length = K
    block = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    within = c < length
    total_cut = tl.zeros([ROWS, COLUMNS], ACC)
    total_degree = tl.zeros([ROWS, COLUMNS], ACC)
    t = tl.arange(0, NEIGHBOURS)
    for again in range(repeat):
        # Neighbouring blocks run at one time: what they share is in the cache.
        slot = (again * tl.num_programs(0) + block) * ROWS + tl.arange(0, ROWS)
        there = slot < count
        begin = tl.load(first + slot, mask=there, other=0)
        end = tl.load(last + slot, mask=there, other=0)
        if dest is None:
            row = slot
        else:
            row = tl.load(dest + slot, mask=there, other=0).to(tl.int64)
        longest = tl.max(end - begin, axis=0)
        if ALONG_ROWS:
            entry = begin[:, None] + t[None, :]
            stop = end[:, None]
            acc = tl.zeros([ROWS, NEIGHBOURS, COLUMNS], ACC)
        else:
            entry = begin[None, :] + t[:, None]
            stop = end[None, :]
            acc = tl.zeros([NEIGHBOURS, ROWS, COLUMNS], ACC)
        if AHEAD:
            coming = tl.load(col + entry, mask=entry < stop, other=0, eviction_policy=ONCE)
        for _ in range(0, longest, NEIGHBOURS):
            valid = entry < stop
            if AHEAD:
                source = coming.to(tl.int64)
                after = entry + NEIGHBOURS
                coming = tl.load(col + after, mask=after < stop, other=0, eviction_policy=ONCE)
            elif col is None:
                source = entry.to(tl.int64)
            else:
                source = tl.load(col + entry, mask=valid, other=0, eviction_policy=ONCE).to(tl.int64)
            places = source[:, :, None] * length + c[None, None, :]
            tile = tl.load(
                x + places,
                mask=valid[:, :, None] & within[None, None, :],
                other=0.0,
                eviction_policy=OFTEN,
            ).to(ACC)
            if val is not None:
                weight = tl.load(val + entry, mask=valid, other=0.0, eviction_policy=ONCE).to(ACC)
                tile = tile * weight[:, :, None]
            if inner is not None:
                tile = tile * tl.load(inner + source, mask=valid, other=0.0).to(ACC)[:, :, None]
            acc += tile
            entry += NEIGHBOURS
        y = tl.sum(acc, axis=AXIS)
        places = row[:, None] * length + c[None, :]
        valid = there[:, None] & within[None, :]
        if outer is None:
            scaled = y
        else:
            scaled = y * tl.load(outer + row, mask=there, other=0.0).to(ACC)[:, None]
        if sums is None:
            tl.store(out + places, scaled.to(out.dtype.element_ty), mask=valid)
        else:
            # Stored without the outer factor: the gradient of the loss multiplies by it in its own pass.
            tl.store(out + places, y.to(out.dtype.element_ty), mask=valid)
            own = tl.load(s + places, mask=valid, other=0.0).to(ACC)
            total_cut += own * scaled
            total_degree += own * own * tl.load(degree + row, mask=there, other=0.0).to(ACC)[:, None]
    if sums is not None:
        program = sums_at + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        tl.store(sums + program, tl.sum(tl.sum(total_cut, axis=1), axis=0))
        tl.store(sums + sums_stride + program, tl.sum(tl.sum(total_degree, axis=1), axis=0))


@_jit()
def add_scaled(
    out,  # may be y
    y,
    s,
    scale,  # [N]: factor of the rows of y; None: 1
    degree,  # [N]: factor of the rows of s
    g_y,  # one number each
    g_s,
    rows,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,  # at least K
    WIDE: tl.constexpr,
):
    """out = 2 g_y scale y + 2 g_s degree s: the gradient of both cut terms in one pass."""
    ACC: tl.constexpr = tl.float64 if WIDE else tl.float32
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    there = row < rows
    factor = tl.load(g_y).to(ACC)
    own = 2 * tl.load(g_s).to(ACC) * tl.load(degree + row, mask=there, other=0.0).to(ACC)
    if scale is None:
        factor = 2 * factor * tl.full([ROWS], 1.0, ACC)
    else:
        factor = 2 * factor * tl.load(scale + row, mask=there, other=0.0).to(ACC)
    places = row[:, None] * K + c[None, :]
    valid = there[:, None] & (c < K)[None, :]
    value = factor[:, None] * tl.load(y + places, mask=valid, other=0.0).to(ACC)
    value += own[:, None] * tl.load(s + places, mask=valid, other=0.0).to(ACC)
    tl.store(out + places, value.to(out.dtype.element_ty), mask=valid)


@_jit()
def _chunk_rows(chunk, owner, bounds, ptr, rows, LENGTH: tl.constexpr):
    """The graph of a chunk, and its rows: first and one past the last. Without `ptr` all rows are one graph."""
    if ptr is None:
        graph = chunk * 0
        begin = chunk * LENGTH
        end = tl.minimum(begin + LENGTH, rows)
    else:
        graph = tl.load(owner + chunk)
        begin = tl.load(ptr + graph)
        if bounds is not None:
            begin += (chunk - tl.load(bounds + graph)) * LENGTH
        end = tl.minimum(begin + LENGTH, tl.load(ptr + graph + 1))
    return graph, begin, end


@_jit_strided
def gram_rows(
    out,  # [chunks, R, K, F]
    a,  # [N, R, K], of any strides
    b,  # [N, R, F]
    owner,  # which rows each chunk has
    bounds,
    ptr,
    rows,
    a_row,
    a_replica,
    a_column,
    b_row,
    b_replica,
    b_column,
    K,
    F,
    LENGTH: tl.constexpr,  # the most rows of a chunk
    STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_F: tl.constexpr,
):
    """a' b of every replica, for the rows of every chunk."""
    chunk = tl.program_id(0).to(tl.int64)  # the one axis of a grid that may be long
    replica = tl.program_id(1).to(tl.int64)
    _, begin, end = _chunk_rows(chunk, owner, bounds, ptr, rows, LENGTH)
    blocks = (F + BLOCK_F - 1) // BLOCK_F
    k = tl.program_id(2) // blocks * BLOCK_K + tl.arange(0, BLOCK_K)
    f = tl.program_id(2) % blocks * BLOCK_F + tl.arange(0, BLOCK_F)
    left_at = a + replica * a_replica + k[:, None].to(tl.int64) * a_column
    right_at = b + replica * b_replica + f[None, :].to(tl.int64) * b_column
    acc = tl.zeros([BLOCK_K, BLOCK_F], tl.float32)
    row = begin + tl.arange(0, STEP)
    for _ in range(begin, end, STEP):
        there = row < end
        left = tl.load(left_at + row[None, :] * a_row, mask=there[None, :] & (k[:, None] < K), other=0.0)
        right = tl.load(right_at + row[:, None] * b_row, mask=there[:, None] & (f[None, :] < F), other=0.0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
        row += STEP
    places = ((chunk * tl.num_programs(1) + replica) * K + k[:, None]) * F + f[None, :]
    tl.store(out + places, acc, mask=(k[:, None] < K) & (f[None, :] < F))


@_jit_strided
def multiply_rows(
    out,  # [N, R, F], of any strides
    a,  # [N, R, K]
    m,  # [B, R, K, F]
    owner,
    bounds,
    ptr,
    rows,
    a_row,
    a_replica,
    a_column,
    b_row,  # of `out`
    b_replica,
    b_column,
    K,
    F,
    LENGTH: tl.constexpr,
    STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_F: tl.constexpr,
):
    """Each row of every chunk times the matrix of its graph and replica."""
    chunk = tl.program_id(0).to(tl.int64)
    replica = tl.program_id(1).to(tl.int64)
    graph, begin, end = _chunk_rows(chunk, owner, bounds, ptr, rows, LENGTH)
    f = tl.program_id(2) * BLOCK_F + tl.arange(0, BLOCK_F)
    row = begin + tl.arange(0, STEP)
    for _ in range(begin, end, STEP):
        there = row < end
        acc = tl.zeros([STEP, BLOCK_F], tl.float32)
        for k_at in range(0, K, BLOCK_K):
            k = k_at + tl.arange(0, BLOCK_K)
            left_at = a + replica * a_replica + row[:, None] * a_row + k[None, :].to(tl.int64) * a_column
            left = tl.load(left_at, mask=there[:, None] & (k[None, :] < K), other=0.0)
            matrix = m + ((graph * tl.num_programs(1) + replica) * K + k[:, None]) * F + f[None, :]
            right = tl.load(matrix, mask=(k[:, None] < K) & (f[None, :] < F), other=0.0)
            acc = tl.dot(left, right, acc, input_precision="ieee")
        places = replica * b_replica + row[:, None] * b_row + f[None, :].to(tl.int64) * b_column
        tl.store(out + places, acc.to(out.dtype.element_ty), mask=there[:, None] & (f[None, :] < F))
        row += STEP
