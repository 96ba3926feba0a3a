// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Requested} from "./Requested.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {
    IDataAvailability,
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    RequestState,
    StepProof,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDataAvailability.sol";

/// @notice Every place that can be requested has a response, anything else is refused, and the author of a response is
/// paid.
/// forge-config: default.isolate = true
contract AnswersTest is Requested {
    uint256 private _job;

    constructor() {
        _job = runClaimed();
    }

    function test_everyPlaceHasAnAnswer() public {
        Place[] memory list = somePlaces();
        for (uint256 i = 0; i < list.length; ++i) {
            Subject memory s = list[i].piece < Piece.Record ? ofLogs(_job) : ofClaim(_job);
            request(s, list[i]);
            is_(stateOf(s, list[i]), RequestState.Open, "it is requested");
            answer(s, list[i]);
            is_(stateOf(s, list[i]), RequestState.Answered, "it is answered");
            uint256 before = dataAvailability.credit(AUDITOR);
            request(s, list[i]);
            is_(stateOf(s, list[i]), RequestState.Answered, "it is not requested again");
            eq(
                dataAvailability.credit(AUDITOR),
                before + dataAvailability.depositOf(list[i].piece, PRICE),
                "and costs nothing"
            );
        }
        eq(
            dataAvailability.pending(ofLogs(_job).jobs, _job, ofLogs(_job).root, ofClaim(_job).root, 1),
            0,
            "all are answered"
        );
        eq(
            address(dataAvailability).balance,
            dataAvailability.credit(AUDITOR) + dataAvailability.credit(AUTHOR),
            "what was deposited is the author's and the requester's"
        );
    }

    function test_whatASinglePlaceCannotShowIsNoAnswer() public {
        Subject memory s = ofLogs(_job);
        Place memory place = blocks(3, 1, 2);
        request(s, place);
        LogPiece memory a = logAt(place);
        a.blocks[1] = hex"000e";
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideBlocks(s, place, a);
        a = logAt(place);
        a.elements = 1;
        refuses(IDataAvailability.WrongDigest.selector);
        dataAvailability.provideBlocks(s, place, a);
        a = logAt(place);
        a.blocks = new bytes[](16);
        refuses(IDataAvailability.WrongBlockCount.selector);
        dataAvailability.provideBlocks(s, place, a);
        a = logAt(blocks(3, 0, 1));
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideBlocks(s, place, a);
        a = logAt(place);
        a.log = 0;
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideBlocks(s, place, a);
        a = logAt(blocks(2, 1, 2));
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideBlocks(s, place, a);
        is_(stateOf(s, place), RequestState.Open, "it is still open");
    }

    /// @dev Events are read whole, so nothing unchecked may be in them.
    function test_nothingIsShownOfWhatIsNotThere() public {
        Subject memory s = ofLogs(_job);
        Place[2] memory places = [blocks(4, 2, 0), blocks(5, 1, 8)]; // no log; beyond the tree
        for (uint256 i = 0; i < 2; ++i) {
            request(s, places[i]);
            LogPiece memory a = logAt(places[i]);
            a.blocks = new bytes[](1);
            refuses(IDataAvailability.NothingThere.selector);
            dataAvailability.provideBlocks(s, places[i], a);
            (a.blocks, a.path) = (new bytes[](0), new bytes32[](1));
            refuses(IDataAvailability.NothingThere.selector);
            dataAvailability.provideBlocks(s, places[i], a);
        }
        s = ofClaim(_job);
        places = [leafIn(1, 1, 256, 2), leafIn(1, 1, 1, 0)]; // beyond the last leaf; no such input
        for (uint256 i = 0; i < 2; ++i) {
            request(s, places[i]);
            (RecordPiece memory r, TensorPiece memory a) = (recordAt(places[i]), tensorAt(places[i]));
            if (i == 1) a.shape.dims = new uint64[](0);
            (a.leaf, a.path) = (hex"00", new bytes32[](0));
            refuses(IDataAvailability.NothingThere.selector);
            dataAvailability.provideLeaf(s, places[i], r, a);
            (a.leaf, a.path) = ("", new bytes32[](1));
            refuses(IDataAvailability.NothingThere.selector);
            dataAvailability.provideLeaf(s, places[i], r, a);
            if (i == 0) continue;
            (a.path, a.shape.dims) = (new bytes32[](0), new uint64[](1));
            refuses(IDataAvailability.NothingThere.selector);
            dataAvailability.provideLeaf(s, places[i], r, a);
        }
    }

    function test_wrongDigestsAreNoAnswer() public {
        (Subject memory s, Place memory place) = (ofLogs(_job), digests(2));
        request(s, place);
        (bytes32[] memory found, StepProof memory step) = digestsAt(2);
        found[2] = found[1];
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideDigests(s, place, found, new bytes32[](0), step);
        (found, step) = digestsAt(3);
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideDigests(s, place, found, new bytes32[](0), step);
        refuses(Merkle.WrongChildCount.selector);
        dataAvailability.provideDigests(s, place, new bytes32[](2), new bytes32[](0), step);
    }

    function test_wrongRecordsAreNoAnswer() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        request(s, place);
        RecordPiece memory a = recordAt(recordIn(1, 2));
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideRecord(s, place, a);
        a = recordAt(recordIn(0, 1));
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideRecord(s, place, a);
        a = recordAt(place);
        a.record.log = "another";
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideRecord(s, place, a);
    }

    function test_wrongLeavesAreNoAnswer() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), leafIn(1, 1, 256, 1));
        request(s, place);
        RecordPiece memory r = recordAt(place);
        TensorPiece memory a = tensorAt(leafIn(1, 1, 256, 0));
        refuses(IDataAvailability.WrongLeafLength.selector);
        dataAvailability.provideLeaf(s, place, r, a);
        a = tensorAt(place);
        a.leaf[0] = 0;
        refuses(Merkle.PathMismatch.selector);
        dataAvailability.provideLeaf(s, place, r, a);
        a = tensorAt(place);
        a.shape.dims[0] = 256; // as if the leaf were beyond the end
        refuses(IDataAvailability.WrongDigest.selector);
        dataAvailability.provideLeaf(s, place, r, a);
    }

    function test_anotherKindOfAnswerIsRefused() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        request(s, place);
        (RecordPiece memory r, TensorPiece memory t) = (recordAt(place), tensorAt(leafIn(1, 1, 256, 0)));
        refuses(IDataAvailability.WrongPiece.selector);
        dataAvailability.provideLeaf(s, place, r, t);
        LogPiece memory a = logAt(blocks(1, 0, 0));
        refuses(IDataAvailability.WrongPiece.selector);
        dataAvailability.provideBlocks(s, place, a);
    }

    function test_nothingIsAnsweredThatWasNotRequestedOrTwice() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        RecordPiece memory a = recordAt(place);
        refuses(IDataAvailability.NoSuchRequest.selector);
        dataAvailability.provideRecord(s, place, a);
        request(s, place);
        answer(s, place);
        uint256 paid = dataAvailability.credit(AUTHOR);
        answer(s, place);
        a.record.log = "another";
        dataAvailability.provideRecord(s, place, a);
        eq(dataAvailability.credit(AUTHOR), paid, "it is paid once");
    }

    /// @dev An earlier answer to one place does not undo a batch of answers.
    function test_oneOfManyAnswersMayComeFromAnother() public {
        Subject memory s = ofLogs(_job);
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (blocks(1, 0, 0), blocks(1, 1, 1));
        request(s, list);
        bytes[] memory calls = new bytes[](2);
        for (uint256 i = 0; i < 2; ++i) {
            calls[i] = abi.encodeCall(dataAvailability.provideBlocks, (s, list[i], logAt(list[i])));
        }
        answer(s, list[0]);
        dataAvailability.multicall(calls);
        is_(stateOf(s, list[1]), RequestState.Answered, "the other is answered");
        yes(dataAvailability.credit(address(this)) > 0, "and paid");
    }

    function test_anAnswerIsInTimeInTheLastSecond() public {
        (Subject memory s, Place memory place) = (ofClaim(_job), recordIn(1, 1));
        request(s, place);
        RecordPiece memory a = recordAt(place);
        pass(PERIOD + 1);
        refuses(IDataAvailability.ResponseLate.selector);
        dataAvailability.provideRecord(s, place, a);
        vm.warp(block.timestamp - 1);
        refuses(IDataAvailability.NotLate.selector);
        dataAvailability.close(s, place);
        answer(s, place);
    }

    /// @dev Only a block that a log may have is an answer: this log's block has an entry for place 1,023 of 64.
    function test_whatNoLogHasIsNoAnswer() public {
        LogPiece memory a;
        a.elements = 64;
        a.blocks = new bytes[](1);
        a.blocks[0] = abi.encodePacked(uint16(1023 << 2 | 2));
        a.root = sha256(abi.encodePacked(uint8(0x0A), a.blocks[0]));
        a.log = sha256(abi.encodePacked(uint8(0x09), a.elements, a.root));
        a.step.root = a.log;
        Subject memory s = claimedWith(a.log);
        request(s, blocks(1, 0, 0));
        refuses(IDataAvailability.Unreadable.selector);
        dataAvailability.provideBlocks(s, blocks(1, 0, 0), a);
    }

    /// @dev Many answers in one transaction.
    function test_answersCanBeBatched() public {
        Subject memory s = ofLogs(_job);
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (blocks(1, 0, 0), blocks(1, 1, 1));
        request(s, list);
        bytes[] memory calls = new bytes[](2);
        for (uint256 i = 0; i < 2; ++i) {
            calls[i] = abi.encodeCall(dataAvailability.provideBlocks, (s, list[i], logAt(list[i])));
        }
        vm.prank(AUTHOR);
        dataAvailability.multicall(calls);
        is_(stateOf(s, list[1]), RequestState.Answered, "both are answered");
    }
}
