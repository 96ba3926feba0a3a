// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Counting} from "./support/Counting.sol";
import {Matches} from "./support/Matches.sol";
import {Step} from "./support/Positions.sol";
import {Runs} from "./support/Runs.sol";
import {Trees} from "./support/Trees.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {Evidence, Exhibit, Position, Record} from "contracts/interfaces/IReferee.sol";

/// @notice The dearest moves of a match, for the minimum stake (trainer_node/stake/min_stake.py): records of 255
/// inputs, a structure of 8,192 bytes, step trees of 2^24 operators, run trees of 2^20 checkpoints.
abstract contract WorstMoves is Matches {
    uint32 private constant NODE = 0xABCDEF;
    uint256 private constant NODES = 24;
    uint256 private constant STEPS = 20;
    uint256 private constant INPUTS = 255;
    uint256 private constant OUTPUTS = 8;

    /// @dev Called before and after a move that is measured.
    function _begin() internal virtual;
    function _saved(string memory move) internal virtual;

    function _path(uint256 length) private pure returns (bytes32[] memory path) {
        path = new bytes32[](length);
        for (uint256 i = 0; i < length; ++i) {
            path[i] = keccak256(abi.encode(length, i));
        }
    }

    /// @dev All inputs come from operator 7; attributes fill the rest.
    function _structure() private pure returns (bytes memory encoded) {
        encoded = new bytes(8192);
        (encoded[1], encoded[2], encoded[3]) = (0x07, bytes1(uint8(INPUTS)), bytes1(uint8(OUTPUTS)));
        for (uint256 k = 0; k < INPUTS; ++k) {
            encoded[8 + 6 * k] = 0x07;
        }
        for (uint256 i = 4 + 6 * INPUTS; i < encoded.length; ++i) {
            encoded[i] = 0xA5;
        }
    }

    /// @dev The seeds give the last input and all outputs.
    function _record(uint256 input, uint256 output) private pure returns (Record memory r) {
        r.structure = sha256(abi.encodePacked(uint8(0x03), _structure()));
        r.inputs = new bytes32[](INPUTS);
        for (uint256 k = 0; k < INPUTS; ++k) {
            r.inputs[k] = keccak256(abi.encode("input", k < INPUTS - 1 ? k : 1000 + input));
        }
        r.outputs = new bytes32[](OUTPUTS);
        for (uint256 k = 0; k < OUTPUTS; ++k) {
            r.outputs[k] = keccak256(abi.encode("output", k, output));
        }
    }

    function _illFormed() private pure returns (Record memory r) {
        r = _record(0, 0);
        r.log = keccak256("log");
    }

    /// @dev Opens a match at these records, in the step tree of the only step; `source` is in the part to their left.
    function _at(Record memory record0, Record memory record1, bytes32[] memory path)
        private
        returns (uint256 id, Exhibit memory e)
    {
        (_served.nodeCount, _served.steps) = (uint32(1 << NODES) - 1, 1);
        (e.record0, e.record1, e.structure, e.structurePath) = (record0, record1, _structure(), _path(NODES));
        _served.structureRoot = Trees.climb(0x11, record0.structure, NODE, e.structurePath);
        (bytes32 node0, bytes32 node1) = (Runs.recordHash(record0), Runs.recordHash(record1));
        id = open(Trees.climb(0x15, node0, NODE, path), Trees.climb(0x15, node1, NODE, path));
        send(id, Step(Descent(NODE, node0, path, node1, path), 0, new bytes32[](0)));
    }

    function test_reveal() public {
        bytes32[] memory children = _path(16);
        bytes32 above = Trees.build(0x15, children).levels[4][0];
        bytes32[] memory path = _path(NODES - 4);
        (_served.nodeCount, _served.steps) = (uint32(1 << NODES) - 1, 1);
        uint256 id = open(Trees.climb(0x15, above, 0, path), Trees.climb(0x15, keccak256("other"), 0, path));
        send(id, Step(Descent(0, above, path, keccak256("other"), path), 0, new bytes32[](0)));
        _begin();
        reveal(id, 0, children);
        _saved("reveal");
    }

    function test_openRecord() public {
        (uint256 id, Exhibit memory e) = _at(_record(0, 0), _record(0, 1), _path(NODES));
        _begin();
        openRecord(id, 0, e.record0);
        _saved("openRecord");
    }

    function test_judgeStructure() public {
        (uint256 id, Exhibit memory e) = _at(_record(0, 0), _illFormed(), _path(NODES));
        judgeStructure(id, e);
        vm.snapshotGasLastCall("worst", "judgeStructure");
    }

    function test_judgeInput() public {
        bytes32[] memory path = _path(NODES);
        Evidence memory evidence;
        evidence.input = uint8(INPUTS - 1);
        evidence.source = _record(8, 8);
        evidence.sourcePath = _path(NODES - 1);
        path[NODES - 1] = Trees.climb(0x15, Runs.recordHash(evidence.source), 7, evidence.sourcePath);
        (uint256 id, Exhibit memory e) = _at(_record(0, 0), _record(1, 0), path);
        bytes32[] memory sourcePath = new bytes32[](NODES);
        bytes32[] memory lower = new bytes32[](NODES - 1);
        for (uint256 i = 0; i < NODES - 1; ++i) {
            (sourcePath[i], lower[i]) = (evidence.sourcePath[i], path[i]);
        }
        sourcePath[NODES - 1] =
            Trees.climb(0x15, Runs.recordHash(e.record0), NODE & ((1 << (NODES - 1)) - 1), lower);
        evidence.sourcePath = sourcePath;
        judgeInput(id, e, evidence);
        vm.snapshotGasLastCall("worst", "judgeInput");
    }

    function test_submit() public {
        (uint256 id, Exhibit memory e) = _at(_record(0, 0), _record(0, 1), _path(NODES));
        _begin();
        submit(id, e);
        _saved("submit");
    }

    function test_runTree() public {
        uint64 span = uint64(1 << STEPS);
        _served.nodeCount = uint32(1 << NODES) - 1;
        _served.steps = span * span;
        (_served.strides[0], _served.strides[1], _served.strides[2]) = (span, 2, 1);
        bytes32[] memory path = _path(STEPS - 4);
        bytes32[] memory low = _path(4);
        (bytes32 node0, bytes32 node1) = (keccak256("0"), keccak256("1"));
        (bytes32 high0, bytes32 high1) = (Trees.climb(0x16, node0, 7, low), Trees.climb(0x16, node1, 7, low));
        uint256 id = open(Trees.climb(0x16, high0, 9, path), Trees.climb(0x16, high1, 9, path));
        send(id, Step(Descent(9, high0, path, high1, path), 0, new bytes32[](0)));
        bytes32[] memory previousPath = _path(STEPS);
        for (uint256 i = 0; i < STEPS; ++i) {
            previousPath[i] = i < 4 ? low[i] : path[i - 4];
        }
        previousPath[0] = node0;
        _begin();
        referee.descend(
            id, matchTerms(id), here(id), Descent(7, node0, low, node1, low), low[0], previousPath
        );
        _saved("descend 4 levels to a checkpoint");
        // NOTE: computed here, because the gas of the last call is measured.
        Position memory at = Position(matchTerms(id).roots, [node0, node1], low[0]);
        bytes32[] memory last = _path(STEPS - 1);
        uint64 end = uint64(1 << (STEPS - 1)) - 1;
        (bytes32 finer0, bytes32 finer1) =
            (Trees.climb(0x16, node0, end, last), Trees.climb(0x16, node1, end, last));
        vm.prank(alice);
        referee.refine(id, matchTerms(id), at, 0, finer0, last);
        at.root[0] = finer0;
        vm.prank(bob);
        _begin();
        referee.refine(id, matchTerms(id), at, 1, finer1, last);
        _saved("refine");
    }
}

/// forge-config: default.isolate = true
contract WorstGasTest is WorstMoves {
    function _begin() internal pure override {}

    function _saved(string memory move) internal override {
        vm.snapshotGasLastCall("worst", move);
    }
}

/// forge-config: default.isolate = true
contract WorstCountsTest is WorstMoves, Counting {
    function _begin() internal override {
        record();
    }

    function _saved(string memory move) internal override {
        counted("counts", move);
    }
}
