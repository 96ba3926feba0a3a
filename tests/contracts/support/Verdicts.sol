// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Verdicts
/// @notice The digest that a verifier signs, written out from docs/protocol.md.
library Verdicts {
    function digest(
        uint256 chainId,
        address panel,
        uint256 hearingId,
        uint64 step,
        uint32 node,
        bytes32 record
    ) internal pure returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256(
                    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
                ),
                keccak256("Assay Panel"),
                keccak256("1"),
                chainId,
                panel
            )
        );
        bytes32 message = keccak256(
            abi.encode(
                keccak256("Verdict(uint256 hearingId,uint64 step,uint32 node,bytes32 record)"),
                hearingId,
                step,
                node,
                record
            )
        );
        return keccak256(abi.encodePacked(hex"1901", domain, message));
    }
}
