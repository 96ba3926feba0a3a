// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "./Trees.sol";
import {Program} from "contracts/interfaces/IJobs.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @notice The way in which a run deviates from the program.
enum Kind {
    None,
    Output,
    Input,
    Structure,
    Log,
    ExtraOutput,
    StepPadding,
    RunPadding
}

struct Fault {
    Kind kind;
    uint64 step;
    uint32 node;
    uint8 input;
    /// @dev Distinguishes two wrong values.
    uint256 seed;
}

/// @notice A run with all its records. `records[t][i]`, `t` from 1; `checkpoint[t]`, `t` from 0.
struct Run {
    Fault fault;
    Record[][] records;
    bytes32[] checkpoint;
}

/// @title Runs
/// @notice A small program whose operators are hashes, and runs of it, right and wrong.
///
///     0: (slot 0, constant 1)   1: (step)   2: (0, 1) -> two outputs   3: (slot 1, second of 2)   4: (3)
///     slot 0 = first of 2       slot 1 = 4
///
/// Ten steps at strides 4, 2, 1; so every kind of tree has padding: 3 checkpoints, 5 nodes, 3 constants.
library Runs {
    using Trees for Tree;

    uint64 internal constant STEPS = 10;
    uint32 internal constant NODES = 5;
    uint32 internal constant CONSTANTS = 3;

    // ------------------------------------------------------------------ the program

    function program() internal pure returns (Program memory p) {
        p.opsetVersion = 1;
        p.mode = 1;
        p.nodeCount = NODES;
        p.slotCount = 2;
        p.constantCount = CONSTANTS;
        p.steps = STEPS;
        p.structureRoot = structureTree().root();
        p.slotRoot = slotTree().root();
        p.constantRoot = constantTree().root();
        p.initialRoot = initialTree().root();
        p.strides = new uint64[](3);
        (p.strides[0], p.strides[1], p.strides[2]) = (4, 2, 1);
    }

    function structure(uint256 node) internal pure returns (bytes memory) {
        bytes memory scalar = hex"0100"; // one output: f32, rank 0
        if (node == 0) return abi.encodePacked(hex"00010201", hex"010000000000", hex"020000000100", scalar);
        if (node == 1) return abi.encodePacked(hex"00020101", hex"030000000000", scalar);
        if (node == 2) {
            return abi.encodePacked(hex"00030202", hex"000000000000", hex"000000000100", scalar, scalar);
        }
        if (node == 3) return abi.encodePacked(hex"00040201", hex"010000000100", hex"000000000201", scalar);
        return abi.encodePacked(hex"00050101", hex"000000000300", scalar);
    }

    function structureHash(uint256 node) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(0x03), structure(node)));
    }

    function structureTree() internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](NODES);
        for (uint256 i = 0; i < NODES; ++i) {
            leaves[i] = structureHash(i);
        }
        return Trees.build(0x11, leaves);
    }

    function slotTree() internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](2);
        leaves[0] = sha256(abi.encodePacked(uint8(0x05), uint32(2), uint8(0)));
        leaves[1] = sha256(abi.encodePacked(uint8(0x05), uint32(4), uint8(0)));
        return Trees.build(0x12, leaves);
    }

    function constantTree() internal pure returns (Tree memory) {
        return Trees.build(0x13, _named("constant", CONSTANTS));
    }

    function initialTree() internal pure returns (Tree memory) {
        return Trees.build(0x14, _named("initial", 2));
    }

    // ------------------------------------------------------------------ a run of it

    function right() internal pure returns (Run memory) {
        return wrong(Fault(Kind.None, 0, 0, 0, 0));
    }

    function wrong(Fault memory fault) internal pure returns (Run memory) {
        return make(fault, false);
    }

    /// @dev A rounded run follows the logs below.
    function make(Fault memory fault, bool rounded) internal pure returns (Run memory run) {
        run.fault = fault;
        run.records = new Record[][](STEPS + 1);
        run.checkpoint = new bytes32[](STEPS + 1);
        run.checkpoint[0] = initialTree().root();
        bytes32[] memory state = _named("initial", 2);
        for (uint64 t = 1; t <= STEPS; ++t) {
            run.records[t] = _step(state, t, fault, rounded);
            run.checkpoint[t] = stepTree(run, t).root();
            state[0] = run.records[t][2].outputs[0];
            state[1] = run.records[t][4].outputs[0];
        }
    }

    function stepTree(Run memory run, uint64 t) internal pure returns (Tree memory) {
        bool padded = run.fault.kind == Kind.StepPadding && run.fault.step == t;
        bytes32[] memory leaves = new bytes32[](padded ? NODES + 1 : NODES);
        for (uint256 i = 0; i < NODES; ++i) {
            leaves[i] = recordHash(run.records[t][i]);
        }
        if (padded) leaves[NODES] = keccak256(abi.encode("padding", run.fault.seed));
        return Trees.build(0x15, leaves);
    }

    function runTree(Run memory run, uint64 stride, uint64 start, uint64 end)
        internal
        pure
        returns (Tree memory)
    {
        uint64 count = (end - start + stride - 1) / stride;
        bool padded = run.fault.kind == Kind.RunPadding && start == 0 && end == STEPS;
        bytes32[] memory leaves = new bytes32[](padded ? count + 1 : count);
        for (uint64 k = 0; k < count; ++k) {
            uint64 t = start + (k + 1) * stride;
            leaves[k] = run.checkpoint[t < end ? t : end];
        }
        if (padded) leaves[count] = keccak256(abi.encode("padding", run.fault.seed));
        return Trees.build(0x16, leaves);
    }

    function root(Run memory run) internal pure returns (bytes32) {
        return runTree(run, 4, 0, STEPS).root();
    }

    function recordHash(Record memory r) internal pure returns (bytes32) {
        return sha256(
            abi.encodePacked(
                uint8(0x04),
                r.structure,
                uint8(r.inputs.length),
                uint8(r.outputs.length),
                r.inputs,
                r.outputs,
                r.log
            )
        );
    }

    function stepTensor(uint64 t) internal pure returns (bytes32) {
        bytes memory little = new bytes(8);
        for (uint256 i = 0; i < 8; ++i) {
            little[i] = bytes1(uint8(t >> (8 * i)));
        }
        bytes32 leaf = sha256(abi.encodePacked(uint8(0x01), little));
        return sha256(abi.encodePacked(uint8(0x02), uint8(2), uint8(0), leaf));
    }

    // ------------------------------------------------------------------ its logs

    /// @dev Returns the log of a node in a step: node 1 has none.
    function log(uint64 t, uint256 node) internal pure returns (bytes32) {
        return node == 1 ? bytes32(0) : keccak256(abi.encode("the log", t, node));
    }

    function logTree(uint64 t) internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](NODES);
        for (uint256 i = 0; i < NODES; ++i) {
            leaves[i] = log(t, i);
        }
        return Trees.build(0x17, leaves);
    }

    function runLogTree() internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](STEPS);
        for (uint64 t = 1; t <= STEPS; ++t) {
            leaves[t - 1] = logTree(t).root();
        }
        return Trees.build(0x18, leaves);
    }

    // ------------------------------------------------------------------ one step

    function _step(bytes32[] memory state, uint64 t, Fault memory fault, bool rounded)
        private
        pure
        returns (Record[] memory rows)
    {
        rows = new Record[](NODES);
        bytes32[] memory constants = _named("constant", CONSTANTS);
        rows[0] = _node(0, t, _two(state[0], constants[1]), fault, rounded);
        rows[1] = _node(1, t, _one(stepTensor(t)), fault, rounded);
        rows[2] = _node(2, t, _two(rows[0].outputs[0], rows[1].outputs[0]), fault, rounded);
        rows[3] = _node(3, t, _two(state[1], rows[2].outputs[1]), fault, rounded);
        rows[4] = _node(4, t, _one(rows[3].outputs[0]), fault, rounded);
    }

    function _node(uint32 i, uint64 t, bytes32[] memory inputs, Fault memory fault, bool rounded)
        private
        pure
        returns (Record memory r)
    {
        Kind kind = fault.step == t && fault.node == i ? fault.kind : Kind.None;
        if (kind == Kind.Input) inputs[fault.input] = keccak256(abi.encode("wrong", fault.seed));
        r.structure = kind == Kind.Structure ? keccak256(abi.encode(fault.seed)) : structureHash(i);
        r.inputs = inputs;
        r.outputs = new bytes32[]((i == 2 ? 2 : 1) + (kind == Kind.ExtraOutput ? 1 : 0));
        for (uint256 o = 0; o < r.outputs.length; ++o) {
            r.outputs[o] = keccak256(abi.encode(i, inputs, o, kind == Kind.Output ? fault.seed + 1 : 0));
        }
        if (rounded) r.log = log(t, i);
        if (kind == Kind.Log) r.log = keccak256(abi.encode("log", fault.seed));
    }

    function _one(bytes32 a) private pure returns (bytes32[] memory list) {
        list = new bytes32[](1);
        list[0] = a;
    }

    function _two(bytes32 a, bytes32 b) private pure returns (bytes32[] memory list) {
        list = new bytes32[](2);
        (list[0], list[1]) = (a, b);
    }

    function _named(string memory name, uint256 count) private pure returns (bytes32[] memory list) {
        list = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            list[i] = keccak256(abi.encode(name, i));
        }
    }
}
