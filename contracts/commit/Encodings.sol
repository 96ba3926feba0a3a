// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Dispute, TrialPosition, TrialTerms} from "../interfaces/ICourt.sol";
import {MatchTerms} from "../interfaces/IReferee.sol";

/// @title Encodings
/// @notice Computes `keccak256(abi.encode(..))` of structs that moves show, without encoding them field by field:
/// calldata has them in this form already.
///
/// SAFETY: calldata may have a struct in another form (offsets out of order, dirty words), which is hashed as it lies.
/// But the result is compared with the hash of a true encoding. If they are equal, the hashed words are that encoding,
/// and every offset in them leads to the right place.
library Encodings {
    uint256 private constant WORD = 0x20;
    /// @dev Words of match terms before the program, of a program before its strides, and of a record before its lists.
    uint256 private constant MATCH_TERMS_HEAD = 7;
    uint256 private constant PROGRAM_HEAD = 11;
    uint256 private constant RECORD_HEAD = 4;
    uint256 private constant TRIAL_TERMS_WORDS = 5;
    uint256 private constant SAID_WORDS = 8;

    /// @notice Hashes `(jobs, jobId, matchTerms)`.
    function hash(address jobs, uint256 jobId, MatchTerms calldata matchTerms)
        internal
        pure
        returns (bytes32 digest)
    {
        uint256 length = (MATCH_TERMS_HEAD + PROGRAM_HEAD + 1 + matchTerms.program.strides.length) * WORD;
        assembly ("memory-safe") {
            let start := mload(0x40)
            mstore(start, jobs)
            mstore(add(start, 0x20), jobId)
            mstore(add(start, 0x40), 0x60)
            calldatacopy(add(start, 0x60), matchTerms, length)
            digest := keccak256(start, add(0x60, length))
        }
    }

    /// @notice Hashes `(dispute)`.
    function hash(Dispute calldata dispute) internal pure returns (bytes32 digest) {
        // Three words and two offsets; for each record its head and two lists; the structure, to a whole word.
        uint256 words = 5 + 2 * (RECORD_HEAD + 2) + 1 + (dispute.structure.length + WORD - 1) / WORD;
        for (uint256 side = 0; side < 2; ++side) {
            words += dispute.records[side].inputs.length + dispute.records[side].outputs.length;
        }
        assembly ("memory-safe") {
            let start := mload(0x40)
            let length := mul(words, 0x20)
            mstore(start, 0x20)
            calldatacopy(add(start, 0x20), dispute, length)
            digest := keccak256(start, add(0x20, length))
        }
    }

    /// @notice Hashes `(trialTerms)`.
    function hash(TrialTerms calldata trialTerms) internal pure returns (bytes32) {
        uint256 offset;
        assembly ("memory-safe") {
            offset := trialTerms
        }
        return _hash(offset, TRIAL_TERMS_WORDS * WORD);
    }

    /// @notice Hashes `(position)`.
    function hash(TrialPosition calldata position) internal pure returns (bytes32) {
        uint256 offset;
        assembly ("memory-safe") {
            offset := position
        }
        return _hash(offset, SAID_WORDS * WORD);
    }

    /// @notice Hashes `(position)` from memory.
    function encoded(TrialPosition memory position) internal pure returns (bytes32 digest) {
        assembly ("memory-safe") {
            let start := mload(0x40)
            let nodes := mload(position)
            let values := mload(add(position, 0x20))
            let states := mload(add(position, 0x60))
            mstore(start, mload(nodes))
            mstore(add(start, 0x20), mload(add(nodes, 0x20)))
            mstore(add(start, 0x40), mload(values))
            mstore(add(start, 0x60), mload(add(values, 0x20)))
            mstore(add(start, 0x80), mload(add(position, 0x40)))
            mstore(add(start, 0xa0), mload(states))
            mstore(add(start, 0xc0), mload(add(states, 0x20)))
            mstore(add(start, 0xe0), mload(add(position, 0x80)))
            digest := keccak256(start, 0x100)
        }
    }

    function _hash(uint256 offset, uint256 length) private pure returns (bytes32 digest) {
        assembly ("memory-safe") {
            let start := mload(0x40)
            calldatacopy(start, offset, length)
            digest := keccak256(start, length)
        }
    }
}
