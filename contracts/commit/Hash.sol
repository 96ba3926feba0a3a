// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Hash
/// @notice SHA-256 through the precompile, and the tag bytes that keep hashes of different kinds apart.
///
/// Every preimage starts with a tag, so a hash of one kind can never be taken for another:
///
///     hash = SHA-256( tag u8 ‖ body )
library Hash {
    // Tags of single values.
    uint8 internal constant LEAF = 0x01;
    uint8 internal constant TENSOR = 0x02;
    uint8 internal constant STRUCTURE = 0x03;
    uint8 internal constant RECORD = 0x04;
    uint8 internal constant SLOT = 0x05;
    uint8 internal constant PROGRAM = 0x06;
    uint8 internal constant COMMITMENT = 0x07;
    uint8 internal constant EMPTY = 0x08;
    uint8 internal constant ROUNDING_LOG = 0x09;
    uint8 internal constant LOG_BLOCK = 0x0A;

    // Tags of trees.
    uint8 internal constant DATA_TREE = 0x10;
    uint8 internal constant STRUCTURE_TREE = 0x11;
    uint8 internal constant SLOT_TREE = 0x12;
    uint8 internal constant CONSTANT_TREE = 0x13;
    uint8 internal constant INITIAL_TREE = 0x14;
    uint8 internal constant STEP_TREE = 0x15;
    uint8 internal constant RUN_TREE = 0x16;
    uint8 internal constant LOG_TREE = 0x17;
    uint8 internal constant LOG_RUN_TREE = 0x18;
    uint8 internal constant LOG_BLOCK_TREE = 0x19;

    /// @notice The SHA-256 precompile failed, which happens only if it gets too little gas.
    error PrecompileFailed();

    /// @notice Returns the SHA-256 of a preimage that starts with its tag.
    function sha(bytes memory preimage) internal view returns (bytes32 digest) {
        assembly ("memory-safe") {
            // SAFETY: an under-gassed precompile returns nothing; a stale scratch word must never pass for a hash.
            // The call is the second operand, so it runs before `returndatasize` is read.
            let ok :=
                and(
                    eq(returndatasize(), 0x20),
                    staticcall(gas(), 2, add(preimage, 0x20), mload(preimage), 0x00, 0x20)
                )
            if iszero(ok) {
                mstore(0x00, 0x84e81692) // PrecompileFailed()
                revert(0x1c, 0x04)
            }
            digest := mload(0x00)
        }
    }

    /// @notice Returns an inner node of a tree: `H(tag ‖ left ‖ right)`.
    function pair(uint8 tag, bytes32 left, bytes32 right) internal view returns (bytes32) {
        return sha(abi.encodePacked(tag, left, right));
    }

    /// @notice Returns a structure's hash: `H(03 ‖ encoding)`.
    function structure(bytes calldata encoding) internal view returns (bytes32) {
        return sha(abi.encodePacked(STRUCTURE, encoding));
    }

    /// @notice Returns the hash of a row of the slot table: `H(05 ‖ node u32be ‖ output u8)`.
    function slot(uint32 node, uint8 output) internal view returns (bytes32) {
        return sha(abi.encodePacked(SLOT, node, output));
    }

    /// @notice Returns the leaf that stands for a missing one in the tree of this tag: `E_0 = H(08 ‖ tree tag)`.
    function empty(uint8 treeTag) internal view returns (bytes32) {
        return sha(abi.encodePacked(EMPTY, treeTag));
    }

    /// @notice Returns the commitment to a claim. It binds chain, contract, job and sender, so nobody can copy it.
    function commitment(
        address jobs,
        uint256 jobId,
        address sender,
        bytes32 root,
        bytes32 last,
        bytes32 logs,
        bytes32 salt
    ) internal view returns (bytes32) {
        return sha(abi.encodePacked(COMMITMENT, block.chainid, jobs, jobId, sender, root, last, logs, salt));
    }
}
