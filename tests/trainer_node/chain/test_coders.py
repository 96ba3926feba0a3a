"""Views and events are what web3's own contract objects make of them, for all of the contracts and any values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from eth_utils.abi import collapse_if_tuple, event_abi_to_log_topic
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from web3 import Web3
from web3.providers.base import JSONBaseProvider

from trainer_node.chain.abi import Codec, load_artifact
from trainer_node.chain.coders import event_coders, view_coder
from trainer_node.chain.contracts import NAMES, error_decoder
from trainer_node.chain.rpc import guarded
from trainer_node.errors import ChainError, ConfigError, Reverted, RpcCorrupt, RpcRefused

ADDRESS = to_checksum_address("0x" + "12" * 20)


class Answers(JSONBaseProvider):
    """An endpoint that gives one answer, and remembers the last request."""

    def __init__(self) -> None:
        super().__init__()
        self.answer, self.asked = b"", list[Any]()

    def make_request(self, method: Any, params: Any) -> Any:
        assert method == "eth_call"
        self.asked = params
        return {"jsonrpc": "2.0", "id": 1, "result": "0x" + self.answer.hex()}


def value(rng: Random, entry: Mapping[str, Any], type_: str, lengths: Sequence[int] = (0, 1, 3)) -> Any:
    if type_.endswith("]"):
        inner, _, count = type_[:-1].rpartition("[")
        length = int(count) if count else rng.choice(lengths)
        return [value(rng, entry, inner, lengths) for _ in range(length)]
    if type_ == "tuple":
        return tuple(value(rng, one, one["type"], lengths) for one in entry["components"])
    if type_ == "address":
        return to_checksum_address(rng.choice((bytes(20), rng.randbytes(20))))
    if type_ == "bool":
        return rng.random() < 0.5
    if type_ == "string":
        return rng.choice(("", "x", "ü" * 40))
    if type_.startswith("bytes"):
        return rng.randbytes(int(type_[5:]) if type_[5:] else rng.choice((0, 1, 32, 100)))
    bits = int(type_.removeprefix("uint").removeprefix("int"))
    return rng.choice((0, 1, (1 << (bits - 1)) - 1, *([] if type_.startswith("int") else [(1 << bits) - 1])))


def views(name: str) -> Sequence[Mapping[str, Any]]:
    functions = [entry for entry in load_artifact(name).abi if entry["type"] == "function"]
    once = [entry["name"] for entry in functions]
    return [
        entry
        for entry in functions
        if entry["stateMutability"] in ("view", "pure") and once.count(entry["name"]) == 1
    ]


def fixed(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all encodings of these values are of one length."""
    return not any(
        one["type"] in ("string", "bytes")
        or "[]" in one["type"]
        or (one["type"].startswith("tuple") and not fixed(one["components"]))
        for one in entries
    )


@pytest.mark.parametrize("name", [*NAMES, "Releases"])
def test_a_view_asks_and_answers_as_web3_does(name: str) -> None:
    rng, provider = Random(20), Answers()
    web3 = Web3(provider, middleware=[])
    web3.codec = Codec()
    contract: Any = web3.eth.contract(address=ADDRESS, abi=load_artifact(name).abi, decode_tuples=True)
    for entry in views(name):
        view = view_coder(contract, entry["name"])
        for _ in range(5):
            given = [value(rng, one, one["type"]) for one in entry["inputs"]]
            gives = [value(rng, one, one["type"]) for one in entry["outputs"]]
            provider.answer = web3.codec.encode([collapse_if_tuple(one) for one in entry["outputs"]], gives)
            theirs = contract.functions[entry["name"]](*given).call(block_identifier=7)
            asked = provider.asked
            request = view.request(given, 7)
            assert (request[0]["data"], request[0]["to"]) == (asked[0]["data"], asked[0]["to"])
            assert request[1] == asked[1] == "0x7"
            ours = view.result(provider.make_request("eth_call", request))
            assert plain(ours) == plain(theirs)
            assert names(ours) == names(theirs)
            for more in (bytes(1), bytes(32)):
                longer: Any = {"jsonrpc": "2.0", "id": 1, "result": "0x" + (provider.answer + more).hex()}
                if len(more) == 1 or fixed(entry["outputs"]):
                    with pytest.raises(ValueError, match="the result has"):
                        view.result(longer)


@pytest.mark.parametrize("name", [*NAMES, "Releases"])
def test_an_event_is_decoded_as_web3_does(name: str) -> None:
    rng, web3 = Random(21), Web3(Answers(), middleware=[])
    web3.codec = Codec()
    contract: Any = web3.eth.contract(address=ADDRESS, abi=load_artifact(name).abi, decode_tuples=True)
    for entry in (entry for entry in load_artifact(name).abi if entry["type"] == "event"):
        inputs = entry["inputs"]
        topic = bytes(event_abi_to_log_topic(entry))  # type: ignore[arg-type]
        for _ in range(5):
            given = {one["name"]: value(rng, one, one["type"]) for one in inputs}
            coded = {
                one["name"]: web3.codec.encode([collapse_if_tuple(one)], [given[one["name"]]])
                for one in inputs
            }
            topics = [topic, *(coded[one["name"]] for one in inputs if one["indexed"])]
            others = [one for one in inputs if not one["indexed"]]
            data = web3.codec.encode(
                [collapse_if_tuple(one) for one in others], [given[one["name"]] for one in others]
            )
            log: dict[str, Any] = {
                "address": ADDRESS,
                "topics": list(map(HexBytes, topics)),
                "data": HexBytes(data),
            }
            log |= {"blockNumber": 1, "logIndex": 0, "transactionIndex": 0, "removed": False}
            log |= {"transactionHash": HexBytes(bytes(32)), "blockHash": HexBytes(bytes(32))}
            theirs = contract.events[entry["name"]]().process_log(log)["args"]
            ours = event_coders(contract)[topic].args(topics, data)
            assert list(ours) == list(theirs)
            assert plain(ours) == plain(theirs)
            assert names(ours) == names(theirs)
            with pytest.raises(RpcCorrupt, match="topics"):
                event_coders(contract)[topic].args([*topics, topic], data)


@pytest.mark.parametrize("name", [*NAMES, "Releases"])
def test_long_results_are_within_the_bound_of_the_decoder(name: str) -> None:
    """So long that the spare bytes do not count: every result, error and event of every contract."""
    rng, codec = Random(23), Codec()
    for entry in load_artifact(name).abi:
        given = entry.get("outputs") if entry["type"] == "function" else entry.get("inputs")
        if not given:
            continue
        types = [collapse_if_tuple(one) for one in given] * 40
        values = [value(rng, one, one["type"], (0, 20)) for _ in range(40) for one in given]
        data = codec.encode(types, values)
        assert codec.encode(types, codec.decode(types, data)) == data


def plain(found: Any) -> Any:
    """Return lists in place of structs and arrays. NOTE: web3 gives the structs of events as mappings."""
    found = list(found.values()) if isinstance(found, Mapping) else found
    return [plain(one) for one in found] if isinstance(found, list | tuple) else found


def names(found: Any) -> Any:
    """Return the fields' names of every struct in a result."""
    if isinstance(found, Mapping):
        return tuple(found), [names(one) for one in found.values()]
    if not isinstance(found, list | tuple):
        return None
    inside = [names(one) for one in found]
    return (getattr(found, "_fields", None), inside) if inside else None


def test_a_name_that_no_function_has_is_refused() -> None:
    contract: Any = Web3(Answers()).eth.contract(address=ADDRESS, abi=load_artifact("Jobs").abi)
    with pytest.raises(ConfigError, match="not one function jobs, but 0"):
        view_coder(contract, "jobs")


ANSWERS: dict[str, tuple[dict[str, Any], type[ChainError]]] = {
    "a revert": ({"error": {"code": 3, "message": "execution reverted", "data": "0x"}}, Reverted),
    "a revert, nested": ({"error": {"code": -32000, "message": "", "data": {"data": "0x1234"}}}, Reverted),
    "a refusal": ({"error": {"code": -32000, "message": "header not found"}}, RpcRefused),
    "a refusal with odd data": ({"error": {"code": -32000, "message": "x", "data": [1]}}, RpcRefused),
    "nothing": ({"result": "0x"}, RpcCorrupt),
    "null": ({"result": None}, RpcCorrupt),
    "a number": ({"result": 7}, RpcCorrupt),
    "a list": ({"result": ["0x"]}, RpcCorrupt),
    "no hexadecimal": ({"result": "0xzz"}, RpcCorrupt),
    "half a byte": ({"result": "0x123"}, RpcCorrupt),
    "seven more bytes": ({"result": "0x" + "00" * 7}, RpcCorrupt),
    "a short word": ({"result": "0x" + "00" * 31}, RpcCorrupt),
    "pointers to anywhere": ({"result": "0x" + "ff" * 32 * 8}, RpcCorrupt),
    "a phase that is not a u8": ({"result": "0x" + "01" + "00" * 31 + "00" * 32 * 40}, RpcCorrupt),
    "an endless list": ({"result": "0x" + ("00" * 31 + "a0") * 5 + "7f" + "ff" * 31}, RpcCorrupt),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_whatever_is_no_result_is_an_error_of_ours(case: str) -> None:
    answer, expected = ANSWERS[case]
    contract: Any = Web3(Answers()).eth.contract(address=ADDRESS, abi=load_artifact("Jobs").abi)
    with pytest.raises(ChainError) as caught, guarded("viewOf", error_decoder()):
        view_coder(contract, "viewOf").result({"jsonrpc": "2.0", "id": 1, **answer})  # type: ignore[typeddict-item]
    assert type(caught.value) is expected


@pytest.mark.parametrize("data", [b"", b"\0", bytes(31), b"\xff" * 320])
def test_a_log_that_cannot_be_decoded_is_an_error_of_ours(data: bytes) -> None:
    contract: Any = Web3(Answers()).eth.contract(address=ADDRESS, abi=load_artifact("Referee").abi)
    topic, coder = next(pair for pair in event_coders(contract).items() if pair[1].name == "RecordOpened")
    with pytest.raises(RpcCorrupt), guarded("eth_getLogs"):
        coder.args([topic, bytes(32)], data)
    with pytest.raises(RpcCorrupt), guarded("eth_getLogs"):
        coder.args([topic, b"\1"], data)
