// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Assume} from "./Clocks.t.sol";
import {Merkle} from "contracts/commit/Merkle.sol";

/// @title PathsProof
/// @notice For trees of up to eight leaves and every index, leaf and path: an index or a length that is not the tree's
/// is refused. NOTE: a fuzz test (Merkle.t.sol) shows that a root binds its leaves: halmos 0.3.3 gives its symbolic
/// SHA-256 the length in bytes as a length in bits, and stops at every preimage that is not constant.
contract PathsProof {
    Assume private constant vm = Assume(address(uint160(uint256(keccak256("hevm cheat code")))));

    function check_anIndexOutsideIsRefused(uint8 tag, bytes32 leaf, uint256 index, bytes32[3] memory siblings)
        external
        view
    {
        for (uint256 levels = 0; levels < 4; ++levels) {
            if (index < 2 ** levels) continue;
            bytes32[] memory path = new bytes32[](levels);
            for (uint256 i = 0; i < levels; ++i) {
                path[i] = siblings[i];
            }
            try this.rootOf(tag, leaf, index, levels, path) {
                assert(false);
            } catch (bytes memory reason) {
                assert(bytes4(reason) == Merkle.IndexOutOfTree.selector);
            }
        }
    }

    function check_aPathOfAnotherLengthIsRefused(uint8 tag, bytes32 leaf, uint256 index, uint256 levels)
        external
        view
    {
        vm.assume(levels != 2);
        try this.rootOf(tag, leaf, index, levels, new bytes32[](2)) {
            assert(false);
        } catch (bytes memory reason) {
            assert(bytes4(reason) == Merkle.WrongPathLength.selector);
        }
    }

    function rootOf(uint8 tag, bytes32 leaf, uint256 index, uint256 levels, bytes32[] calldata path)
        external
        view
        returns (bytes32)
    {
        return Merkle.rootOf(tag, leaf, index, levels, path);
    }
}
