"""The one address of the contract Pledges of a deployment, which names the code that has created it (EIP-1014).

SAFETY: anybody can deploy the same code with other immutable values, or from a constructor of his own that writes the
storage: a pledge with no ether behind it, a credit, a challenge that never ends. No comparison of code shows the
latter. An address by CREATE2 is a hash of the creation code and its arguments, so nothing else has ever run there.
"""

from __future__ import annotations

from eth_utils.crypto import keccak
from web3 import Web3

from trainer_node.chain import Call, ChainClient
from trainer_node.chain.abi import Build
from trainer_node.chain.contracts import code_of, needs_of
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.chain.majority import agreed
from trainer_node.errors import WrongChain
from trainer_node.operate.deploy import creation_code

CONTRACT = "Pledges"
PROXY = "0x4e59b44847b379578588920cA78FbF26c0B4956C"
"""The deterministic deployment proxy, which is on nearly every chain, and in anvil from the start. Its input is a salt
and a creation code. Source: github.com/Arachnid/deterministic-deployment-proxy."""
PROXY_CODE = bytes.fromhex(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe036016000816020823780358"
    "28234f58015156039578182fd5b8082525050506014600cf3"
)
_SALT = bytes(32)


def build_of(client: ChainClient) -> Build:
    """Return the build of a deployment's contracts. Raises WrongChain, RpcUnavailable, RpcCorrupt.

    SAFETY: on a chain without CLZ the other build takes pledges, and can show no receipt wrong.
    """
    needs = client.needs or client.contracts.verify()
    newer = {*needs_of(Build.STANDARD).opcodes} - {*needs_of(Build.PORTABLE).opcodes}
    return Build.STANDARD if newer <= {*needs.opcodes} else Build.PORTABLE


def creation(client: ChainClient) -> bytes:
    """Return the code that creates the contract for a deployment."""
    deployment = client.deployment
    return creation_code(CONTRACT, deployment.jobs, deployment.referee, build=build_of(client))


def address_of(client: ChainClient) -> str:
    """Return where the contract of a deployment is, or will be."""
    named = keccak(b"\xff" + bytes.fromhex(PROXY[2:]) + _SALT + keccak(creation(client)))
    return Web3.to_checksum_address(named[12:])


def deploying(client: ChainClient) -> Call:
    """Return the call that deploys the contract. Raises WrongChain where the proxy is missing."""
    if _code(client, PROXY) != PROXY_CODE:
        raise WrongChain(
            f"chain {client.deployment.chain_id} has no deterministic deployment proxy at {PROXY}; put it there first"
        )
    return Call(f"deploy {CONTRACT}", PROXY, _SALT + creation(client))


def is_deployed(client: ChainClient) -> bool:
    """Return whether the contract of a deployment is there."""
    return bool(_code(client, address_of(client)))


def _code(client: ChainClient, address: str) -> bytes:
    return agreed(
        endpoints_of(client.web3), lambda: code_of(client.web3, address), what=f"the code of {address}"
    )
