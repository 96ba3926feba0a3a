// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Requested} from "./Requested.sol";
import {Piece, Place, RecordPiece, Subject, TensorPiece} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, IJobs, Terms} from "contracts/interfaces/IJobs.sol";

/// @title Steady
/// @notice A run of 64 equal checkpoints, so that many can be requested: step 2 of the run of Requested.
abstract contract Steady is Requested {
    using Trees for Tree;

    uint256 private constant LEVELS = 6;

    /// @dev Returns the root, and the path of every leaf.
    function steadyTree() internal pure returns (bytes32 node, bytes32[] memory path) {
        (node, path) = (stepTree(2).root(), new bytes32[](LEVELS));
        for (uint256 i = 0; i < LEVELS; ++i) {
            path[i] = node;
            node = sha256(abi.encodePacked(uint8(0x16), node, node));
        }
    }

    /// @dev Opens a job in which the first person has claimed the run, and enters its challenge phase.
    function steadyClaimed() internal returns (Subject memory s) {
        Terms memory t = terms(1);
        (t.program.nodeCount, t.program.steps) = (3, uint64(1 << LEVELS));
        t.program.strides = new uint64[](1);
        t.program.strides[0] = 1;
        Claim memory c;
        (c.root, c.lastPath) = steadyTree();
        (c.last, c.uri) = (c.lastPath[0], "http://claim");
        (s.jobs, s.jobId, s.root) = (IJobs(address(jobs)), post(t), c.root);
        join(s.jobId, person(1));
        bytes32 commitment = jobs.commitmentOf(s.jobId, person(1), c.root, c.last, 0, "salt");
        vm.prank(person(1));
        jobs.commit(s.jobId, commitment);
        vm.prank(person(1));
        jobs.reveal(s.jobId, c, 0, "salt");
    }

    function steadyRecord(Place memory place) internal pure returns (RecordPiece memory a) {
        (a.record, a.recordPath) = (recordAt(2, place.node), stepTree(2).path(place.node));
        (, a.checkpointPath) = steadyTree();
        a.checkpoint = a.checkpointPath[0];
    }

    /// @dev Returns the call that answers: for a leaf that does not exist it shows only the record.
    function steadyAnswer(Subject memory s, Place memory place) internal view returns (bytes memory) {
        RecordPiece memory a = steadyRecord(place);
        if (place.piece == Piece.Record) {
            return abi.encodeCall(dataAvailability.provideRecord, (s, place, a));
        }
        TensorPiece memory none;
        return abi.encodeCall(dataAvailability.provideLeaf, (s, place, a, none));
    }

    function steadyAnswered(Subject memory s, Place memory place) internal {
        bytes memory data = steadyAnswer(s, place);
        vm.prank(AUTHOR);
        (bool done,) = address(dataAvailability).call(data);
        yes(done, "it is answered");
    }
}
