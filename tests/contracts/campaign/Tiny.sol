// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {StepProof} from "contracts/interfaces/IDataAvailability.sol";
import {Program} from "contracts/interfaces/IJobs.sol";
import {Exhibit, Match, Record} from "contracts/interfaces/IReferee.sol";

/// @title Tiny
/// @notice The smallest program with every kind of tree, and runs of it as numbers.
///
/// Two nodes, each `full` of rank 0 whose bits are 1; four steps at strides 2 and 1. A run is the outputs of its nodes,
/// two bits each: node `n` of step `t` at bit `4 (t - 1) + 2 n`. Runs that differ only in steps 1 and 3 have one root.
/// In rounded-f64 `full` is the same, and no node has a log.
abstract contract Tiny is Base {
    bytes internal constant STRUCTURE = hex"00500001010000010000000000000001";
    uint16 internal constant TRUTH = 0x5555;
    uint64 internal constant STEPS = 4;
    /// @dev A root of logs that nobody can show.
    bytes32 internal constant NONSENSE = "logs";

    bytes32 private immutable STRUCTURE_HASH = sha256(abi.encodePacked(uint8(0x03), STRUCTURE));
    bytes32[4] private _roots;
    bytes32[4] private _outputs;
    bytes32[4] private _records;

    constructor() {
        for (uint256 v = 0; v < 4; ++v) {
            _roots[v] = sha256(abi.encodePacked(uint8(0x01), leafOf(v)));
            _outputs[v] = sha256(abi.encodePacked(hex"020100", _roots[v]));
            _records[v] = sha256(
                abi.encodePacked(uint8(0x04), STRUCTURE_HASH, uint8(0), uint8(1), _outputs[v], bytes32(0))
            );
        }
    }

    // ------------------------------------------------------------------ the program

    function mode(bool withLogs) internal pure returns (uint8) {
        return withLogs ? 0x86 : 1;
    }

    function program(bool withLogs) internal view returns (Program memory p) {
        (p.opsetVersion, p.mode, p.nodeCount, p.steps) = (1, mode(withLogs), 2, STEPS);
        p.structureRoot = _pair(0x11, STRUCTURE_HASH, STRUCTURE_HASH);
        p.strides = new uint64[](2);
        (p.strides[0], p.strides[1]) = (2, 1);
    }

    // ------------------------------------------------------------------ its logs

    /// @dev Returns the root of the logs of a step.
    function stepLogs() internal view returns (bytes32) {
        return _pair(0x17, 0, 0);
    }

    /// @dev Returns the root of the logs of the run.
    function runLogs() internal view returns (bytes32) {
        bytes32 half = _pair(0x18, stepLogs(), stepLogs());
        return _pair(0x18, half, half);
    }

    function stepProof() internal view returns (StepProof memory p) {
        (p.root, p.path) = (stepLogs(), new bytes32[](2));
        (p.path[0], p.path[1]) = (stepLogs(), _pair(0x18, stepLogs(), stepLogs()));
    }

    // ------------------------------------------------------------------ values

    function leafOf(uint256 value) internal pure returns (bytes memory) {
        return abi.encodePacked(uint8(value), hex"000000");
    }

    function dataRoot(uint256 value) internal view returns (bytes32) {
        return _roots[value];
    }

    function recordHash(uint256 value) internal view returns (bytes32) {
        return _records[value];
    }

    function recordOf(uint256 value) internal view returns (Record memory r) {
        r.structure = STRUCTURE_HASH;
        r.outputs = new bytes32[](1);
        r.outputs[0] = _outputs[value];
    }

    // ------------------------------------------------------------------ runs

    function valueOf(uint16 run, uint64 t, uint64 node) internal pure returns (uint256) {
        return (run >> (4 * (t - 1) + 2 * node)) & 3;
    }

    function checkpoint(uint16 run, uint64 t) internal view returns (bytes32) {
        return _pair(0x15, _records[valueOf(run, t, 0)], _records[valueOf(run, t, 1)]);
    }

    /// @dev Returns the run root.
    function rootOf(uint16 run) internal view returns (bytes32) {
        return _pair(0x16, checkpoint(run, 2), checkpoint(run, 4));
    }

    /// @dev Returns both children of a run's node, where every tree is one level high.
    function childrenOf(uint16 run, Match memory m) internal view returns (bytes32[] memory nodes) {
        nodes = new bytes32[](2);
        if (m.level == 2) {
            (nodes[0], nodes[1]) = (_records[valueOf(run, m.end, 0)], _records[valueOf(run, m.end, 1)]);
        } else if (m.level == 1) {
            (nodes[0], nodes[1]) = (checkpoint(run, m.start + 1), checkpoint(run, m.start + 2));
        } else {
            (nodes[0], nodes[1]) = (checkpoint(run, 2), checkpoint(run, 4));
        }
    }

    /// @dev Returns a run's finer root of the disputed interval, and the path of its last leaf.
    function refinementOf(uint16 run, Match memory m)
        internal
        view
        returns (bytes32 root, bytes32[] memory path)
    {
        path = new bytes32[](1);
        path[0] = checkpoint(run, m.start + 1);
        root = _pair(0x16, path[0], checkpoint(run, m.start + 2));
    }

    function exhibitOf(uint16 run0, uint16 run1, Match memory m) internal view returns (Exhibit memory e) {
        e.record0 = recordOf(valueOf(run0, m.end, m.index));
        e.record1 = recordOf(valueOf(run1, m.end, m.index));
        e.structure = STRUCTURE;
        e.structurePath = new bytes32[](1);
        e.structurePath[0] = STRUCTURE_HASH;
    }

    function _pair(uint8 tag, bytes32 left, bytes32 right) private pure returns (bytes32) {
        return sha256(abi.encodePacked(tag, left, right));
    }
}
