// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Court} from "../support/Court.sol";
import {Fault, Kind, Run, Runs} from "../support/Runs.sol";
import {Verdicts} from "../support/Verdicts.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Referee} from "contracts/Referee.sol";
import {IReferee, Match, Phase, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice The verifiers' votes: two of three decide, each counts once, for one match only.
contract VerdictTest is Court {
    using Runs for Run;

    uint256 private id;
    bytes32 private truth;

    function _call(Fault memory fault0, Fault memory fault1) private {
        Run memory run0 = Runs.wrong(fault0);
        Run memory run1 = Runs.wrong(fault1);
        id = open(run0, run1);
        toRecord(id, run0, run1);
        referee.callVerifiers(id, exhibit(id, run0, run1));
        Match memory m = referee.getMatch(id);
        truth = Runs.recordHash(Runs.right().records[m.end][m.index]);
    }

    function _callRightAgainstWrong() private {
        _call(Fault(Kind.None, 0, 0, 0, 0), Fault(Kind.Output, 7, 3, 0, 1));
    }

    function _vote(uint256 key, bytes32 record) private {
        referee.attest(id, record, signature(key, referee.verdictDigest(id, record)));
    }

    function test_theThresholdDecidesAndTheVotersAreNamed() public {
        _callRightAgainstWrong();
        _vote(keys[2], truth);
        inPhase(id, Phase.Verdict);
        vm.prank(address(0xCAFE)); // whoever brings it
        _vote(keys[0], truth);
        decided(id, 2, Reason.Operator);
        eq(deciders.length, 2, "deciders");
        eq(deciders[0], vm.addr(keys[2]), "first voter");
        eq(deciders[1], vm.addr(keys[0]), "second voter");
        yes(referee.voted(id, vm.addr(keys[0])) && !referee.voted(id, vm.addr(keys[1])), "who voted");
    }

    function test_twoWrongOutputsBothLose() public {
        _call(Fault(Kind.Output, 7, 3, 0, 1), Fault(Kind.Output, 7, 3, 0, 2));
        _vote(keys[0], truth);
        _vote(keys[1], truth);
        decided(id, 3, Reason.Operator);
    }

    function test_aLoneWrongVoteDecidesNothing() public {
        _callRightAgainstWrong();
        bytes32 false_ = referee.getMatch(id).node[1];
        _vote(keys[0], false_);
        _vote(keys[1], truth);
        inPhase(id, Phase.Verdict);
        eq(referee.votes(id, false_).length, 1, "votes for the wrong record");
        _vote(keys[2], truth);
        decided(id, 2, Reason.Operator);
    }

    function test_oneVoteEach() public {
        _callRightAgainstWrong();
        _vote(keys[0], truth);
        bytes memory again = signature(keys[0], referee.verdictDigest(id, truth));
        vm.expectRevert(abi.encodeWithSelector(IReferee.AlreadyVoted.selector, vm.addr(keys[0])));
        referee.attest(id, truth, again);
        // Nor for another record.
        bytes memory other = signature(keys[0], referee.verdictDigest(id, bytes32(uint256(1))));
        refuses(IReferee.AlreadyVoted.selector);
        referee.attest(id, bytes32(uint256(1)), other);
    }

    function test_aStrangerHasNoVote() public {
        _callRightAgainstWrong();
        bytes memory signed = signature(0x999, referee.verdictDigest(id, truth));
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotVerifier.selector, vm.addr(0x999)));
        referee.attest(id, truth, signed);
    }

    function test_aVerdictForAnotherMatchIsAStrangersVoice() public {
        _callRightAgainstWrong();
        uint256 first = id;
        bytes memory signed = signature(keys[0], referee.verdictDigest(first, truth));
        _callRightAgainstWrong(); // the same runs again
        yes(first != id, "another match");
        refuses(IReferee.NotVerifier.selector);
        referee.attest(id, truth, signed);
        referee.attest(first, truth, signed);
    }

    function test_aVerdictForAnotherRefereeIsAStrangersVoice() public {
        _callRightAgainstWrong();
        Referee other = Referee(deploy("Referee.sol:Referee", ""));
        bytes memory signed = signature(keys[0], other.verdictDigest(id, truth));
        refuses(IReferee.NotVerifier.selector);
        referee.attest(id, truth, signed);
    }

    function test_theDigestIsEip712() public {
        _callRightAgainstWrong();
        Match memory m = referee.getMatch(id);
        bytes32 want = Verdicts.digest(block.chainid, address(referee), id, m.end, uint32(m.index), truth);
        eq(referee.verdictDigest(id, truth), want, "digest");
    }

    function test_garbageIsNoSignature() public {
        _callRightAgainstWrong();
        refuses(ECDSA.ECDSAInvalidSignatureLength.selector);
        referee.attest(id, truth, hex"00");
        refuses(ECDSA.ECDSAInvalidSignature.selector);
        referee.attest(id, truth, new bytes(65));
        // The mirror image of a signature, which ecrecover alone would take.
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(keys[0], referee.verdictDigest(id, truth));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        bytes memory mirror =
            abi.encodePacked(r, bytes32(order - uint256(s)), v == 27 ? uint8(28) : uint8(27));
        refuses(ECDSA.ECDSAInvalidSignatureS.selector);
        referee.attest(id, truth, mirror);
    }

    function test_votesEndWhenThePeriodEnds() public {
        _callRightAgainstWrong();
        _vote(keys[0], truth);
        bytes memory signed = signature(keys[1], referee.verdictDigest(id, truth));
        pass(VERDICT - 1);
        refuses(IReferee.VerdictRunning.selector);
        referee.expire(id);
        pass(1);
        refuses(IReferee.VerdictOver.selector);
        referee.attest(id, truth, signed);
        referee.expire(id);
        decided(id, 0, Reason.Unresolved);
        refuses(IReferee.WrongPhase.selector);
        referee.expire(id);
    }

    function test_noMoveAfterTheDecision() public {
        _callRightAgainstWrong();
        _vote(keys[0], truth);
        _vote(keys[1], truth);
        bytes memory signed = signature(keys[2], referee.verdictDigest(id, truth));
        refuses(IReferee.WrongPhase.selector);
        referee.attest(id, truth, signed);
        refuses(IReferee.NotLate.selector);
        referee.timeout(id);
        eq(decisions, 1, "decided once");
    }
}
