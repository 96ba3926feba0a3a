// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Entry} from "../element/IRule.sol";
import {Hash} from "./Hash.sol";
import {Merkle} from "./Merkle.sol";

/// @notice A block of a rounding log, with its path.
struct LogBlock {
    /// @dev Number of elements of the whole log.
    uint64 elements;
    /// @dev The block's entries; empty if it has none.
    bytes entries;
    bytes32[] path;
}

/// @title Logs
/// @notice Reads a rounding log's entry for one element (docs/rounding-logs.md, section 2).
///
///     digest     09 ‖ elements u64be ‖ root, over a leaf for each block of 1,024 elements
///     leaf       0A ‖ entries; the missing leaf for a block without entries
///     entries    ascending, each u16be: place in the block << 2 | kind; after a written one its value, u32be
///
/// The Python twin is `referee_py/rounding/blocks.py`.
library Logs {
    uint256 internal constant BLOCK = 1024;

    uint8 internal constant NOTHING = 1;
    uint8 private constant WRITTEN = 3;

    /// @notice The block is not of this log.
    error AnotherLog(bytes32 have, bytes32 want);

    /// @notice Returns the entry for an element of an output with `count` elements, in the log with this digest.
    /// @dev A log of another number of elements has no entry for this output, as its first block shows.
    function entryOf(bytes32 log, uint256 count, uint256 element, LogBlock calldata shown)
        internal
        view
        returns (Entry memory)
    {
        bool fits = shown.elements == count;
        uint256 index = fits ? element / BLOCK : 0;
        bytes32 have = digest(shown, index);
        if (have != log) revert AnotherLog(have, log);
        if (!fits) return Entry({kind: NOTHING, written: 0});
        uint256 places = count - index * BLOCK;
        return readEntry(shown.entries, element % BLOCK, places < BLOCK ? places : BLOCK);
    }

    /// @notice Returns the digest of the log that has this block.
    function digest(LogBlock calldata shown, uint256 index) internal view returns (bytes32) {
        uint256 depth = Merkle.depth((uint256(shown.elements) + BLOCK - 1) / BLOCK);
        bytes32 root = Merkle.rootOf(Hash.LOG_BLOCK_TREE, leaf(shown.entries), index, depth, shown.path);
        return Hash.sha(abi.encodePacked(Hash.ROUNDING_LOG, shown.elements, root));
    }

    /// @notice Returns a block's leaf.
    function leaf(bytes calldata entries) internal view returns (bytes32) {
        return entries.length == 0
            ? Hash.empty(Hash.LOG_BLOCK_TREE)
            : Hash.sha(abi.encodePacked(Hash.LOG_BLOCK, entries));
    }

    /// @notice Returns the entry for a place in a block of `places` places; a block that no log has gives NOTHING.
    function readEntry(bytes calldata entries, uint256 place, uint256 places)
        internal
        pure
        returns (Entry memory found)
    {
        found.kind = NOTHING;
        (bool broken, uint256 hit) = _find(entries, place, places);
        if (broken) return found;
        found.kind = uint8(hit >> 32) & 3;
        if (found.kind == WRITTEN) found.written = uint32(hit);
    }

    /// @notice Returns whether a log may have this block of `places` places.
    function readable(bytes calldata entries, uint256 places) internal pure returns (bool) {
        (bool broken,) = _find(entries, BLOCK, places);
        return !broken;
    }

    /// @dev Returns a place's entry, kind ‖ value. Broken is a block that no log has: its entries do not ascend, name
    /// no element, have an unknown kind, or are cut off.
    function _find(bytes calldata entries, uint256 place, uint256 places)
        private
        pure
        returns (bool broken, uint256 hit)
    {
        hit = uint256(NOTHING) << 32;
        assembly ("memory-safe") {
            let end := add(entries.offset, entries.length)
            let least := 0
            for { let at := entries.offset } lt(at, end) {} {
                let entry := shr(208, calldataload(at)) // place ‖ kind ‖ value
                let own := shr(34, entry)
                let kind := and(shr(32, entry), 3)
                at := add(at, add(2, shl(2, eq(kind, WRITTEN))))
                // SAFETY: the word may reach beyond the entries; it is used only if the entry does not.
                broken := or(or(eq(kind, NOTHING), lt(own, least)), or(iszero(lt(own, places)), gt(at, end)))
                if broken { break }
                if eq(own, place) { hit := entry }
                least := add(own, 1)
            }
        }
    }
}
