// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Runs} from "../support/Runs.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Piece, Place, RecordPiece, Subject, TensorPiece} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @notice A flood of requests of a record of 255 inputs, with the longest answers: as many as can be open, answered at
/// 100,000 bytes and 12 million gas a minute, none of them late.
/// forge-config: default.isolate = true
contract FloodLargeTest is Market {
    using Views for Jobs;

    address private constant HOLDER = address(0xBAD);
    uint256 private constant MAX_BATCH = 100_000;

    function _record() private pure returns (Record memory r) {
        r.structure = sha256("structure");
        r.inputs = new bytes32[](255);
        r.outputs = new bytes32[](8);
        for (uint256 i = 0; i < 255; ++i) {
            r.inputs[i] = keccak256(abi.encode(i));
        }
        for (uint256 i = 0; i < 8; ++i) {
            r.outputs[i] = keccak256(abi.encode("o", i));
        }
    }

    function _claimed() private returns (Subject memory s) {
        s.root = Runs.recordHash(_record());
        (s.jobs, s.jobId) = (IJobs(address(jobs)), post(1));
        join(s.jobId, person(1));
        bytes32 c = jobs.commitmentOf(s.jobId, person(1), s.root, s.root, 0, "s");
        vm.prank(person(1));
        jobs.commit(s.jobId, c);
        Claim memory claim_;
        (claim_.root, claim_.last, claim_.uri) = (s.root, s.root, "http://claim");
        vm.prank(person(1));
        jobs.reveal(s.jobId, claim_, 0, "s");
    }

    function _flood(Subject memory s, uint256 n) private returns (uint256 paid) {
        uint256 least = dataAvailability.depositOf(Piece.Leaf, PRICE);
        for (uint64 from = 0; from < n; from += 64) {
            Place[] memory list = new Place[](64);
            for (uint64 i = 0; i < 64; ++i) {
                list[i] = Place(Piece.Leaf, 0, 0, 300, from + i);
            }
            uint256 deposit = 64 * least << (from / 64);
            vm.deal(HOLDER, deposit);
            vm.prank(HOLDER);
            dataAvailability.request{value: deposit}(s, list);
            paid += deposit;
        }
    }

    function test_theLongestAnswersToTheLongestFloodAreInTime() public {
        Subject memory s = _claimed();
        uint256 n = dataAvailability.MAX_OPEN();
        uint256 paid = _flood(s, n);
        RecordPiece memory a;
        (a.record, a.checkpoint) = (_record(), s.root);
        TensorPiece memory none;
        uint256 length =
            abi.encodeCall(dataAvailability.provideLeaf, (s, Place(Piece.Leaf, 0, 0, 300, 0), a, none)).length;
        uint256 each = MAX_BATCH / (length + 128);
        uint256 gas;
        // The whole period passes before the first answer is sent.
        pass(PERIOD);
        for (uint64 i = 0; i < n; i += uint64(each)) {
            uint256 some = n - i < each ? n - i : each;
            bytes[] memory calls = new bytes[](some);
            for (uint64 k = 0; k < some; ++k) {
                calls[k] = abi.encodeCall(
                    dataAvailability.provideLeaf, (s, Place(Piece.Leaf, 0, 0, 300, i + k), a, none)
                );
            }
            vm.prank(person(1));
            dataAvailability.multicall(calls);
            uint256 one = vm.lastCallGas().gasTotalUsed;
            yes(one < 12_000_000, vm.toString(one));
            gas += one;
            pass(60);
        }
        vm.snapshotValue("Requests", "flood of 512 answered", gas);
        yes(dataAvailability.credit(person(1)) > gas * PRICE, "the honest claimant gains by it");
        uint256 loss = paid - dataAvailability.credit(HOLDER);
        yes(loss > 40 * gas * PRICE, "the flooder loses forty times what the answers cost, and more");
        eq(
            loss,
            dataAvailability.credit(person(1)) + dataAvailability.credit(dataAvailability.BURNED()),
            "all is accounted for"
        );
        inPhase(s.jobId, JobPhase.Challenge);
        vm.warp(jobs.jobOf(s.jobId).challengeEnd);
        finalize(s.jobId);
        credited(person(1), STAKE + REWARD, "and is paid");
    }
}
