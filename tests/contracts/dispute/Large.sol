// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Runs} from "../support/Runs.sol";
import {Spine, Spines} from "../support/Spines.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Dispute} from "contracts/interfaces/ICourt.sol";
import {Inputs, Opening} from "contracts/interfaces/IExaminer.sol";
import {Program} from "contracts/interfaces/IJobs.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @title Large
/// @notice A run of 1,000,000 steps at strides 1,000 and 1, of 4,096 operators on tensors of 2^26 elements, in two
/// versions that differ from one element of one operator on. Only the parts that a dispute shows are built.
///
///     node 2,748 of step 614,203: mm of [n, k] and [k, n] with n k = 2^26, the element (4711 mod n, 1234 mod n)
library Large {
    using Spines for Spine;
    using Trees for Tree;

    uint64 internal constant STEPS = 1_000_000;
    uint64 internal constant STRIDE = 1000;
    uint64 internal constant STEP = 614_203; // from 1
    uint64 internal constant COARSE = (STEP - 1) / STRIDE;
    uint64 internal constant FINE = (STEP - 1) % STRIDE;
    uint32 internal constant NODE = 2748;
    uint64 internal constant ELEMENTS = 1 << 26;
    uint64 private constant ROW = 4711;
    uint64 private constant COLUMN = 1234;
    /// @dev The step of the element's chain that is disputed in the end.
    uint64 internal constant TERM = 5000;

    // ------------------------------------------------------------------ the program

    function program(uint64 k) internal pure returns (Program memory p) {
        (p.opsetVersion, p.mode, p.nodeCount, p.slotCount, p.constantCount) = (1, 1, 4096, 300, 40);
        p.steps = STEPS;
        p.structureRoot = structures(k).root(0);
        p.slotRoot = keccak256("slots");
        p.constantRoot = keccak256("constants");
        p.initialRoot = keccak256("initial state");
        p.strides = new uint64[](2);
        (p.strides[0], p.strides[1]) = (STRIDE, 1);
    }

    function structures(uint64 k) internal pure returns (Spine memory) {
        bytes32 node = sha256(abi.encodePacked(uint8(0x03), structure(k)));
        return Spines.make(0x11, node, node, NODE, 12);
    }

    // ------------------------------------------------------------------ the runs

    /// @dev Returns each side's steps at stride 1 in the disputed interval, or its checkpoints at stride 1,000.
    function run(uint64 k, uint256 side, bool fine) internal pure returns (Tree memory) {
        uint256 first = fine ? FINE : COARSE;
        bytes32[] memory leaves = new bytes32[](1000);
        for (uint256 i = 0; i < leaves.length; ++i) {
            leaves[i] = keccak256(abi.encode("checkpoint", fine, i, i < first ? 0 : side));
        }
        if (fine) leaves[FINE] = step(k).root(side);
        else leaves[COARSE] = keccak256(abi.encode("checkpoint", true, 999, side));
        return Trees.build(0x16, leaves);
    }

    function step(uint64 k) internal pure returns (Spine memory) {
        return Spines.make(0x15, Runs.recordHash(record(k, 0)), Runs.recordHash(record(k, 1)), NODE, 12);
    }

    // ------------------------------------------------------------------ the operator

    /// @dev Returns the number of rows of the first matrix, and of columns of the second.
    function width(uint64 k) internal pure returns (uint64) {
        return ELEMENTS / k;
    }

    /// @dev Returns the disputed element.
    function element(uint64 k) internal pure returns (uint64) {
        return ROW % width(k) * width(k) + COLUMN % width(k);
    }

    /// @dev Returns the type of an input (0, 1) or of the output (2).
    function typeOf(uint64 k, uint256 which) internal pure returns (bytes memory) {
        return abi.encodePacked(hex"0102", which == 1 ? k : width(k), which == 0 ? k : width(k));
    }

    function structure(uint64 k) internal pure returns (bytes memory) {
        return
            abi.encodePacked(
                hex"00320201", hex"000000000500", hex"010000000300", hex"0102", width(k), width(k)
            );
    }

    function record(uint64 k, uint256 side) internal pure returns (Record memory r) {
        r.structure = sha256(abi.encodePacked(uint8(0x03), structure(k)));
        r.inputs = new bytes32[](2);
        r.inputs[0] = _hash(k, 0, input(k, 0).root(0));
        r.inputs[1] = _hash(k, 1, input(k, 1).root(0));
        r.outputs = new bytes32[](1);
        r.outputs[0] = _hash(k, 2, output(k).root(side));
    }

    function dispute(uint64 k) internal pure returns (Dispute memory d) {
        (d.records[0], d.records[1]) = (record(k, 0), record(k, 1));
        (d.structure, d.mode) = (structure(k), 1);
    }

    function inputs(uint64 k) internal pure returns (Inputs memory list) {
        (list.types, list.roots) = (abi.encodePacked(typeOf(k, 0), typeOf(k, 1)), new bytes32[](2));
        (list.roots[0], list.roots[1]) = (input(k, 0).root(0), input(k, 1).root(0));
    }

    function opening(uint64 k, uint8 which) internal pure returns (Opening memory) {
        Spine memory spine = input(k, which);
        return Opening(which, _operand(k, which), leaf(k, which, 0), spine.siblings);
    }

    /// @dev Returns the trees of an input: both sides have the same.
    function input(uint64 k, uint256 which) internal pure returns (Spine memory) {
        bytes32 node = _leafHash(leaf(k, which, 0));
        return Spines.make(0x10, node, node, _operand(k, which) / 256, 18);
    }

    function output(uint64 k) internal pure returns (Spine memory) {
        return
            Spines.make(0x10, _leafHash(leaf(k, 2, 0)), _leafHash(leaf(k, 2, 1)), element(k) / 256, _depth(k));
    }

    /// @dev Returns the depth of the output's tree: a leaf has 256 elements.
    function _depth(uint64 k) private pure returns (uint8 depth) {
        while (uint256(256) << depth < uint256(width(k)) * width(k)) ++depth;
    }

    /// @dev Returns the leaf with the disputed element: of an input (0, 1), or of a side's output (2).
    function leaf(uint64 k, uint256 which, uint256 side) internal pure returns (bytes memory data) {
        data = new bytes(1024);
        for (uint256 i = 0; i < 256; ++i) {
            uint32 bits = normal(uint256(keccak256(abi.encode(which, i))));
            if (which == 2 && i == element(k) % 256) bits += uint32(side);
            for (uint256 b = 0; b < 4; ++b) {
                data[4 * i + b] = bytes1(uint8(bits >> (8 * b)));
            }
        }
    }

    /// @dev Returns a binary32 between 2^-3 and 2 in magnitude, from random bits.
    function normal(uint256 random) internal pure returns (uint32) {
        return uint32((random & 0x807FFFFF) | ((124 + (random >> 32) % 4) << 23));
    }

    function _operand(uint64 k, uint256 which) private pure returns (uint64) {
        return which == 0 ? ROW % width(k) * k + TERM : TERM * width(k) + COLUMN % width(k);
    }

    function _leafHash(bytes memory data) private pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(0x01), data));
    }

    function _hash(uint64 k, uint256 which, bytes32 root) private pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(0x02), typeOf(k, which), root));
    }
}
