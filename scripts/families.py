"""Builds a job of a small model of every class that `transformers` has for seven tasks, and writes the table of it.

    python -m scripts.families [--only PATTERN] [--again PATTERN] [--at-once 2]

Each class is built in a process of its own, within a limit of time and memory, as `assay program build` does it: the
guard compares it with eager PyTorch. Results are kept in families.jsonl beside this script, which is checked in: all of
them take hours, and a run that was interrupted continues, also elsewhere. --again drops those that match. Those of
other versions of PyTorch and `transformers` are none. The page docs/measurements/families.md is made of all there are.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import resource
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.auto import modeling_auto

from assay_capture.capture import SGD, CaptureError, Recipe, Unexpected, build

from .tiny_configs import NotTiny, tiny_model

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "scripts" / "families.jsonl"
VERSIONS = f"torch {torch.__version__}, transformers {transformers.__version__}"
PAGE = ROOT / "docs" / "measurements" / "families.md"
SECONDS, GIGABYTES = 240, 8
"""Limits of one class: seconds of a processor, and memory."""
LENGTH, IMAGE = 12, 32
TASKS = {
    "image": "IMAGE_CLASSIFICATION",
    "masked": "MASKED_LM",
    "seq2seq": "SEQ_TO_SEQ_CAUSAL_LM",
    "causal": "CAUSAL_LM",
    "sequence": "SEQUENCE_CLASSIFICATION",
    "token": "TOKEN_CLASSIFICATION",
    "question": "QUESTION_ANSWERING",
}
MOST_USED = (
    *(
        "bert",
        "gpt2",
        "llama",
        "distilbert",
        "roberta",
        "t5",
        "vit",
        "qwen2",
        "mistral",
        "bart",
        "xlm-roberta",
    ),
    *("deberta-v2", "electra", "albert", "resnet", "opt", "qwen3", "gemma3_text", "phi3", "mixtral"),
)
"""Twenty families that people train most, by downloads on the hub. They come first, and have to be right."""
RIGHT, UNCOMPARED, REFUSED, SKIPPED, FAILED = "right", "uncompared", "refused", "skipped", "FAILED"
Row = dict[str, Any]


def classes() -> list[tuple[str, str, str]]:
    """Return (task, family, class) of everything there is, the most used families first."""
    found = []
    for task, name in TASKS.items():
        for family, names in getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES").items():
            for cls in [names] if isinstance(names, str) else names:
                found.append((task, family, cls))
    order, tasks = {family: k for k, family in enumerate(MOST_USED)}, list(TASKS)
    return sorted(dict.fromkeys(found), key=lambda row: (order.get(row[1], len(order)), tasks.index(row[0])))


def outcome(task: str, family: str, cls: str) -> Row:
    """Build the job of a class. Returns what came of it; for a child process."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    row: Row = {}
    try:
        module = tiny_model(family, cls, IMAGE)
    except NotTiny as error:
        return {**row, "outcome": SKIPPED, "why": f"no small configuration: {error}"}
    row["parameters"] = sum(p.numel() for p in module.parameters())
    data = _data(task, module)
    if (why := _eager_error(module, data)) is not None:
        return {**row, "outcome": SKIPPED, "why": f"eager PyTorch: {why}"}
    job = Recipe(cls, module, None, SGD(0.01), data, steps=2, batch_size=2, initial="module")
    try:
        said = str(build(job).labels["checked"])
    except Unexpected as error:
        return {**row, "outcome": FAILED, "why": str(error)}
    except CaptureError as error:
        return {**row, "outcome": REFUSED, "why": str(error)}
    except Exception as error:
        return {**row, "outcome": FAILED, "why": f"{type(error).__name__}: {error}"}
    right = said.startswith("loss and gradients of the first step are those of PyTorch")
    return {**row, "outcome": RIGHT if right else UNCOMPARED, "why": "" if right else said}


def _data(task: str, module: torch.nn.Module) -> dict[str, Any]:
    rng, rows = np.random.default_rng(0), 4
    if task == "image":
        config = getattr(_config(module), "vision_config", _config(module))
        channels, side = getattr(config, "num_channels", 3), getattr(config, "image_size", IMAGE)
        size = tuple(side) if isinstance(side, list | tuple) else (side, side)
        pixels = rng.standard_normal((rows, channels, *size)).astype(np.float32)
        return {"pixel_values": pixels, "labels": rng.integers(0, 2, rows)}
    config = _config(module).get_text_config()
    words = rng.integers(3, min(getattr(config, "vocab_size", 100), 100) - 3, (rows, LENGTH))
    data: dict[str, Any] = {"input_ids": words}
    if task in ("causal", "masked", "seq2seq"):
        return {**data, "labels": words}
    if task == "sequence":
        if isinstance(end := getattr(config, "eos_token_id", None), int) and 0 <= end < 100:
            words[:, -1] = end  # which some classes look for
        return {**data, "labels": rng.integers(0, 2, rows)}
    if task == "token":
        return {**data, "labels": rng.integers(0, 2, (rows, LENGTH))}
    places = rng.integers(0, LENGTH, (2, rows))
    return {**data, "start_positions": places[0], "end_positions": places[1]}


def _config(module: torch.nn.Module) -> Any:
    return module.config


def _eager_error(module: torch.nn.Module, data: Mapping[str, Any]) -> str | None:
    """Return why the class cannot be trained on plain data of its task in PyTorch itself; None if it can."""
    try:
        loss = module(**{name: torch.from_numpy(array[:2]) for name, array in data.items()}).loss
        loss.backward()
        module.zero_grad()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


# ------------------------------------------------------------------------------------------------------ processes


def run_one(what: tuple[str, str, str]) -> Row:
    """Return the outcome of a class, from a child of this process. One that takes too long or too much is ended."""
    read, write = os.pipe()
    if not (child := os.fork()):
        os.close(read)
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = SECONDS + int(used.ru_utime + used.ru_stime)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
        try:
            _tell(write, {**what_of(what), **outcome(*what)})
        except BaseException as error:
            _tell(write, {**what_of(what), "outcome": FAILED, "why": repr(error)})
        finally:  # NOTE: a child that came back into the loop of its parent would run it, too
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    ended = {"outcome": SKIPPED, "why": f"ended by the limit of {SECONDS} s or {GIGABYTES} GB"}
    row: Row = json.loads(text) if text else {**what_of(what), **ended}
    return row


def what_of(what: tuple[str, str, str]) -> Row:
    return dict(zip(("task", "family", "class"), what, strict=True))


def _tell(write: int, row: Row) -> None:
    os.write(write, json.dumps({**row, "why": row["why"][:600]}).encode())


def run_all(wanted: Sequence[tuple[str, str, str]], at_once: int) -> None:
    with KEPT.open("a") as file, ThreadPoolExecutor(at_once) as pool:
        for row in pool.map(run_one, wanted):
            file.write(json.dumps({**row, "versions": VERSIONS}) + "\n")
            file.flush()
            print(row["outcome"], row["task"], row["class"], row["why"][:160], flush=True)


def kept() -> list[Row]:
    """Return the results so far, one for each class."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    rows = [json.loads(line) for line in lines]
    last = {(row["task"], row["class"]): row for row in rows if row["versions"] == VERSIONS}
    return sorted(last.values(), key=lambda row: (row["family"], row["task"], row["class"]))


# ----------------------------------------------------------------------------------------------------------- page


def page(rows: Sequence[Row]) -> Iterator[str]:
    whole = len(classes())
    yield "# Families of models\n\n"
    yield "What capture makes of each class that `transformers` has for seven tasks, as a small model (two layers,\n"
    yield "widths of 32 to 64), in training mode, on plain data of the task. `python -m scripts.families` writes this\n"
    yield f"page: {VERSIONS}, {len(rows)} of {whole} classes.\n\n"
    yield "- right: built, and the guard found loss and gradients to be PyTorch's at several weights\n"
    yield "- uncompared: built, and the guard could not compare; refused: with a reason; skipped: see the reasons\n\n"
    yield "| task | classes | right | uncompared | refused | skipped | failed | right of not skipped |\n"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|\n"
    for task in TASKS:
        yield _counts(task, [row for row in rows if row["task"] == task])
    yield _counts("all", rows)
    yield "\n## By family\n\nThe twenty most used first.\n\n"
    yield "| family | " + " | ".join(TASKS) + " |\n|---" + "|---" * len(TASKS) + "|\n"
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        cells[row["family"]][row["task"]] = row["outcome"]
    order = {family: k for k, family in enumerate(MOST_USED)}
    for family in sorted(cells, key=lambda name: (order.get(name, len(order)), name)):
        yield f"| {family} | " + " | ".join(cells[family].get(task, "") for task in TASKS) + " |\n"
    for title, which in (
        ("Refused", REFUSED),
        ("Failed", FAILED),
        ("Not compared", UNCOMPARED),
        ("Skipped", SKIPPED),
    ):
        if found := [row for row in rows if row["outcome"] == which]:
            yield f"\n## {title}\n\n| class | why |\n|---|---|\n"
            yield from _reasons(found)


def _counts(task: str, rows: Sequence[Row]) -> str:
    counts = [
        sum(row["outcome"] == which for row in rows)
        for which in (RIGHT, UNCOMPARED, REFUSED, SKIPPED, FAILED)
    ]
    tried = len(rows) - counts[3]
    share = f"{100 * counts[0] / tried:.1f} %" if tried else "-"
    return f"| {task} | {len(rows)} | " + " | ".join(map(str, counts)) + f" | {share} |\n"


def _reasons(rows: Sequence[Row]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        why = " ".join(row["why"].split()).replace("|", "\\|").replace("<", "&lt;")
        by_reason[why[:300]].append(row["class"])
    for why, names in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"| {', '.join(f'`{name}`' for name in sorted(names))} | {why} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a small model of every class of transformers.")
    parser.add_argument("--only", default="*", help="pattern of families or classes")
    parser.add_argument("--again", help="pattern of families or classes whose results are dropped")
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)

    def matches(pattern: str | None, family: str, cls: str) -> bool:
        return pattern is not None and any(fnmatch.fnmatchcase(name, pattern) for name in (family, cls))

    known = {(r["task"], r["class"]) for r in kept() if not matches(options.again, r["family"], r["class"])}
    wanted = [c for c in classes() if (c[0], c[2]) not in known and matches(options.only, c[1], c[2])]
    run_all(wanted, options.at_once)
    rows = kept()
    KEPT.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    PAGE.write_text("".join(page(rows)))
    used = [row for row in rows if row["family"] in MOST_USED and row["outcome"] not in (RIGHT, SKIPPED)]
    wrong = [row for row in rows if row["outcome"] == FAILED]
    for row in (*used, *wrong):
        print(f"{row['class']}: {row['outcome']}: {row['why']}", file=sys.stderr)
    return 1 if used or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
