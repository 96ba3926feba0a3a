"""Answers that providers and clients of Ethereum really give: a row for each, with the thread where it was seen."""

from __future__ import annotations

from .quirk_kinds import (
    Quirk,
    a_second,
    empty,
    in_blocks,
    known,
    lacking,
    late_receipts,
    logs,
    lost_data,
    nested,
    no_pending,
    nth,
    old_nonces,
    one_argument,
    refusing,
    reverts,
    sometimes,
)

WORDS = {
    "alchemy": "Under the Free tier plan, you can make eth_getLogs requests with up to a 5 block range.",
    "infura": "project ID request rate exceeded",
    "pending": "pending block number is not supported: method not implemented",
}
QUIRKS = (
    Quirk("logs: HTTP 400", "boundless-xyz/boundless#838", logs(5, refusing(400, -32600, WORDS["alchemy"]))),
    Quirk(
        "logs: HTTP 413",
        "OffchainLabs/arbitrum-sdk#609",
        logs(5, refusing(413, -32614, "eth_getLogs is limited to a 5 range")),
    ),
    Quirk(
        "logs: -32602",
        "INFURA/infura#237",
        logs(5, refusing(200, -32602, "range 1000000 exceeds limit of 5")),
    ),
    Quirk(
        "logs: the words in data",
        "bobanetwork/boba_legacy#827",
        logs(
            5,
            refusing(
                200,
                -32602,
                "invalid params",
                {"error_id": "4ed9", "payload": "range 9009594 is bigger than range limit 5"},
            ),
        ),
    ),
    Quirk(
        "logs: -32005, range",
        "0xPolygon/cdk-erigon#1706",
        logs(5, refusing(200, -32005, "block range too large, max range: 5")),
    ),
    Quirk(
        "logs: HTTP 500",
        "scroll-tech/go-ethereum#529",
        logs(5, refusing(500, -32000, "block range is bigger than maxBlockRange")),
    ),
    Quirk(
        "logs: HTTP 403",
        "llamanodes/web3-proxy#231",
        logs(5, refusing(403, -32701, "Please specify an address in your request")),
    ),
    Quirk(
        "pending refused",
        "iotexproject/iotex-core#4640",
        no_pending(refusing(200, -32000, WORDS["pending"])),
        told="knows no pending block",
    ),
    Quirk(
        "pending nonces: internal error",
        "mybucks-online/app#63",
        no_pending(refusing(200, -32603, "Internal error"), ("eth_getTransactionCount",)),
        told="knows no pending block",
    ),
    Quirk("8 requests a second", "INFURA/infura#201", a_second(8), told="compute units per second capacity"),
    Quirk(
        "429: over rate limit",
        "foundry-rs/foundry#10938",
        sometimes(0.05, ("eth_call", "eth_getLogs"), refusing(429, -32016, "over rate limit")),
        told="over rate limit",
    ),
    Quirk(
        "rate in HTTP 200",
        "reown-com/blockchain-api#1102",
        sometimes(0.1, ("eth_call",), refusing(200, -32029, "limit")),
        told="limit",
    ),
    Quirk(
        "rate with a back-off",
        "ethers-io/ethers.js#640",
        sometimes(
            0.05,
            ("eth_call",),
            refusing(200, -32005, WORDS["infura"], {"allowed_rps": 10.0, "backoff_seconds": 1.0}),
        ),
        told=WORDS["infura"],
    ),
    Quirk(
        "a month's capacity used",
        "ethers-io/ethers.js#5071",
        sometimes(
            1.0, ("eth_call", "eth_getLogs"), refusing(429, -32000, "Monthly capacity limit exceeded.")
        ),
        told="Monthly capacity limit exceeded",
        works=False,
    ),
    Quirk(
        "second chain id refused",
        "ethers-io/ethers.js#1260",
        nth("eth_chainId", 2, refusing(200, -32005, WORDS["infura"])),
        early=True,
    ),
    Quirk(
        "extraData of 97 bytes",
        "ApeWorX/web3.py#3464",
        after=in_blocks(lambda block: block.update(extraData="0x" + "ab" * 97)),
    ),
    Quirk(
        "no base fee",
        "ethereum/EIPs#1559",
        after=in_blocks(lambda block: block.pop("baseFeePerGas", None)),
        told="base fee",
        works=False,
    ),
    Quirk("receipts 6 s late", "NethermindEth/nethermind#2424", after=late_receipts(6.0)),
    Quirk("empty results", "erigontech/erigon#7356", after=empty(0.2), told="no result at block"),
    Quirk(
        "header not found",
        "erigontech/erigon#7356",
        sometimes(0.3, ("eth_call", "eth_getLogs"), refusing(200, -32000, "header not found")),
        told="header not found",
    ),
    Quirk(
        "missing trie nodes",
        "0xPolygon/bor#109",
        sometimes(
            0.3,
            ("eth_call",),
            refusing(200, -32000, "missing trie node 90bb0d5f (path ) state 0x90bb is not available"),
        ),
        told="missing trie node",
    ),
    Quirk(
        "estimates of one argument",
        "hiero-ledger/hiero-json-rpc-relay#493",
        one_argument,
        told="too many arguments",
    ),
    Quirk("nonces from a machine behind", "cowprotocol/services#64", after=old_nonces),
    Quirk("reverts: nested", "hiero-ledger/hiero-json-rpc-relay#493", after=reverts(nested)),
    Quirk(
        "reverts: HTTP 400",
        "hiero-ledger/hiero-json-rpc-relay#2830",
        after=reverts(lambda _r, told, _d: told, 400),
    ),
    Quirk(
        "reverts: HTTP 500",
        "safe-global/safe-eth-py#225",
        after=reverts(
            lambda _r, _t, data: {
                "code": -32015,
                "message": "VM execution error.",
                "data": "Reverted " + data,
            },
            500,
        ),
    ),
    Quirk(
        "reverts: in the message",
        "ConsenSys-archive/ganache#480",
        after=reverts(lambda _r, _t, data: {"code": -32603, "message": f"execution reverted: {data}"}),
    ),
    Quirk("reverts: no data", "0xPolygon/zkevm-node#2026", after=reverts(lost_data)),
    Quirk("AlreadyKnown", "NethermindEth/nethermind#4148", after=known(-32010, "AlreadyKnown")),
    Quirk("ALREADY_EXISTS", "xclud/web3dart#100", after=known(-32000, "ALREADY_EXISTS: already known")),
    Quirk(
        "events of claims pruned",
        "ethereum/EIPs#4444",
        after=lacking("Claimed"),
        told="has no event of",
    ),
)
