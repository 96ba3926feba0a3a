"""Calls, events and views of the contracts, by declarations that are compared with the contracts' ABIs at import.

Calls   the functions that messages call: from a message to name and arguments, and back
Fold    takes events: one method for each kind of event, with the fields that it needs as parameters
View    reads a struct that a view returns into a dataclass, by the names of the fields

SAFETY: a name or a type that no contract has raises ConfigError when a module is imported, not in a dispute. What an
endpoint gives is decoded to values of the declared types, or refused as RpcCorrupt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import IntEnum
from inspect import isfunction, signature
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from hexbytes import HexBytes
from web3.contract import Contract

from referee_py.commit.structs import hints_of, value_of, words
from referee_py.errors import InvalidEncoding
from referee_py.walk.sides import sides

from ...errors import ConfigError, RpcCorrupt
from ..abi import abi_entry
from ..events import Event
from ..rpc import guarded

MAX_NESTING = 4
"""Depth of multicalls in multicalls that is decoded."""
MAX_CALLS = 4096
"""Calls of one transaction that are read. NOTE: gas limits them to fewer that do something."""

Made = tuple[str, list[object]]
"""A function of a contract, and its arguments as the ABI coder takes them."""
T = TypeVar("T")


def known(kind: type[T], raw: Any, of: str) -> T:
    """Return an endpoint's answer as a value of some type (`value_of`). Raises RpcCorrupt if it does not fit."""
    try:
        return value_of(kind, raw)
    except InvalidEncoding as error:
        raise RpcCorrupt(f"{of}: {error}") from error


def hidden(of: str, posted: int, lacks: Sequence[bool]) -> str | None:
    """Return that a side has posted what no event shows; None if there is none. ``lacks``: by side."""
    side = next((side for side in sides(posted) if lacks[side]), None)
    told = f"{of}: side {side} has posted, but the endpoint has no event of it; use one with complete logs, "
    return None if side is None else told + "clocks are running"


# --- names and types of the contracts ---------------------------------------------------------------------------


def contract_name(name: str) -> str:
    """Return the contracts' spelling of one of our names: ``commitEnd`` for ``commit_end``."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def fits(kind: Any, entry: Mapping[str, Any], type_: str | None = None) -> bool:
    """Return whether values of a kind are coded as an entry of an ABI says; ``type_``: of this type instead."""
    name = type_ or entry["type"]
    args = get_args(kind) if get_origin(kind) is tuple else ()
    if name.endswith("]"):
        inner, _, count = name[:-1].rpartition("[")
        if args[1:] == (...,):
            return not count and fits(args[0], entry, inner)
        return count == str(len(args)) and all(fits(one, entry, inner) for one in args)
    if name == "tuple":
        kinds = tuple(hints_of(kind).values()) if is_dataclass(kind) else args
        return _fit(kinds, entry["components"])
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        kind = int
    return name.rstrip("0123456789") in _PLAIN.get(kind, ())


_PLAIN: dict[Any, tuple[str, ...]] = {
    int: ("uint", "int"),
    bytes: ("bytes",),
    str: ("string", "address"),
    bool: ("bool",),
}


def _fit(kinds: Iterable[Any], entries: Sequence[Mapping[str, Any]]) -> bool:
    kinds = tuple(kinds)
    return len(kinds) == len(entries) and all(map(fits, kinds, entries))


def _named(name: str, kind: Any, entries: Iterable[Mapping[str, Any]], of: str) -> str:
    """Return the contracts' name of one of our fields. Raises ConfigError unless there is one that fits the kind."""
    spelled = contract_name(name)
    if not any(entry["name"] == spelled and fits(kind, entry) for entry in entries):
        raise ConfigError(f"{of} has no {spelled} that is coded as {kind}; declare what the contract has")
    return spelled


# --- calls ------------------------------------------------------------------------------------------------------


class Message(Protocol):
    """A dataclass that a function of a contract takes: the fields are its arguments, or those of its only struct."""

    @property
    def function(self) -> str: ...


M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class _Function:
    kind: type[Any]
    shown: tuple[str | None, ...]
    """The name of each argument that is shown with the message, and None for each of the message itself."""
    whole: bool
    """True if the message is one struct."""


class Calls(Generic[M]):
    """The functions of a contract that take messages of some kinds. ``shown`` are the arguments next to a message."""

    def __init__(self, contract: str, shown: Mapping[str, Any], *kinds: type[M]) -> None:
        """Raises ConfigError unless the contract has a function for each kind that takes its fields."""
        self._functions: dict[str, _Function] = {}
        for kind in kinds:
            name = str(kind.function)
            inputs = abi_entry(contract, "function", name)["inputs"]
            own = [entry for entry in inputs if entry["name"] not in shown]
            beside = [entry for entry in inputs if entry["name"] in shown]
            whole = len(own) == 1 and fits(kind, own[0])
            if not (whole or _fit(hints_of(kind).values(), own)) or not _fit(
                (shown[entry["name"]] for entry in beside), beside
            ):
                raise ConfigError(f"{contract}.{name} does not take a {kind.__name__}; declare what it takes")
            names = tuple(entry["name"] if entry in beside else None for entry in inputs)
            self._functions[name] = _Function(kind, names, whole)

    def encode(self, message: M, **shown: object) -> Made:
        """Return the function that takes a message, and its arguments. Each of ``shown`` is used if it is asked for."""
        function, own = self._functions[message.function], words(message)
        rest = iter([own] if function.whole else own)
        return message.function, [
            next(rest) if name is None else words(shown[name]) for name in function.shown
        ]

    def decode(self, function: str, arguments: Sequence[Any]) -> tuple[M, dict[str, Any]] | None:
        """Return the message and what is shown with it, still raw; None if the function takes none of ours.

        Raises InvalidEncoding for arguments of another shape.
        """
        if function not in self._functions:
            return None
        about = self._functions[function]
        pairs = list(zip(about.shown, arguments, strict=True))
        own = [raw for name, raw in pairs if name is None]
        message: M = value_of(about.kind, own[0] if about.whole else own)
        return message, {name: raw for name, raw in pairs if name is not None}


def calls_in(contract: Contract, data: bytes) -> Iterator[tuple[str, list[Any]]]:
    """Yield the functions and arguments in calldata, with multicalls taken apart. Raises errors of web3, and ValueError
    for more than `MAX_CALLS`."""
    if contract not in _all_named:
        # NOTE: some arguments have no name, and the decoder uses names.
        abi = [
            {
                **entry,
                "inputs": [{**one, "name": one["name"] or f"_{n}"} for n, one in enumerate(entry["inputs"])],
            }
            for entry in contract.abi
            if entry["type"] == "function"
        ]
        _all_named[contract] = contract.w3.eth.contract(abi=abi)
    left, read = [(data, 0)], 0
    while left:
        here, nesting = left.pop()
        read += 1
        # SAFETY: calls of a multicall may share their bytes, and each of them may be a multicall.
        if read > MAX_CALLS:
            raise ValueError(f"a transaction of more than {MAX_CALLS} calls")
        function, arguments = _all_named[contract].decode_function_input(HexBytes(here))
        if function.fn_name == "multicall" and nesting < MAX_NESTING:
            left += [(bytes(inner), nesting + 1) for inner in reversed(arguments["data"])]
        else:
            yield function.fn_name, list(arguments.values())


_all_named: WeakKeyDictionary[Contract, type[Contract]] = WeakKeyDictionary()
"""Contracts of functions whose arguments all have names."""


# --- events -----------------------------------------------------------------------------------------------------


class Fold:
    """State of one thing by the events of a contract. ``on_descended(self, node0, node1)`` takes these two
    fields of `Descended` as values of the annotated types; events without a method are passed over."""

    names: ClassVar[tuple[str, ...]] = ()
    """The events that are taken."""
    _fields: ClassVar[dict[str, tuple[Callable[..., None], dict[str, tuple[str, Any]]]]] = {}

    def __init_subclass__(cls, contract: str) -> None:
        """Raises ConfigError unless the contract has each event with these fields."""
        cls._fields = {}
        for name, method in vars(cls).items():
            if name.startswith("on_") and isfunction(method):
                event = contract_name(f"_{name.removeprefix('on_')}")
                entries = abi_entry(contract, "event", event)["inputs"]
                hints, (_, *parameters) = get_type_hints(method), signature(method).parameters
                of = f"event {contract}.{event}"
                fields = {one: (_named(one, hints[one], entries, of), hints[one]) for one in parameters}
                cls._fields[event] = method, fields
        cls.names = tuple(cls._fields)

    def take(self, event: Event) -> None:
        """Take one event. Raises RpcCorrupt if it does not fit."""
        method, fields = self._fields.get(event.name, (None, {}))
        if method is not None:
            of = f"event {event.name}"
            with guarded(of):
                method(
                    self, **{name: known(kind, event.args[key], of) for name, (key, kind) in fields.items()}
                )

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """Return the state after these events, in their order. Raises RpcCorrupt."""
        found = cls()
        for event in events:
            found.take(event)
        return found


# --- views ------------------------------------------------------------------------------------------------------


class View(Generic[T]):
    """Reads a struct that a view returns into a dataclass. ``output`` is its name in the view's outputs, if it has one.

    ``beside`` are the fields that the caller gives; every other field has the name and type of one in the struct.
    """

    def __init__(self, kind: type[T], contract: str, view: str, output: str = "", beside: str = "") -> None:
        """Raises ConfigError if the struct lacks a field."""
        outputs = abi_entry(contract, "function", view)["outputs"]
        struct = next(entry for entry in outputs if entry["name"] == output)["components"]
        self._kind = kind
        self._fields = [
            (name, _named(name, hint, struct, f"{contract}.{view}"), hint)
            for name, hint in hints_of(kind).items()
            if name not in beside.split()
        ]

    def read(self, of: str, raw: Any, **beside: Any) -> T:
        """Return the dataclass from the decoded struct. Raises RpcCorrupt about ``of``."""
        found = {name: known(kind, getattr(raw, key), of) for name, key, kind in self._fields}
        return self._kind(**found, **beside)
