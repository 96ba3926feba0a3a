// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Entry} from "../element/IRule.sol";
import {Hash} from "./Hash.sol";
import {Merkle} from "./Merkle.sol";

/// @notice What a rounding log says of a block of elements.
struct LogBlock {
    /// @dev Elements of the whole log.
    uint64 elements;
    /// @dev Of the block; none if it has none.
    bytes entries;
    bytes32[] path;
}

/// @title Logs
/// @notice What a rounding log says of one element (docs/rounding-logs.md, section 2).
///
///     digest     09 ‖ elements u64be ‖ root, over a leaf for each block of 1,024 elements
///     leaf       0A ‖ entries; of a block without entries the leaf that stands for none
///     entries    ascending, each u16be: place in the block << 2 | kind; behind a written one its value, u32be
///
/// The Python twin is `referee_py/rounding/blocks.py`.
library Logs {
    uint256 internal constant BLOCK = 1024;

    uint8 internal constant NOTHING = 1;
    uint8 private constant WRITTEN = 3;

    /// @notice The block is none of the log (have, want).
    error AnotherLog(bytes32 have, bytes32 want);

    /// @notice What the log of this digest says of an element of an output with `count` elements.
    /// @dev A log of another number of elements says nothing of this output: any of its blocks may be shown, the first.
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

    /// @notice The digest of the log that has this block.
    function digest(LogBlock calldata shown, uint256 index) internal view returns (bytes32) {
        uint256 depth = Merkle.depth((uint256(shown.elements) + BLOCK - 1) / BLOCK);
        bytes32 root = Merkle.rootOf(Hash.LOG_BLOCK_TREE, leaf(shown.entries), index, depth, shown.path);
        return Hash.sha(abi.encodePacked(Hash.ROUNDING_LOG, shown.elements, root));
    }

    /// @notice A block's leaf.
    function leaf(bytes calldata entries) internal view returns (bytes32) {
        return entries.length == 0
            ? Hash.empty(Hash.LOG_BLOCK_TREE)
            : Hash.sha(abi.encodePacked(Hash.LOG_BLOCK, entries));
    }

    /// @notice What a block of so many places says of one of them. A block that no log has says nothing of any.
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

    /// @notice Whether a log of so many elements may have this block.
    function readable(bytes calldata entries, uint256 places) internal pure returns (bool) {
        (bool broken,) = _find(entries, BLOCK, places);
        return !broken;
    }

    /// @dev A place's entry, kind ‖ value. Broken is what no log has: entries that do not ascend, of no element, of a kind that
    /// is none, or cut off.
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
                // SAFETY: the word may reach beyond the entries, and is used only if the entry does not.
                broken := or(or(eq(kind, NOTHING), lt(own, least)), or(iszero(lt(own, places)), gt(at, end)))
                if broken { break }
                if eq(own, place) { hit := entry }
                least := add(own, 1)
            }
        }
    }
}
