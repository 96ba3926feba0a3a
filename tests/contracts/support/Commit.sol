// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "contracts/commit/Hash.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {Programs} from "contracts/commit/Programs.sol";
import {Records} from "contracts/commit/Records.sol";
import {Operand, Structures} from "contracts/commit/Structures.sol";
import {Tensors} from "contracts/commit/Tensors.sol";
import {Program} from "contracts/interfaces/IJobs.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @title Commit
/// @notice The libraries of `contracts/commit` as a contract, because they take calldata.
contract Commit {
    function sha(bytes memory preimage) external view returns (bytes32) {
        return Hash.sha(preimage);
    }

    function empty(uint8 tag) external view returns (bytes32) {
        return Hash.empty(tag);
    }

    function slot(uint32 node, uint8 output) external view returns (bytes32) {
        return Hash.slot(node, output);
    }

    function structure(bytes calldata encoding) external view returns (bytes32) {
        return Hash.structure(encoding);
    }

    function commitment(uint256 jobId, address sender, bytes32 root, bytes32 last, bytes32 logs, bytes32 salt)
        external
        view
        returns (bytes32)
    {
        return Hash.commitment(address(this), jobId, sender, root, last, logs, salt);
    }

    function depth(uint256 count) external pure returns (uint8) {
        return Merkle.depth(count);
    }

    /// @notice Returns the gas of `check` itself, without the call and its calldata.
    function gasOfCheck(
        uint8 tag,
        bytes32 root,
        bytes32 leaf,
        uint256 index,
        uint256 levels,
        bytes32[] calldata path
    ) external view returns (uint256 used) {
        used = gasleft();
        Merkle.check(tag, root, leaf, index, levels, path);
        used -= gasleft();
    }

    function check(
        uint8 tag,
        bytes32 root,
        bytes32 leaf,
        uint256 index,
        uint256 levels,
        bytes32[] calldata path
    ) external view {
        Merkle.check(tag, root, leaf, index, levels, path);
    }

    function fold(uint8 tag, bytes32 leaf, uint256 index, bytes32[] calldata path)
        external
        view
        returns (bytes32)
    {
        return Merkle.fold(tag, leaf, index, path);
    }

    function foldLevel(uint8 tag, bytes32[] calldata nodes, uint256 levels) external view returns (bytes32) {
        return Merkle.foldLevel(tag, nodes, levels);
    }

    function header(bytes calldata encoding) external pure returns (uint16 op, uint8 nin, uint8 nout) {
        return Structures.header(encoding);
    }

    function operand(bytes calldata encoding, uint256 i) external pure returns (Operand memory) {
        return Structures.operand(encoding, i);
    }

    function record(Record calldata r) external view returns (bytes32) {
        return Records.hash(r);
    }

    function program(Program calldata p) external view returns (bytes32) {
        return Programs.hash(p);
    }

    function checkpoints(uint64 length, uint64 stride) external pure returns (uint64) {
        return Programs.checkpoints(length, stride);
    }

    function step(uint64 t) external view returns (bytes32) {
        return Tensors.step(t);
    }
}
