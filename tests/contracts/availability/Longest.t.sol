// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Runs} from "../support/Runs.sol";
import {Trees} from "../support/Trees.sol";
import {
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    StepProof,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, IJobs, Terms} from "contracts/interfaces/IJobs.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @notice The longest answer of each kind, in the deepest trees that a program may have: 2^24 nodes, 2^48 steps that
/// are checkpoints, 255 inputs, tensors of 2^40 elements less one. Each fits a transaction of 100,000 bytes and 12
/// million gas, and is paid.
/// forge-config: default.isolate = true
contract LongestTest is Market {
    uint256 private constant NODE_DEPTH = 24;
    uint256 private constant RUN_DEPTH = 48;
    uint64 private constant STEPS = (1 << 48) - 1;
    /// @dev Depths of the block tree of 2^40 elements less one, and of their data tree as i64.
    uint256 private constant BLOCK_DEPTH = 30;
    uint256 private constant DATA_DEPTH = 33;
    address private constant AUTHOR = address(0xA017);

    /// @dev Returns a path of arbitrary siblings, and the root to which it leads.
    function _path(uint8 tag, bytes32 leaf, uint256 index, uint256 depth)
        private
        pure
        returns (bytes32 node, bytes32[] memory path)
    {
        (node, path) = (leaf, new bytes32[](depth));
        for (uint256 i = 0; i < depth; ++i) {
            path[i] = keccak256(abi.encode(tag, i));
            bool right = (index >> i) & 1 == 1;
            node = right
                ? sha256(abi.encodePacked(tag, path[i], node))
                : sha256(abi.encodePacked(tag, node, path[i]));
        }
    }

    /// @dev Returns the longest record, with the longest tensor as its last output.
    function _record(bytes32 tensor) private pure returns (Record memory r) {
        r.structure = sha256("structure");
        (r.inputs, r.outputs) = (new bytes32[](255), new bytes32[](8));
        for (uint256 i = 0; i < 255; ++i) {
            r.inputs[i] = keccak256(abi.encode(i));
        }
        r.outputs[7] = tensor;
    }

    function _tensor() private pure returns (TensorPiece memory t, bytes32 hash) {
        t.leaf = new bytes(1024);
        for (uint256 i = 0; i < 1024; ++i) {
            t.leaf[i] = 0xA7;
        }
        (t.root, t.path) = _path(0x10, sha256(abi.encodePacked(uint8(0x01), t.leaf)), 0, DATA_DEPTH);
        (t.shape.dtype, t.shape.dims) = (2, new uint64[](8));
        bytes memory dims;
        for (uint256 i = 0; i < 8; ++i) {
            t.shape.dims[i] = i == 0 ? (1 << 40) - 1 : 1;
            dims = abi.encodePacked(dims, t.shape.dims[i]);
        }
        hash = sha256(abi.encodePacked(uint8(0x02), uint8(2), uint8(8), dims, t.root));
    }

    function _recordPiece(bytes32 tensor) private pure returns (RecordPiece memory a) {
        a.record = _record(tensor);
        (a.checkpoint, a.recordPath) = _path(0x15, Runs.recordHash(a.record), 0, NODE_DEPTH);
        (, a.checkpointPath) = _path(0x16, a.checkpoint, STEPS - 1, RUN_DEPTH);
    }

    function _logPiece() private pure returns (LogPiece memory a, bytes32 root_) {
        a.elements = (1 << 40) - 1;
        a.blocks = new bytes[](8);
        bytes memory entries = new bytes(6144);
        for (uint256 i = 0; i < 1024; ++i) {
            bytes6 entry = bytes6(uint48((i << 2 | 3) << 32 | 0xC1234567));
            for (uint256 k = 0; k < 6; ++k) {
                entries[6 * i + k] = entry[k];
            }
        }
        bytes32[] memory leaves = new bytes32[](8);
        for (uint256 i = 0; i < 8; ++i) {
            a.blocks[i] = entries;
            leaves[i] = sha256(abi.encodePacked(uint8(0x0A), entries));
        }
        (a.root, a.path) = _path(0x19, Trees.root(Trees.build(0x19, leaves)), 0, BLOCK_DEPTH - 3);
        a.log = sha256(abi.encodePacked(uint8(0x09), a.elements, a.root));
        (a.step.root, a.logPath) = _path(0x17, a.log, 0, NODE_DEPTH);
        (root_, a.step.path) = _path(0x18, a.step.root, 0, RUN_DEPTH);
    }

    function _digests()
        private
        pure
        returns (bytes32[] memory found, bytes32[] memory path, StepProof memory step, bytes32 logs)
    {
        found = new bytes32[](256);
        for (uint256 i = 0; i < 256; ++i) {
            found[i] = keccak256(abi.encode("digest", i));
        }
        (step.root, path) = _path(0x17, Trees.root(Trees.build(0x17, found)), 0, NODE_DEPTH - 8);
        (logs, step.path) = _path(0x18, step.root, 0, RUN_DEPTH);
    }

    /// @dev Opens a job whose one trainer claims this run, with these logs.
    function _claim(Terms memory t, RecordPiece memory run, bytes32 logs) private returns (Subject memory s) {
        (t.program.nodeCount, t.program.steps) = ((1 << 24) - 1, STEPS);
        t.program.strides = new uint64[](1);
        t.program.strides[0] = 1;
        (s.jobs, s.jobId) = (IJobs(address(jobs)), post(t));
        join(s.jobId, person(1));
        Claim memory c;
        (c.last, c.lastPath, c.uri) = (run.checkpoint, run.checkpointPath, "http://claim");
        (c.root,) = _path(0x16, run.checkpoint, STEPS - 1, RUN_DEPTH);
        bytes32 commitment = jobs.commitmentOf(s.jobId, person(1), c.root, c.last, logs, "s");
        vm.prank(person(1));
        jobs.commit(s.jobId, commitment);
        vm.prank(person(1));
        jobs.reveal(s.jobId, c, logs, "s");
        s.root = logs == 0 ? c.root : logs;
    }

    function _request(Subject memory s, Place memory place) private {
        Place[] memory list = new Place[](1);
        list[0] = place;
        dataAvailability.request{value: dataAvailability.depositOf(place.piece, PRICE)}(s, list);
    }

    /// @dev Checks the limits of a move (docs/protocol.md, section 8), and that it is paid more than it costs.
    function _fits(string memory name, bytes memory data) private {
        uint256 before = dataAvailability.credit(AUTHOR);
        vm.prank(AUTHOR);
        (bool done, bytes memory reason) = address(dataAvailability).call(data);
        uint256 gas = vm.snapshotGasLastCall("Requests", string.concat("longest ", name));
        if (!done) revert(string(reason));
        yes(data.length <= 100_000, string.concat(name, ": ", vm.toString(data.length), " bytes"));
        vm.snapshotValue("Requests", string.concat("longest ", name, ", bytes"), data.length);
        yes(gas <= 12_000_000, string.concat(name, ": ", vm.toString(gas), " gas"));
        uint256 paid = dataAvailability.credit(AUTHOR) - before;
        yes(paid > gas * PRICE, string.concat(name, " is paid"));
        vm.snapshotValue("Requests", string.concat("longest ", name, ", paid"), paid / PRICE);
    }

    function _anyRun() private pure returns (RecordPiece memory run) {
        run = _recordPiece(0);
    }

    function test_theLongestDigestsFit() public {
        (bytes32[] memory found, bytes32[] memory path, StepProof memory step, bytes32 logs) = _digests();
        Subject memory s = _claim(roundedTerms(), _anyRun(), logs);
        Place memory place = Place(Piece.Digests, 1, 0, 0, 0);
        _request(s, place);
        _fits("digests", abi.encodeCall(dataAvailability.provideDigests, (s, place, found, path, step)));
    }

    /// @dev A page in which every element has a value of its own: 49,152 bytes.
    function test_theLongestPageFits() public {
        (LogPiece memory a, bytes32 logs) = _logPiece();
        Subject memory s = _claim(roundedTerms(), _anyRun(), logs);
        Place memory place = Place(Piece.Blocks, 1, 0, 0, 0);
        _request(s, place);
        _fits("blocks", abi.encodeCall(dataAvailability.provideBlocks, (s, place, a)));
    }

    function test_theLongestRecordFits() public {
        RecordPiece memory a = _recordPiece(keccak256("tensor"));
        Subject memory s = _claim(terms(1), a, 0);
        Place memory place = Place(Piece.Record, STEPS - 1, 0, 0, 0);
        _request(s, place);
        _fits("record", abi.encodeCall(dataAvailability.provideRecord, (s, place, a)));
    }

    function test_theLongestLeafFits() public {
        (TensorPiece memory t, bytes32 tensor) = _tensor();
        RecordPiece memory a = _recordPiece(tensor);
        Subject memory s = _claim(terms(1), a, 0);
        Place memory place = Place(Piece.Leaf, STEPS - 1, 0, 256 + 7, 0);
        _request(s, place);
        _fits("leaf", abi.encodeCall(dataAvailability.provideLeaf, (s, place, a, t)));
    }
}
