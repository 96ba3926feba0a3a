// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Trees} from "../support/Trees.sol";
import {Demanded} from "./Demanded.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {
    DemandState,
    IDemands,
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    StepProof,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDemands.sol";
import {Claim, IJobs} from "contracts/interfaces/IJobs.sol";

/// @notice Every place that can be demanded has an answer, what else is shown is none, and its author is paid.
/// forge-config: default.isolate = true
contract AnswersTest is Demanded {
    uint256 private _job = runClaimed();

    function _places() private pure returns (Place[] memory list) {
        list = new Place[](16);
        list[0] = digests(1);
        list[1] = digests(5);
        list[2] = blocks(1, 0, 0);
        list[3] = blocks(3, 1, 1);
        list[4] = blocks(5, 1, 2);
        list[5] = blocks(5, 1, 3); // beyond the last block, but in the tree
        list[6] = blocks(5, 1, 4); // beyond the tree
        list[7] = blocks(5, 1, type(uint64).max);
        list[8] = blocks(4, 2, 0); // there is no log
        list[9] = recordIn(1, 0);
        list[10] = recordIn(1, 2);
        list[11] = leafIn(1, 1, 256, 0);
        list[12] = leafIn(1, 1, 256, 1);
        list[13] = leafIn(1, 1, 256, 2); // beyond the last leaf
        list[14] = leafIn(1, 1, 1, 0); // beyond the last input
        list[15] = leafIn(1, 1, 65_535, type(uint64).max);
    }

    function test_everyPlaceHasAnAnswer() public {
        Place[] memory list = _places();
        for (uint256 i = 0; i < list.length; ++i) {
            Subject memory s = list[i].piece < Piece.Record ? ofLogs(_job) : ofClaim(_job);
            demand(s, list[i]);
            is_(stateOf(s, list[i]), DemandState.Open, "it is demanded");
            answer(s, list[i]);
            is_(stateOf(s, list[i]), DemandState.Answered, "it is answered");
            uint256 before = demands.credit(AUDITOR);
            demand(s, list[i]);
            is_(stateOf(s, list[i]), DemandState.Answered, "it is not demanded again");
            eq(demands.credit(AUDITOR), before + demands.depositOf(list[i].piece), "and costs nothing");
        }
        eq(
            demands.pending(ofLogs(_job).jobs, _job, ofLogs(_job).root, ofClaim(_job).root, 1),
            0,
            "all are answered"
        );
        eq(
            address(demands).balance,
            demands.credit(AUDITOR) + demands.credit(AUTHOR),
            "what was deposited is the author's and the demander's"
        );
    }

    /// @dev What an answer costs at the price of the deployer is less than what it is paid.
    function test_anAnswerIsPaidWhatItCosts() public {
        Place[] memory list = _places();
        for (uint256 i = 0; i < list.length; ++i) {
            Subject memory s = list[i].piece < Piece.Record ? ofLogs(_job) : ofClaim(_job);
            demand(s, list[i]);
            uint256 before = demands.credit(AUTHOR);
            answer(s, list[i]);
            uint256 gas = vm.snapshotGasLastCall("Demands", string.concat("answer ", vm.toString(i)));
            yes(demands.credit(AUTHOR) - before > gas * PRICE, vm.toString(gas));
        }
    }

    function test_whatASinglePlaceCannotShowIsNoAnswer() public {
        Subject memory s = ofLogs(_job);
        Place memory place = blocks(3, 1, 1);
        demand(s, place);
        LogPiece memory a = logAt(place);
        a.blocks[1] = hex"000e";
        refuses(Merkle.PathMismatch.selector);
        demands.answerBlocks(s, place, a);
        a = logAt(place);
        a.elements = 1;
        refuses(IDemands.WrongDigest.selector);
        demands.answerBlocks(s, place, a);
        a = logAt(place);
        a.blocks = new bytes[](8);
        refuses(IDemands.WrongBlockCount.selector);
        demands.answerBlocks(s, place, a);
        a = logAt(blocks(3, 0, 1));
        refuses(Merkle.PathMismatch.selector);
        demands.answerBlocks(s, place, a);
        a = logAt(place);
        a.log = 0;
        refuses(Merkle.PathMismatch.selector);
        demands.answerBlocks(s, place, a);
        a = logAt(blocks(2, 1, 1));
        refuses(Merkle.PathMismatch.selector);
        demands.answerBlocks(s, place, a);
        is_(stateOf(s, place), DemandState.Open, "it is still open");
    }

    function test_wrongDigestsAreNoAnswer() public {
        (Subject memory s, Place memory place) = (ofLogs(_job), digests(2));
        demand(s, place);
        (bytes32[] memory found, StepProof memory step) = digestsAt(2);
        found[2] = found[1];
        refuses(Merkle.PathMismatch.selector);
        demands.answerDigests(s, place, found, new bytes32[](0), step);
        (found, step) = digestsAt(3);
        refuses(Merkle.PathMismatch.selector);
        demands.answerDigests(s, place, found, new bytes32[](0), step);
        refuses(Merkle.WrongChildCount.selector);
        demands.answerDigests(s, place, new bytes32[](2), new bytes32[](0), step);
    }

    function test_wrongRecordsAreNoAnswer() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        demand(s, place);
        RecordPiece memory a = recordAt(recordIn(1, 2));
        refuses(Merkle.PathMismatch.selector);
        demands.answerRecord(s, place, a);
        a = recordAt(recordIn(0, 1));
        refuses(Merkle.PathMismatch.selector);
        demands.answerRecord(s, place, a);
        a = recordAt(place);
        a.record.log = "another";
        refuses(Merkle.PathMismatch.selector);
        demands.answerRecord(s, place, a);
    }

    function test_wrongLeavesAreNoAnswer() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), leafIn(1, 1, 256, 1));
        demand(s, place);
        RecordPiece memory r = recordAt(place);
        TensorPiece memory a = tensorAt(leafIn(1, 1, 256, 0));
        refuses(IDemands.WrongLeafLength.selector);
        demands.answerLeaf(s, place, r, a);
        a = tensorAt(place);
        a.leaf[0] = 0;
        refuses(Merkle.PathMismatch.selector);
        demands.answerLeaf(s, place, r, a);
        a = tensorAt(place);
        a.shape.dims[0] = 256; // as if the leaf were beyond the end
        refuses(IDemands.WrongDigest.selector);
        demands.answerLeaf(s, place, r, a);
    }

    function test_anotherKindOfAnswerIsRefused() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        demand(s, place);
        (RecordPiece memory r, TensorPiece memory t) = (recordAt(place), tensorAt(leafIn(1, 1, 256, 0)));
        refuses(IDemands.WrongPiece.selector);
        demands.answerLeaf(s, place, r, t);
        LogPiece memory a = logAt(blocks(1, 0, 0));
        refuses(IDemands.WrongPiece.selector);
        demands.answerBlocks(s, place, a);
    }

    function test_nothingIsAnsweredThatWasNotDemandedOrTwice() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        RecordPiece memory a = recordAt(place);
        refuses(IDemands.NoSuchDemand.selector);
        demands.answerRecord(s, place, a);
        demand(s, place);
        answer(s, place);
        uint256 paid = demands.credit(AUTHOR);
        answer(s, place);
        a.record.log = "another";
        demands.answerRecord(s, place, a);
        eq(demands.credit(AUTHOR), paid, "it is paid once");
    }

    /// @dev Whoever is first with one of many answers does not undo the rest.
    function test_oneOfManyAnswersMayComeFromAnother() public {
        Subject memory s = ofLogs(_job);
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (blocks(1, 0, 0), blocks(1, 1, 1));
        demand(s, list);
        bytes[] memory calls = new bytes[](2);
        for (uint256 i = 0; i < 2; ++i) {
            calls[i] = abi.encodeCall(demands.answerBlocks, (s, list[i], logAt(list[i])));
        }
        answer(s, list[0]);
        demands.multicall(calls);
        is_(stateOf(s, list[1]), DemandState.Answered, "the other is answered");
        yes(demands.credit(address(this)) > 0, "and paid");
    }

    function test_anAnswerIsInTimeInTheLastSecond() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        demand(s, place);
        RecordPiece memory a = recordAt(place);
        pass(PERIOD + 1);
        refuses(IDemands.AnsweredLate.selector);
        demands.answerRecord(s, place, a);
        vm.warp(block.timestamp - 1);
        refuses(IDemands.NotLate.selector);
        demands.close(s, place);
        answer(s, place);
    }

    /// @dev A job of one node in one step, whose logs are this log.
    function _claimedWith(bytes32 log) private returns (Subject memory) {
        uint256 job = post(roundedTerms());
        join(job, person(2));
        bytes32 commitment = jobs.commitmentOf(job, person(2), root(7), root(7), log, "salt");
        Claim memory c = claim(7);
        vm.prank(person(2));
        jobs.commit(job, commitment);
        vm.prank(person(2));
        jobs.reveal(job, c, log, "salt");
        return Subject(IJobs(address(jobs)), job, log);
    }

    /// @dev A page in which every element has a value of its own: 98,304 bytes.
    function test_theLongestPageFitsInATransactionAndIsPaid() public {
        LogPiece memory a;
        a.elements = 16 * 1024;
        a.blocks = new bytes[](16);
        bytes32[] memory leaves = new bytes32[](16);
        bytes memory entries = new bytes(6144);
        for (uint256 i = 0; i < 1024; ++i) {
            bytes6 entry = bytes6(uint48((i << 2 | 3) << 32 | 0xC1234567));
            for (uint256 k = 0; k < 6; ++k) {
                entries[6 * i + k] = entry[k];
            }
        }
        for (uint256 i = 0; i < 16; ++i) {
            a.blocks[i] = entries;
            leaves[i] = sha256(abi.encodePacked(uint8(0x0A), entries));
        }
        a.root = Trees.root(Trees.build(0x19, leaves));
        a.log = sha256(abi.encodePacked(uint8(0x09), a.elements, a.root));
        a.step.root = a.log;
        Subject memory s = _claimedWith(a.log);
        demand(s, blocks(1, 0, 0));
        vm.prank(AUTHOR);
        demands.answerBlocks(s, blocks(1, 0, 0), a);
        uint256 gas = vm.snapshotGasLastCall("Demands", "longest");
        yes(gas < 1 << 24, "EIP-7825");
        yes(demands.credit(AUTHOR) > gas * PRICE, vm.toString(gas));
    }

    function test_whatManyPlacesCost() public {
        Subject memory s = ofLogs(_job);
        Place[] memory list = new Place[](64);
        for (uint64 i = 0; i < 64; ++i) {
            list[i] = blocks(1 + i % 5, uint32(i / 5 % 3), i);
        }
        demand(s, list);
        vm.snapshotGasLastCall("Demands", "demand of 64 places");
        demand(s, digests(1));
        vm.snapshotGasLastCall("Demands", "demand of a place");
    }

    /// @dev Only what a log may have can be shown: this block is what the log is of, and says of place 1,023 of 64.
    function test_whatNoLogHasIsNoAnswer() public {
        LogPiece memory a;
        a.elements = 64;
        a.blocks = new bytes[](1);
        a.blocks[0] = abi.encodePacked(uint16(1023 << 2 | 2));
        a.root = sha256(abi.encodePacked(uint8(0x0A), a.blocks[0]));
        a.log = sha256(abi.encodePacked(uint8(0x09), a.elements, a.root));
        a.step.root = a.log;
        Subject memory s = _claimedWith(a.log);
        demand(s, blocks(1, 0, 0));
        refuses(IDemands.Unreadable.selector);
        demands.answerBlocks(s, blocks(1, 0, 0), a);
    }

    /// @dev Many answers in one transaction.
    function test_answersCanBeBatched() public {
        Subject memory s = ofLogs(_job);
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (blocks(1, 0, 0), blocks(1, 1, 1));
        demand(s, list);
        bytes[] memory calls = new bytes[](2);
        for (uint256 i = 0; i < 2; ++i) {
            calls[i] = abi.encodeCall(demands.answerBlocks, (s, list[i], logAt(list[i])));
        }
        vm.prank(AUTHOR);
        demands.multicall(calls);
        is_(stateOf(s, list[1]), DemandState.Answered, "both are answered");
    }
}
