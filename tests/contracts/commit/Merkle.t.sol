// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Commit} from "../support/Commit.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Hash} from "contracts/commit/Hash.sol";
import {Merkle} from "contracts/commit/Merkle.sol";

/// @notice Paths are bound to their index and their length, and hashing never fails silently.
contract MerkleTest is Base {
    using Trees for Tree;

    Commit private commit = new Commit();

    function _leaves(uint256 count, uint256 seed) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            leaves[i] = keccak256(abi.encode(seed, i));
        }
    }

    function test_depths() public view {
        eq(commit.depth(0), 0, "no leaf");
        eq(commit.depth(1), 0, "one leaf");
        eq(commit.depth(2), 1, "two leaves");
        eq(commit.depth(3), 2, "three leaves");
        eq(commit.depth(4), 2, "four leaves");
        eq(commit.depth(5), 3, "five leaves");
        eq(commit.depth(1 << 24), 24, "2^24 leaves");
        eq(commit.depth(type(uint64).max), 64, "2^64 - 1 leaves");
    }

    function test_gasOfALevel() public {
        uint256 perLevel = (_gasOfAPath(40) - _gasOfAPath(8)) / 32;
        vm.snapshotValue("merkle", "a level of a path", perLevel);
        yes(perLevel <= 300, "a level costs at most 300 gas");
    }

    function _gasOfAPath(uint256 levels) private view returns (uint256) {
        bytes32[] memory path = _leaves(levels, 1);
        bytes32 root = Trees.climb(0x15, bytes32(uint256(2)), 0, path);
        return commit.gasOfCheck(0x15, root, bytes32(uint256(2)), 0, levels, path);
    }

    function test_fuzz_everyPathLeadsToTheRoot(uint256 count, uint256 index, uint256 seed) public view {
        Tree memory tree = Trees.build(0x15, _leaves(bound(count, 1, 70), seed));
        index = bound(index, 0, (1 << tree.depth) - 1);
        commit.check(0x15, tree.root(), tree.levels[0][index], index, tree.depth, tree.path(index));
    }

    function test_fuzz_aPathIsBoundToIndexTreeAndLength(
        uint256 count,
        uint256 index,
        uint256 other,
        uint256 seed
    ) public {
        Tree memory tree = Trees.build(0x15, _leaves(bound(count, 3, 70), seed));
        uint256 size = 1 << tree.depth;
        index = bound(index, 0, count % 68 + 2); // a real leaf, so that no two leaves are equal
        other = (index + bound(other, 1, size - 1)) % size;
        (bytes32 root, bytes32 leaf, bytes32[] memory path) =
            (tree.root(), tree.levels[0][index], tree.path(index));
        refuses(Merkle.PathMismatch.selector);
        commit.check(0x15, root, leaf, other, tree.depth, path);
        refuses(Merkle.PathMismatch.selector);
        commit.check(0x16, root, leaf, index, tree.depth, path);
        refuses(Merkle.IndexOutOfTree.selector);
        commit.check(0x15, root, leaf, index + size, tree.depth, path);
        refuses(Merkle.WrongPathLength.selector);
        commit.check(0x15, root, leaf, index, tree.depth + 1, path);
        path[seed % path.length] ^= bytes32(uint256(1));
        refuses(Merkle.PathMismatch.selector);
        commit.check(0x15, root, leaf, index, tree.depth, path);
    }

    function test_fuzz_aLevelFoldsToItsAncestor(uint256 levels, uint256 seed) public {
        levels = bound(levels, 0, 6);
        bytes32[] memory leaves = _leaves(1 << levels, seed);
        eq(commit.foldLevel(0x16, leaves, levels), Trees.build(0x16, leaves).root(), "ancestor");
        refuses(Merkle.WrongChildCount.selector);
        commit.foldLevel(0x16, leaves, levels + 1);
    }

    function test_fuzz_shaIsSha256(bytes calldata preimage) public view {
        eq(commit.sha(preimage), sha256(preimage), "digest");
    }

    function test_anUnderGassedPrecompileReverts() public {
        // Enough gas to reach the precompile (which gets 63/64 of the rest), too little to hash 32 KiB.
        bytes memory call = abi.encodeCall(commit.sha, (new bytes(1 << 15)));
        bool refused;
        for (uint256 gas = 8000; gas < 40_000; gas += 250) {
            (bool ok, bytes memory answer) = address(commit).call{gas: gas}(call);
            if (ok) eq(abi.decode(answer, (bytes32)), sha256(new bytes(1 << 15)), "never a wrong digest");
            else if (answer.length == 4 && bytes4(answer) == Hash.PrecompileFailed.selector) refused = true;
        }
        yes(refused, "the error names its cause");
    }
}
