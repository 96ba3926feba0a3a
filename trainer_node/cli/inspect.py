"""Commands that read programs: `assay program show`, `stats`, `diff` and `canonicalise`. They need no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from referee_py.errors import InvalidEncoding, InvalidInput

from .arithmetic import mode_words
from .common import JsonOption, out, printable, show_json, show_rows

if TYPE_CHECKING:
    from referee_py.program import Program
    from referee_py.program.canonical import Canonical
    from referee_py.program.describe import Graph, Line, Names
    from referee_py.program.describe_diff import Difference

    from ..local.bundle import Bundle

_COUNT = 60
_LARGEST = 8
CHECKED_CHARS = 600
"""Characters that are shown of what a bundle says of its comparison with PyTorch: what counts may be its end."""


@dataclass(frozen=True)
class Opened:
    """A bundle, a program file or a skeleton file that was read."""

    path: Path
    graph: Graph
    names: Names
    bundle: Bundle | None = None

    @classmethod
    def read(cls, path: Path) -> Opened:
        """Read and check an untrusted path. Raises InvalidInput, HashMismatch or Unavailable."""
        from referee_py.program import MAX_FILE_BYTES
        from referee_py.program.describe import Names

        from ..local.bundle import Bundle

        if path.is_dir():
            bundle = Bundle.read(path)
            return cls(path, bundle.program, Names.of(bundle.labels, bundle.program), bundle)
        if not path.is_file():
            raise InvalidInput(f"{path} does not exist; give a bundle, a program file or a skeleton file")
        with path.open("rb") as file:
            graph = _parse(file.read(MAX_FILE_BYTES + 1))
        return cls(path, graph, Names())

    @property
    def file_bytes(self) -> int:
        return len(self.graph.to_bytes())


def _parse(data: bytes) -> Graph:
    from referee_py.program.read import read_program, read_skeleton

    try:
        return read_program(data)
    except InvalidEncoding as error:
        try:
            return read_skeleton(data)
        except InvalidEncoding:
            raise error from None


_PathArgument = Annotated[Path, typer.Argument(help="A bundle, a program file or a skeleton file.")]


def show(
    path: _PathArgument,
    nodes: Annotated[bool, typer.Option("--nodes", help="List nodes too.")] = False,
    op: Annotated[str | None, typer.Option(help="List only nodes of this operator.")] = None,
    label: Annotated[str | None, typer.Option(help="List only nodes with this text in their label.")] = None,
    first: Annotated[int, typer.Option("--from", help="List nodes from this number on.", min=0)] = 0,
    count: Annotated[int, typer.Option(help="List this many nodes; 0 lists all.", min=0)] = _COUNT,
    as_json: JsonOption = False,
) -> None:
    """Check a program and show its contents."""
    from referee_py.program.describe import lines

    opened = Opened.read(path)
    wanted = nodes or op is not None or label is not None or first
    if as_json:
        every = (one for one in lines(opened.graph, opened.names, op=op, label=label) if one.node >= first)
        listing = [asdict(one) for one in islice(every, count or None)] if wanted else []
        show_json({**summary(opened), **({"listed": listing} if wanted else {})})
        return
    show_summary(opened)
    if not wanted:
        return
    listed = (found for found in lines(opened.graph, opened.names, op=op, label=label) if found.node >= first)
    rest = 0
    for number, found in enumerate(listed):
        if count and number >= count:
            rest += 1
            continue
        _show_line(found)
    if rest:
        out.print(f"  {rest} more; continue with --from, or list all with --count 0", style="dim")


def show_summary(opened: Opened) -> None:
    """Print what a program is."""
    bundle = opened.bundle
    title = f"{printable(bundle.name)}  {opened.path}" if bundle is not None else str(opened.path)
    show_rows(title, summary(opened))


def summary(opened: Opened) -> dict[str, Any]:
    """Return what a program is, by name."""
    from referee_py.program import Program
    from referee_py.program.describe_stats import stats

    graph, bundle = opened.graph, opened.bundle
    rows: dict[str, Any] = {}
    if bundle is not None:
        rows["program hash"] = bundle.terms.hash().hex()
    rows["structure root"] = graph.structure_root.hex()
    if isinstance(graph, Program):
        rows |= {"constant root": graph.constant_root.hex(), "initial root": graph.initial_root.hex()}
        rows["program file"] = f"{graph.file_hash().hex()}  {opened.file_bytes:,} bytes"
    found = stats(graph)
    rows["nodes"] = len(graph.nodes)
    rows["slots"] = f"{len(graph.slots)} ({found.state_elements:,} elements)"
    rows["constants"] = f"{len(graph.constants)} ({found.constant_bytes:,} bytes)"
    if bundle is not None:
        rows |= {"steps": bundle.terms.steps, "strides": ", ".join(map(str, bundle.terms.strides))}
        rows["arithmetic"] = mode_words(bundle.terms.mode)
        rows |= {"advice": advice} if (advice := advice_on(bundle)) else {}
    rows["opset"] = graph.opset
    if bundle is not None:
        rows["metrics"] = ", ".join(printable(name) for name in sorted(opened.names.metrics)) or "none"
        rows |= (
            {"checked": printable(str(checked), CHECKED_CHARS)}
            if (checked := bundle.labels.get("checked"))
            else {}
        )
    return rows


def advice_on(bundle: Bundle) -> str | None:
    """Return the advice on a bundle's mode, or None if another would change nothing."""
    from repops.opset import BF16, Arithmetic

    from referee_py.program.modes import MODES, USUAL

    sums = [node for node in bundle.program.nodes if node.row.arithmetic is Arithmetic.SUM]
    # NOTE: of the operators that add, only contractions take bf16.
    products = sum(bundle.program.type_of(node.inputs[0]).dtype == BF16 for node in sums)
    chosen, narrow = bundle.terms.arithmetic, next(mode for mode in MODES if mode.for_bf16)
    if products and not chosen.for_bf16:
        return f"{products} products of bf16, which tensor cores compute with --mode {narrow.name}"
    if not products and chosen.for_bf16:
        return f"no products of bf16, so {narrow.name} is {USUAL.name}; autocast to bf16 makes them"
    return None


def stats_command(
    path: _PathArgument,
    largest: Annotated[int, typer.Option(help="Number of largest tensors to list.", min=0)] = _LARGEST,
) -> None:
    """Show the cost of one step of a program: nodes, operations, memory, the largest tensors. Nothing is run."""
    from referee_py.execute.plan import StepPlan
    from referee_py.program import Program
    from referee_py.program.describe_stats import stats

    opened = Opened.read(path)
    graph = opened.graph
    found = stats(graph, largest)
    rows: dict[str, object] = {
        "nodes": f"{found.nodes:,}",
        "state": f"{len(graph.slots):,} slots, {found.state_elements:,} elements, {found.state_bytes:,} bytes",
        "constants": f"{len(graph.constants):,}, {found.constant_bytes:,} bytes",
        "operations": f"{found.flops:,} a step",
        "intermediates": f"{found.intermediate_bytes:,} bytes per step",
    }
    if isinstance(graph, Program):
        rows["most at once"] = f"{StepPlan(graph).peak_bytes:,} bytes, besides constants and the state before"
    rows["file"] = f"{opened.file_bytes:,} bytes"
    if opened.bundle is not None:
        rows["arithmetic"] = mode_words(opened.bundle.terms.mode)
    show_rows(str(path), rows)
    table = table_of("operator", "nodes", "operations", "share")
    for name, number in found.nodes_by_operator.items():
        flops = found.flops_by_operator.get(name, 0)
        share = f"{100 * flops / found.flops:.1f} %" if flops else "-"
        table.add_row(name, f"{number:,}", f"{flops:,}", share)
    out.print(table)
    if found.largest:
        out.print(Text("largest tensors", style="bold"))
        for size, node, _ in found.largest:
            out.print(Text.assemble((f"  {size:>17,} bytes  ", "dim"), _place(opened, node)), soft_wrap=True)


def diff(
    first: _PathArgument,
    second: _PathArgument,
    limit: Annotated[int, typer.Option(help="Most differences of a kind to list.", min=1)] = 20,
) -> None:
    """Compare two programs: terms, hyperparameters, the first different node, tensors. Exits with 1 if they differ."""
    from referee_py.program.describe_diff import differences

    one, two = Opened.read(first), Opened.read(second)
    found = differences(one.graph, two.graph, one.names, two.names)
    terms = _terms(one.bundle, two.bundle)
    sections: dict[str, Sequence[Difference]] = {
        "terms": (*terms, *found.counts),
        "hyperparameters": found.scalars,
        "first different node": () if found.structure is None else (found.structure,),
        "sources of slots": found.slots,
        "constants": found.constants,
        "initial state": found.initial,
    }
    for title, differs in sections.items():
        if differs:
            _show_differences(title, differs, limit)
    if any(sections.values()):
        alike = "the same graph with other numbers" if found.same_structure else "different graphs"
        out.print(f"{alike}: {sum(map(len, sections.values()))} differences")
        raise typer.Exit(1)
    out.print("the same program")


def canonicalise(
    path: _PathArgument,
    target: Annotated[Path, typer.Argument(help="Path to write: a folder for a bundle, else a file.")],
) -> None:
    """Write a program in its canonical form: the same bits, no unneeded node, in an order given by the graph alone."""
    from referee_py.execute.plan import StepPlan
    from referee_py.program import Program, SlotSource
    from referee_py.program.canonical import canonical_program, canonical_skeleton

    opened = Opened.read(path)
    program: Graph
    if isinstance(opened.graph, Program):
        metrics = {name: SlotSource(*place) for name, place in opened.names.metrics.items()}
        program, found = canonical_program(opened.graph, list(metrics.values()))
    else:
        program = canonical_skeleton(opened.graph).skeleton
    if opened.bundle is None:
        target.write_bytes(program.to_bytes())
    else:
        assert isinstance(program, Program)
        _canonical_bundle(opened.bundle, opened.names, program, found).write(target)
    show_rows(
        str(target),
        {
            "nodes": f"{len(opened.graph.nodes):,} -> {len(program.nodes):,}",
            "constants": f"{len(opened.graph.constants):,} -> {len(program.constants):,}",
            "most at once": f"{StepPlan(opened.graph).peak_bytes:,} -> {StepPlan(program).peak_bytes:,} bytes",
            "structure root": program.structure_root.hex(),
        },
    )


def _canonical_bundle(bundle: Bundle, names: Names, program: Program, found: Canonical) -> Bundle:
    """Return the bundle of the canonical program; each name moves with its node, constant or metric."""
    from referee_py.program.terms import Terms

    from ..local.bundle import Bundle

    places = dict(zip(names.metrics, found.keep, strict=True))
    labels: dict[str, Any] = {
        **bundle.labels,
        "nodes": [names.label(node) if node >= 0 else "" for node in found.nodes],
        "constants": [names.constants[k] for k in found.constants] if names.constants else [],
        "metrics": {name: [place.node, place.output] for name, place in places.items()},
    }
    constants = tuple(bundle.constants[k] for k in found.constants)
    terms = Terms.of(program, bundle.terms.steps, bundle.terms.strides, bundle.terms.mode)
    return Bundle(bundle.name, program, terms, constants, bundle.initial, labels)


# ------------------------------------------------------------------------------------------------------- rendering


def _show_line(found: Line) -> None:
    inputs = printable(found.inputs, 200)
    out.print(
        Text.assemble(
            (f"{found.node:8}  ", "dim"),
            (f"{found.op:12} ", "bold"),
            (f"{found.outputs:24} ", "cyan"),
            inputs,
            (f"  {printable(found.label, 120)}", "dim"),
        ),
        soft_wrap=True,
    )


def _place(opened: Opened, node: int) -> str:
    from referee_py.program.describe import line

    found = line(opened.graph, node, opened.names)
    return f"%{node} {found.op} {found.outputs}  {printable(found.label, 120)}".rstrip()


def _show_differences(title: str, found: Sequence[Difference], limit: int) -> None:
    out.print(Text(title, style="bold"), soft_wrap=True)
    for difference in found[:limit]:
        out.print(Text("  " + printable(difference.what, 200)), soft_wrap=True)
        out.print(Text.assemble(("    - ", "red"), printable(difference.first, 400)), soft_wrap=True)
        out.print(Text.assemble(("    + ", "green"), printable(difference.second, 400)), soft_wrap=True)
    if len(found) > limit:
        out.print(f"  {len(found) - limit} more; raise --limit", style="dim")


def _terms(first: Bundle | None, second: Bundle | None) -> list[Difference]:
    """Return the differences of the terms besides the graph. Only bundles have terms."""
    from referee_py.program.describe_diff import Difference

    if first is None or second is None:
        return []
    shown: dict[str, Callable[[Any], str]] = {"steps": str, "strides": str, "mode": mode_words}
    pairs = ((name, getattr(first.terms, name), getattr(second.terms, name)) for name in shown)
    return [Difference(name, shown[name](a), shown[name](b)) for name, a, b in pairs if a != b]


def table_of(*headings: str) -> Table:
    """Make a table without lines: the first column left-aligned, the others right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left", no_wrap=True)
    return table
