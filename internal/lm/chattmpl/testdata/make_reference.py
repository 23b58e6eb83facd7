#!/usr/bin/env python3
"""Render conversations.json through real chat templates, and snippets.txt, with jinja2, set up as transformers sets it up.

    pip install jinja2==3.1.6 gguf
    STOKER_TEST_LLAMA_SRC=... STOKER_TEST_MODEL_CHAT=... python3 make_reference.py

Writes reference.json.gz beside itself: for each template and conversation the text, or the error. The environment is that of
transformers' apply_chat_template (utils/chat_template_utils.py): sandbox, trim_blocks, lstrip_blocks, loop controls, generation
blocks that only print their body, its own tojson, raise_exception, and strftime_now with the clock stopped. Two things are kinder,
both as in llama.cpp, and change no text that transformers makes: lists have append (Kimi K2 fails in transformers without it), and
tools are absent when there are none, instead of None (three templates fail on None).
"""
import gzip, hashlib, json, os, pathlib
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import SandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime(2026, 3, 4, 5, 6, 7)
BOS, EOS = "<BOS>", "<EOS>"


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class Raised(jinja2.exceptions.TemplateError):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(source, c, tools):
    variables = dict(c.get("args", {}), **{"all": {"tools": tools}, "first": {"tools": tools[:1]}}.get(c.get("tools"), {}))
    try:
        text = environment().from_string(source).render(
            messages=c["messages"], add_generation_prompt=c["generation"], bos_token=BOS, eos_token=EOS, **variables)
        return {"text": text}
    except Raised as e:
        return {"raised": str(e)}
    except Exception as e:  # what the template itself trips over
        return {"error": f"{type(e).__name__}: {e}"}


def snippets():
    """Short templates of one line each, in which a return arrow stands for a newline."""
    variables = {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],
                 "d": {"a": 1, "b": "x", "é": [1, None]}, "s": "<think>a</think>\n\nb", "bos_token": BOS}
    for line in (HERE / "snippets.txt").read_text("utf-8").split("\n")[:-1]:
        source = line.replace("⏎", "\n")
        try:
            yield {"source": source, "text": environment().from_string(source).render(**variables)}
        except Exception as e:
            yield {"source": source, "error": f"{type(e).__name__}: {e}"}


def templates():
    folder = pathlib.Path(os.environ["STOKER_TEST_LLAMA_SRC"]) / "models" / "templates"
    for path in sorted(folder.glob("*.jinja")):
        yield path.name, path.read_bytes().decode("utf-8")
    from gguf import GGUFReader
    field = GGUFReader(os.environ["STOKER_TEST_MODEL_CHAT"]).get_field("tokenizer.chat_template")
    yield "SmolLM2.gguf", field.contents()


def main():
    conversations = json.loads((HERE / "conversations.json").read_text("utf-8"))
    tools = json.loads((HERE / "tools.json").read_text("utf-8"))
    out = {"jinja2": jinja2.__version__, "templates": [], "snippets": list(snippets())}
    for name, source in templates():
        out["templates"].append({
            "name": name,
            "sha256": hashlib.sha256(source.encode("utf-8")).hexdigest(),
            "renders": {c["name"]: render(source, c, tools) for c in conversations},
        })
    data = json.dumps(out, ensure_ascii=False, indent=0, sort_keys=True).encode("utf-8")
    (HERE / "reference.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    kinds = [next(iter(r)) for t in out["templates"] for r in t["renders"].values()]
    print(len(out["templates"]), "templates,", {k: kinds.count(k) for k in sorted(set(kinds))})


main()
