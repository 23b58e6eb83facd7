#!/usr/bin/env python3
"""Makes the references that internal/gate judges engines by: what torch, in float32, makes of the models' own weights.

Needed only to make them again. In an environment of its own, outside the source tree:

    pip install torch==2.15.0 transformers==5.24.0 gguf==0.19.0 accelerate==1.15.0
    python internal/gate/testdata/make_reference.py --llama-server PATH [--out DIR] [--raw DIR] MODEL.gguf...

For each model, a file NAME.json.gz is written to DIR (this file's folder by default), where NAME is the model's in MODELS below.
Paths of models and of llama-server: `go run ./test/assets path smollm2 gemma3 tiny llama-server`. It takes about a quarter of an hour
on two cores and 6 GB of memory. The same versions on the same kind of processor write the same bytes; on others, floats differ in
their last places, and a greedy answer may flip where its gap is tiny.

What is in a reference, and why it can be believed:

- the weights are those of the GGUF file, dequantised to float32 by the gguf package;
- the token ids of each prompt are the Hugging Face tokenizer's, and must equal llama.cpp's; where the tokenizer that transformers
  makes of a GGUF file is known to be another one (see MODELS), they are llama.cpp's;
- the answer is made token by token with a KV cache, then checked by one pass over prompt and answer without one: the two must agree
  wherever the gap of the two best logits is not within rounding;
- gaps, ranges, logits and taps come from that one pass;
- "noise" is how far the logits are from a pass in float64, so that a limit can be told from the reference's own rounding.

--raw writes logits and taps of all positions of a short prompt, for people who look for a fault, as .npz files.
"""

import argparse
import base64
import gzip
import hashlib
import http.client
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import tempfile
import time

import accelerate
import gguf
import numpy as np
import tokenizers
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import prompts

FORMAT, VERSION = "stoker reference", 1
SAMPLE, TOP = 1024, 64  # logits kept at a position: the same sample of ids everywhere, and the best
THREADS = 2

# What is known of each model. "ends" are the tokens that end an answer, "bos" the token that comes before each raw prompt. "config"
# is what transformers' GGUF reader leaves out or gets wrong, as the model's own metadata and llama.cpp have it.
MODELS = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": dict(
        name="smollm2-135m-instruct-q4_1", ends=[0, 2], bos=None, chats=prompts.CHATS, raw=prompts.RAW_CHAT_MODEL, steps=64,
        taps=["chat-moon", "raw-german"], config={}, tokenizer="transformers"),
    "gemma-3-270m-q4_k_m.gguf": dict(
        name="gemma3-270m-q4_k_m", ends=[1, 106], bos=2, chats=[], raw=prompts.RAW_BASE_MODEL, steps=64,
        taps=["raw-history", "raw-window"], config={}, tokenizer="transformers"),
    # Random weights with the vocabulary of Llama 3.
    "tiny-llama.gguf": dict(
        name="tiny-llama", ends=[128001, 128008, 128009], bos=128000, chats=[], raw=prompts.RAW_TINY, steps=32, taps=["raw-mixed"],
        config={}, tokenizer="llama.cpp"),
    "tiny-qwen2.gguf": dict(
        name="tiny-qwen2", ends=[151643, 151645], bos=None, chats=[], raw=prompts.RAW_TINY, steps=32, taps=["raw-mixed"], config={},
        tokenizer="llama.cpp"),
    # attention.key_length is not read for qwen3: without head_dim the weights do not fit.
    "tiny-qwen3.gguf": dict(
        name="tiny-qwen3", ends=[151643, 151645], bos=None, chats=[], raw=prompts.RAW_TINY, steps=32, taps=["raw-mixed"],
        config={"head_dim": 32}, tokenizer="llama.cpp"),
    # query_pre_attn_scalar stays at its default of 256; it is the head size for every Gemma 3 but the 27B one. The vocabulary is
    # Llama 2's, for which transformers makes a tokenizer of Gemma's kind.
    "tiny-gemma3.gguf": dict(
        name="tiny-gemma3", ends=[2], bos=1, chats=[], raw=prompts.RAW_TINY, steps=32, taps=["raw-mixed"],
        config={"query_pre_attn_scalar": 32}, tokenizer="llama.cpp"),
}


def main():
    args = parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    for path in args.models:
        started = time.monotonic()
        known = MODELS[os.path.basename(path)]
        reference = make(path, known, args)
        out = os.path.join(args.out, known["name"] + ".json.gz")
        write(out, reference)
        print(f"{out}: {os.path.getsize(out)} bytes, {time.monotonic() - started:.0f} s", flush=True)


def parse_args():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL.gguf", help="one of " + ", ".join(MODELS))
    p.add_argument("--llama-server", required=True, help="llama.cpp's server, whose tokenizer is the second opinion")
    p.add_argument("--out", default=here, help="folder of the references")
    p.add_argument("--raw", help="folder for raw dumps")
    return p.parse_args()


def write(path, reference):
    text = json.dumps(reference, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", compresslevel=9, mtime=0, filename="") as z:
        z.write(text.encode())


# --- loading


def load_model(path, known, dtype):
    """The model as transformers reads it from the GGUF file, in eager attention, with what its reader misses put right."""
    folder, file = os.path.split(path)
    config = AutoConfig.from_pretrained(folder, gguf_file=file)
    for key, value in known["config"].items():
        setattr(config, key, value)
    check_config(path, config)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, config=config, dtype=dtype, attn_implementation="eager")
    model.eval()
    assert model.dtype == dtype and model.config._attn_implementation == "eager"
    return model


def check_config(path, config):
    """Stops if the configuration is not what the file's metadata say."""
    meta = metadata(path)
    arch = meta["general.architecture"]
    want = {
        "hidden_size": meta[arch + ".embedding_length"],
        "num_hidden_layers": meta[arch + ".block_count"],
        "num_attention_heads": meta[arch + ".attention.head_count"],
        "num_key_value_heads": meta[arch + ".attention.head_count_kv"],
        "rms_norm_eps": meta[arch + ".attention.layer_norm_rms_epsilon"],
        "intermediate_size": meta[arch + ".feed_forward_length"],
    }
    head = meta.get(arch + ".attention.key_length", want["hidden_size"] // want["num_attention_heads"])
    rope = config.rope_parameters
    if arch == "gemma3":
        want.update(query_pre_attn_scalar=head, sliding_window=meta[arch + ".attention.sliding_window"], _sliding_window_pattern=6,
                    hidden_activation="gelu_pytorch_tanh", final_logit_softcapping=None, attn_logit_softcapping=None)
        # The file does not say the base of the layers with a window: 10000 for all of Gemma 3.
        local, rope = rope["sliding_attention"], rope["full_attention"]
        assert local == {"rope_theta": 10000.0, "rope_type": "default"}, local
    else:
        assert not config.__dict__.get("use_sliding_window") and config.hidden_act == "silu"
    for key, value in want.items():
        assert getattr(config, key) == value, f"{key} is {getattr(config, key)}, the file says {value}"
    assert getattr(config, "head_dim", None) in (None, head), f"head_dim is {config.head_dim}, the file says {head}"
    assert rope == {"rope_theta": meta[arch + ".rope.freq_base"], "rope_type": "default"}, rope


def metadata(path):
    fields = gguf.GGUFReader(path).fields
    return {k: f.contents() for k, f in fields.items() if not k.startswith("tokenizer.ggml.")}


# --- tokens


class Tokens:
    """Both tokenizers of a model: transformers' and llama.cpp's."""

    def __init__(self, path, known, server):
        folder, file = os.path.split(path)
        self.known = known
        self.hf = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        self.server = server

    def render(self, messages):
        return self.hf.apply_chat_template(chat_messages(messages), tokenize=False, add_generation_prompt=True)

    def encode(self, name, text, special):
        theirs = self.server.tokenize(text, special)
        if self.known["tokenizer"] != "transformers":
            return theirs
        ours = self.hf(text, add_special_tokens=False).input_ids
        if self.known["bos"] is not None:
            ours = [self.known["bos"]] + ours
        if ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            raise SystemExit(f"{name}: transformers and llama.cpp differ from token {at}: {ours[at:at + 8]} and {theirs[at:at + 8]}")
        return ours


def chat_messages(texts):
    out, role = [], "user"
    for text in texts:
        if text.startswith("system: "):
            out.append({"role": "system", "content": text.removeprefix("system: ")})
            continue
        out.append({"role": role, "content": text})
        role = "assistant" if role == "user" else "user"
    return out


class Server:
    """A llama-server that is only asked for token ids, on a socket file of its own."""

    def __init__(self, program, model):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = os.path.join(self.folder.name, "llama.sock")
        command = [program, "--model", model, "--host", self.socket, "--ctx-size", "256", "--threads", "1", "--parallel", "1", "--no-warmup"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.version = subprocess.run([program, "--version"], capture_output=True, text=True).stderr.strip().splitlines()[0]

    def __enter__(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.ask("GET", "/health", None)[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        self.__exit__()
        raise SystemExit("llama-server did not start")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def ask(self, method, path, body):
        connection = http.client.HTTPConnection("llama")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(self.socket)
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def tokenize(self, text, special):
        status, body = self.ask("POST", "/tokenize", {"content": text, "add_special": True, "parse_special": special})
        if status != 200:
            raise SystemExit(f"llama-server: status {status}: {body[:200]}")
        return json.loads(body)["tokens"]


# --- the reference


def make(path, known, args):
    torch32 = load_model(path, known, torch.float32)
    meta = metadata(path)
    with Server(args.llama_server, path) as server:
        tokens = Tokens(path, known, server)
        todo = [("chat", n, tokens.render(m)) for n, m in known["chats"]] + [("raw", n, t) for n, t in known["raw"]]
        todo = [(kind, n, text, tokens.encode(n, text, kind == "chat")) for kind, n, text in todo]
        version = server.version
    if args.raw:
        dump(torch32, known, todo, args.raw)
    sample = sample_ids(torch32.config.vocab_size)
    made = []
    for kind, name, text, ids in todo:
        entry = {"name": name, "kind": kind, "text": text, "special": kind == "chat", "tokens": ids}
        entry |= answer(torch32, known, name, ids, sample)
        made.append(entry)
        print(f"  {name}: {len(ids)} + {len(entry['answer'])} tokens, smallest gap {min(entry['gap']):.4g}", flush=True)
    del torch32
    measure_noise(load_model(path, known, torch.float64), made)
    return {
        "format": FORMAT, "version": VERSION,
        "model": {
            "name": known["name"], "file": os.path.basename(path), "sha256": sha256(path), "arch": meta["general.architecture"],
            "layers": meta[meta["general.architecture"] + ".block_count"],
            "width": meta[meta["general.architecture"] + ".embedding_length"],
            "vocab": int(sample.max()) + 1, "ends": known["ends"],
        },
        "made_by": {
            "torch": torch.__version__, "transformers": transformers.__version__, "tokenizers": tokenizers.__version__,
            "gguf": importlib.metadata.version("gguf"), "accelerate": accelerate.__version__, "numpy": np.__version__, "python": platform.python_version(),
            "llama.cpp": version, "dtype": "float32", "attention": "eager", "threads": str(THREADS),
            "tokens": known["tokenizer"] + (" and llama.cpp, equal" if known["tokenizer"] == "transformers" else ""),
        },
        "sample": b64(sample),
        "prompts": made,
    }


def sample_ids(vocab):
    """SAMPLE ids spread over the vocabulary by a fixed rule, the first and the last among them."""
    step = 2654435761  # odd and far from a multiple of any vocabulary size: multiplying by it scatters
    scattered = sorted({0, vocab - 1} | {i * step % vocab for i in range(1, SAMPLE - 1)})
    extra = (i for i in range(vocab) if i not in set(scattered))
    while len(scattered) < SAMPLE:
        scattered.append(next(extra))
    return np.array(sorted(scattered), dtype=np.int32)


@torch.inference_mode()
def greedy(model, ids, steps, ends):
    """The greedy continuation with a KV cache, up to and with a token that ends it."""
    out, cache, feed = [], None, torch.tensor([ids])
    while len(out) < steps:
        result = model(feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = result.past_key_values
        out.append(int(result.logits[0, -1].argmax()))
        if out[-1] in ends:
            break
        feed = torch.tensor([[out[-1]]])
    return out


@torch.inference_mode()
def forward(model, ids, keep):
    """One pass without a cache: the logits of the last keep positions, and each layer's output and the final norm's for all."""
    taps, hooks = [], []
    for module in [*model.model.layers, model.model.norm]:
        hooks.append(module.register_forward_hook(lambda _m, _i, o: taps.append((o[0] if isinstance(o, tuple) else o)[0])))
    try:
        logits = model(torch.tensor([ids]), use_cache=False, logits_to_keep=keep).logits[0]
    finally:
        for hook in hooks:
            hook.remove()
    assert len(taps) == model.config.num_hidden_layers + 1 and len(taps[0]) == len(ids)
    return logits, taps


def answer(model, known, name, ids, sample):
    """The answer to one prompt, with its gaps, and the insides at some positions."""
    out = greedy(model, ids, known["steps"], known["ends"])
    every = ids + out[:-1]
    logits, taps = forward(model, every, len(out))
    best = logits.topk(2)
    gap, spread = best.values[:, 0] - best.values[:, 1], logits.max(1).values - logits.min(1).values
    for step, token in enumerate(out):
        if token != best.indices[step, 0] and gap[step] > 1e-5 * spread[step]:
            raise SystemExit(f"{name}: with a KV cache step {step} is {token}, without {int(best.indices[step, 0])}")
    first = len(every) - len(out)  # the position whose logits are the first of the answer
    entry = {
        "steps": known["steps"], "answer": out, "ended": out[-1] in known["ends"],
        "second": [int(b[1] if b[0] == t else b[0]) for b, t in zip(best.indices, out)],
        "gap": [round_to(g) for g in gap], "range": [round_to(s) for s in spread],
        "logits": [logits_at(logits[p - first], p, sample) for p in sorted({first, len(every) - 1})],
        "taps": [],
    }
    if name in known["taps"]:
        entry["taps"] = [{"pos": p, "values": b64(torch.stack([t[p] for t in taps]).numpy())} for p in (first // 2, first)]
    return entry


def logits_at(row, position, sample):
    top = row.topk(TOP).indices.numpy().astype(np.int32)
    return {"pos": position, "top": b64(top), "values": b64(row.numpy()[np.concatenate([sample, top])])}


def measure_noise(model, made):
    """Adds to each prompt how far its logits are from those of a pass in float64, as relative RMS."""
    exact_rope(model)
    sample = sample_ids(model.config.vocab_size)
    for entry in made:
        every = entry["tokens"] + entry["answer"][:-1]
        logits, _ = forward(model, every, len(entry["answer"]))
        first = len(every) - len(entry["answer"])
        worst = 0.0
        for at in entry["logits"]:
            ids = np.concatenate([sample, unb64(at["top"], np.int32)])
            want = logits[at["pos"] - first].numpy()[ids]
            got = unb64(at["values"], np.float32).astype(np.float64)
            worst = max(worst, float(np.sqrt(((got - want) ** 2).sum() / (want**2).sum())))
        entry["noise"] = round_to(worst)
        print(f"  {entry['name']}: noise {worst:.2g}", flush=True)


def exact_rope(model):
    """Makes the rotary positions of a float64 model float64 as well: transformers computes them in float32 whatever the model is."""
    config, rotary = model.config, model.model.rotary_emb

    def table(theta, dim, positions):
        frequency = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angle = torch.outer(positions[0].double(), frequency)
        angle = torch.cat([angle, angle], -1)[None]
        return angle.cos(), angle.sin()

    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def run(x, position_ids, layer_type=None):
        parameters = config.rope_parameters if layer_type is None else config.rope_parameters[layer_type]
        return table(parameters["rope_theta"], dim, position_ids)

    rotary.forward = run


def dump(model, known, todo, folder):
    """Raw logits and taps of all positions of the first prompt with taps."""
    os.makedirs(folder, exist_ok=True)
    for _, name, _, ids in todo:
        if name == known["taps"][0]:
            logits, taps = forward(model, ids, len(ids))
            path = os.path.join(folder, f"{known['name']}.{name}.npz")
            np.savez(path, tokens=np.array(ids, np.int32), logits=logits.numpy(), taps=torch.stack(taps).numpy())
            print(f"{path}: {len(ids)} positions", flush=True)


def b64(a):
    assert a.dtype in (np.float32, np.int32) and np.isfinite(a).all()
    return base64.b64encode(a.astype(a.dtype.newbyteorder("<")).tobytes()).decode()


def unb64(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def round_to(x):
    """A float of six digits: enough to judge by, and short."""
    return float(f"{float(x):.6g}")


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


if __name__ == "__main__":
    main()
