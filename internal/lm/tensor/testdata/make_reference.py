#!/usr/bin/env python3
"""Makes reference.json.gz and kquants.bin.gz: what the real tools make of blocks that the Go tests make too.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0 numpy==2.4.6
    STOKER_TEST_LLAMA_SRC=... STOKER_TEST_LLAMA_SERVER=... STOKER_TEST_MODEL_CHAT=... STOKER_TEST_MODEL_BASE=... \
        venv/bin/python make_reference.py

The variables are those that `go run ./test/assets path` prints. A C compiler must be there (gcc, on x86-64).

Three references are asked, and must agree:
- ggml's C reference (quantize_row_*_ref and dequantize_row_* of ggml-quants.c), compiled here without fusing of products and sums;
- the llama-quantize program, for numbers that it accepts (it refuses scales that f16 does not hold);
- gguf-py, for dequantising. Its quantising differs from C in places (see "gguf_py_differs" in the output: only in the sign of a zero scale, for blocks whose zeros have both signs): C is what we follow.

Of the results only a checksum of each block is kept, so that a test can name the block that is wrong.
"""

import ctypes, gzip, hashlib, json, os, platform, subprocess, tempfile, zlib
import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.environ["STOKER_TEST_LLAMA_SRC"]
TOOLS = os.path.dirname(os.environ["STOKER_TEST_LLAMA_SERVER"])
BLOCKS = 512
PART, MOST = 4 << 20, 12 << 20  # elements of the real models that are looked at, for each type: so much takes a second or two

# Where the f16 numbers of a block lie.
HALVES = {T.Q8_0: [0], T.Q4_0: [0], T.Q5_0: [0], T.Q4_1: [0, 2], T.Q5_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
SIMPLE = [T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1]
# Zeros, the subnormal numbers' ends, one and its neighbours, the largest; each with both signs.
EDGES = [0x0000, 0x0001, 0x03FF, 0x0400, 0x0401, 0x3BFF, 0x3C00, 0x3C01, 0x7BFE, 0x7BFF]


def stream(seed, n):
    """n 64-bit numbers: SplitMix64, whose i-th state is seed + (i+1) * gamma."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def encoded(t):
    """BLOCKS blocks of type t: random bytes, but no scale is infinite or NaN, and the first ones are edge cases."""
    size = gguf.GGML_QUANT_SIZES[t][1]
    b = stream(1000 + int(t), (BLOCKS * size + 7) // 8).astype("<u8").view(np.uint8)[: BLOCKS * size].reshape(BLOCKS, size).copy()
    b[0], b[1], b[2] = 0x00, 0xFF, 0x80
    for k, at in enumerate(HALVES[t]):
        h = b[:, at : at + 2].copy().view("<u2").ravel()
        h = np.where(h & 0x7C00 == 0x7C00, h & 0xBFFF, h)
        for i in range(100):
            h[i] = EDGES[(i // (10 if k else 1)) % 10] | (0x8000 if i % 7 > 3 else 0)
        b[:, at : at + 2] = h.astype("<u2").view(np.uint8).reshape(-1, 2)
    return b


def bits(seed, n, low, high):
    """n random floats, as bits, with exponents of low to high."""
    x = stream(seed, n)
    e = (x >> np.uint64(32)) % np.uint64(high - low + 1) + np.uint64(low)
    return ((x & np.uint64(0x807FFFFF)) | (e << np.uint64(23))).astype(np.uint32)


def floats():
    """BLOCKS blocks of 32 floats to be encoded. Block i is of kind i % 10; kinds from 7 on have scales that f16 does not hold."""
    rows = []
    for i in range(BLOCKS):
        kind, seed = i % 10, 5000 + i
        if kind == 0:  # as weights are
            r = bits(seed, 32, 110, 123)
        elif kind == 1:  # all of one size
            r = bits(seed, 32, 124, 124)
        elif kind == 2:  # zeros of both signs
            r = bits(seed, 32, 0, 0) & np.uint32(0x80000000)
        elif kind == 3:  # one number over and over
            r = np.repeat(bits(seed, 1, 100, 140), 32)
        elif kind == 4:  # numbers half way between quants
            r = ties(i // 10 % 4, seed).view(np.uint32)
        elif kind == 5:  # scales that are subnormal in f16
            r = bits(seed, 32, 96, 106)
        elif kind == 6:  # one number far from the others
            r = bits(seed, 32, 110, 120)
            r[seed % 32] = bits(seed + 10000, 1, 130, 138)[0]
        elif kind == 7:  # subnormal
            r = bits(seed, 32, 0, 0)
        elif kind == 8:  # large
            r = bits(seed, 32, 200, 250)
        else:  # any
            r = bits(seed, 32, 1, 252)
        rows.append(r)
    return np.stack(rows).astype(np.uint32).view(np.float32)


def ties(kind, seed):
    """Multiples of an eighth: of any range, so that the largest of both signs may be equal; and of ranges that make scales exact."""
    n, odd = stream(seed, 32), np.float32(1 + 2 * (seed % 50))
    if kind == 0:
        return (n % np.uint64(65)).astype(np.float32) / 8 - 4
    if kind == 1:  # Q8_0 has a scale of 1
        x = (n % np.uint64(509)).astype(np.float32) / 2 - 127
        x[0] = 127
        return x
    steps = 62 if kind == 2 else 30  # Q5_1 or Q4_1 have a scale of odd / 4
    x = (n % np.uint64(steps + 1)).astype(np.float32) / 8
    x[0], x[1] = 0, np.float32(steps) / 8
    return x * odd - 1


def library(tmp):
    out = os.path.join(tmp, "libquants.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-ffp-contract=off", "-I" + SRC + "/ggml/include", "-I" + SRC + "/ggml/src",
                    SRC + "/ggml/src/ggml-quants.c", "-lm", "-o", out], check=True)
    return ctypes.CDLL(out, mode=os.RTLD_LAZY)


def pointer(a):
    return a.ctypes.data_as(ctypes.c_void_p)


def c_quantize(lib, t, x):
    y = np.zeros((BLOCKS, gguf.GGML_QUANT_SIZES[t][1]), np.uint8)
    getattr(lib, f"quantize_row_{t.name.lower()}_ref")(pointer(x), pointer(y), ctypes.c_int64(x.size))
    return y


def c_dequantize(lib, t, b):
    y = np.zeros((b.shape[0], gguf.GGML_QUANT_SIZES[t][0]), np.float32)
    name = {T.Q4_K: "q4_K", T.Q5_K: "q5_K", T.Q6_K: "q6_K"}.get(t, t.name.lower())
    getattr(lib, "dequantize_row_" + name)(pointer(b), pointer(y), ctypes.c_int64(y.size))
    return y


def tool(tmp, t, x):
    """What llama-quantize makes of x, rows of 32 k floats, in a model that has nothing else of interest."""
    source, dest = os.path.join(tmp, "in.gguf"), os.path.join(tmp, "out.gguf")
    w = gguf.GGUFWriter(source, "llama")
    w.add_context_length(64)
    w.add_embedding_length(x.shape[1])
    w.add_block_count(1)
    w.add_feed_forward_length(x.shape[1])
    w.add_head_count(1)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(32)
    w.add_tensor("blk.0.ffn_up.weight", x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    names = {T.Q4_K: "Q4_K_S", T.Q5_K: "Q5_K_S"}
    r = subprocess.run([TOOLS + "/llama-quantize", "--pure", source, dest, names.get(t, t.name), "1"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    (tensor,) = gguf.GGUFReader(dest).tensors
    assert tensor.tensor_type == t, (tensor.tensor_type, t)
    return np.asarray(tensor.data).view(np.uint8).ravel().copy()


def sums(blocks):
    """CRC-32 of each block."""
    return [zlib.crc32(np.ascontiguousarray(b).tobytes()) for b in blocks]


def sha(a):
    return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()


def model(path):
    """For each type, the sha256 of the f32 numbers of the tensors in file order: of each the first PART, of all about MOST."""
    out = {}
    for t in gguf.GGUFReader(path).tensors:
        o = out.setdefault(t.tensor_type.name, {"tensors": 0, "elements": 0, "hash": hashlib.sha256()})
        if o["elements"] >= MOST:
            continue
        n = min(int(t.n_elements), PART)
        block, size = gguf.GGML_QUANT_SIZES[t.tensor_type]
        data = np.asarray(t.data).view(np.uint8).ravel()[: n // block * size]
        o["tensors"] += 1
        o["elements"] += n
        o["hash"].update(gguf.dequantize(data, t.tensor_type).astype("<f4").tobytes())
    return {k: {"tensors": o["tensors"], "elements": o["elements"], "sha256": o["hash"].hexdigest()} for k, o in out.items()}


def main():
    tmp = tempfile.mkdtemp()
    lib = library(tmp)
    out = {
        "made_by": {
            "gguf": __import__("importlib.metadata").metadata.version("gguf"), "numpy": np.__version__, "python": platform.python_version(),
            "machine": platform.machine(),
            "compiler": subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout.splitlines()[0],
            "llama.cpp": json.load(open(SRC + "/asset.json"))["recipe"]["recipe"]["version"],
            "ggml-quants.c sha256": hashlib.sha256(open(SRC + "/ggml/src/ggml-quants.c", "rb").read()).hexdigest(),
        },
        "dequantize": {}, "quantize": {}, "gguf_py_differs": {}, "models": {},
    }

    for t in HALVES:
        b = encoded(t)
        y = gguf.dequantize(b, t).reshape(BLOCKS, -1)
        assert y.dtype == np.float32 and np.isfinite(y).all()
        assert (c_dequantize(lib, t, b).view(np.uint32) == y.view(np.uint32)).all(), t
        out["dequantize"][t.name] = {"input_sha256": sha(b), "crc32": sums(y)}

    x = floats()
    out["floats_sha256"] = sha(x)
    accepted = np.array([i % 10 < 7 for i in range(BLOCKS)])
    part = x[accepted][: accepted.sum() // 32 * 32].reshape(-1, 1024)  # whole rows
    for t in SIMPLE:
        y = c_quantize(lib, t, x)
        got = tool(tmp, t, part).reshape(-1, y.shape[1])
        assert (got == y[accepted][: len(got)]).all(), t
        with np.errstate(all="ignore"):
            py = gguf.quantize(x, t)
        out["gguf_py_differs"][t.name] = [int(i) for i in np.flatnonzero((py != y).any(axis=1))]
        out["quantize"][t.name] = {"crc32": sums(y), "same_by_llama_quantize": len(got)}
    for t, f in {T.F16: lambda a: a.astype(np.float16), T.BF16: lambda a: gguf.quantize(a, T.BF16)}.items():
        with np.errstate(all="ignore"):
            y = np.ascontiguousarray(f(x)).view(np.uint8).reshape(BLOCKS, -1)
        got = tool(tmp, t, part).reshape(-1, y.shape[1])
        assert (got == y[accepted][: len(got)]).all(), t
        out["quantize"][t.name] = {"crc32": sums(y), "same_by_llama_quantize": len(got)}

    # Blocks as the real tool packs them: kept whole, since we do not write these formats.
    kept, real = b"", {}
    weights = np.concatenate([x[i] for i in range(BLOCKS) if i % 10 in (0, 1, 4, 6)])[: 24 * 256].reshape(-1, 1024)
    for t in [T.Q4_K, T.Q5_K, T.Q6_K]:
        b = tool(tmp, t, weights).reshape(-1, gguf.GGML_QUANT_SIZES[t][1])
        y = gguf.dequantize(b, t).reshape(len(b), -1)
        assert (c_dequantize(lib, t, b).view(np.uint32) == y.view(np.uint32)).all(), t
        error = float(np.sqrt(np.mean((y.ravel() - weights.ravel()) ** 2)) / np.sqrt(np.mean(weights.astype(np.float64) ** 2)))
        assert error < 0.1, (t, error)
        real[t.name] = {"blocks": len(b), "crc32": sums(y), "relative_error": error}
        kept += b.tobytes()
    out["llama_quantize"] = real

    for name in ["STOKER_TEST_MODEL_CHAT", "STOKER_TEST_MODEL_BASE"]:
        out["models"][name] = model(os.environ[name])

    with gzip.GzipFile(HERE + "/reference.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(out, indent=1).encode())
    with gzip.GzipFile(HERE + "/kquants.bin.gz", "wb", mtime=0) as f:
        f.write(kept)
    print(json.dumps({k: out[k] for k in ["made_by", "gguf_py_differs", "models"]}, indent=1))
    print({k: v["relative_error"] for k, v in real.items()}, {k: v["same_by_llama_quantize"] for k, v in out["quantize"].items()})


main()
