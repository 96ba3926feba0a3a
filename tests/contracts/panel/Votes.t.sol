// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Verdicts} from "../support/Verdicts.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Panel} from "contracts/Panel.sol";
import {Dispute} from "contracts/interfaces/ICourt.sol";
import {Hearing, HearingPhase, IPanel, Submission} from "contracts/interfaces/IPanel.sol";
import {IReferee, Phase, Reason} from "contracts/interfaces/IReferee.sol";
import {IVerifierRegistry} from "contracts/interfaces/IVerifierRegistry.sol";

/// @notice The verifiers' votes: two of three make a verdict, each counts once, for one hearing only.
contract VotesTest is Market {
    uint256 private job;
    uint256 private id;
    uint256 private hearingId;

    function setUp() public {
        job = claimed(7, 8);
        id = matchOf(job, 7);
        submit(id, 7, 8);
        hearingId = hearingOf(id);
    }

    function _digest(uint256 output) private view returns (bytes32) {
        return panel.verdictDigest(hearingId, 1, 0, root(output));
    }

    function _signed(uint256 key, bytes32 digest) private pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function _refused(uint256 output, bytes memory signature, bytes4 selector) private {
        Submission memory s = submissionOf(id);
        bytes32 record = root(output);
        refuses(selector);
        panel.attest(hearingId, s, record, signature);
    }

    /// @dev Reaches a verdict from which nobody appeals.
    function _stands() private {
        eq(uint256(phaseOf(id)), uint256(HearingPhase.Ruled), "a verdict");
        eq(uint256(referee.getMatch(id).phase), uint256(Phase.Hearing), "the match waits");
        pass(PERIOD);
        proceed(id);
    }

    function _decided(uint8 losers, Reason reason) private view {
        eq(uint256(referee.getMatch(id).phase), uint256(Phase.Done), "match");
        eq(referee.getMatch(id).losers, losers, "losers");
        eq(uint256(referee.getMatch(id).reason), uint256(reason), "reason");
        eq(uint256(phaseOf(id)), uint256(HearingPhase.Done), "hearing");
    }

    function test_whatIsSubmittedIsOnFile() public view {
        Hearing memory h = panel.getHearing(hearingId);
        eq(h.referee, address(referee), "referee");
        eq(h.matchId, id, "match");
        eq(h.file, keccak256(abi.encode(submissionOf(id))), "file");
        eq(h.until, block.timestamp + PERIOD, "until");
        eq(uint256(h.phase), uint256(HearingPhase.Voting), "phase");
        eq(hearingId & 0xFF, 0, "room for the numbers of trials");
    }

    function test_theThresholdMakesAVerdictAndTheVotersArePaid() public {
        vote(id, 2, 7);
        eq(uint256(phaseOf(id)), uint256(HearingPhase.Voting), "one is not enough");
        vm.prank(address(0xCAFE)); // any sender
        vote(id, 0, 7);
        eq(panel.getHearing(hearingId).until, block.timestamp + PERIOD, "the time to appeal");
        credited(verifier(2), 0, "nobody is paid before that");
        _stands();
        _decided(2, Reason.Operator);
        credited(verifier(2), STAKE / 20, "first voter");
        credited(verifier(0), STAKE / 20, "second voter");
        credited(verifier(1), 0, "who did not vote");
        yes(panel.voted(hearingId, verifier(0)) && !panel.voted(hearingId, verifier(1)), "who voted");
        eq(panel.votes(hearingId, root(7)).length, 2, "votes");
    }

    function test_twoWrongOutputsBothLose() public {
        decide(id, 9);
        _stands();
        _decided(3, Reason.Operator);
    }

    function test_aLoneWrongVoteDecidesNothing() public {
        vote(id, 0, 8);
        vote(id, 1, 7);
        eq(panel.votes(hearingId, root(8)).length, 1, "votes for the wrong record");
        eq(uint256(phaseOf(id)), uint256(HearingPhase.Voting), "phase");
        vote(id, 2, 7);
        _stands();
        _decided(2, Reason.Operator);
    }

    function test_oneVoteEach() public {
        vote(id, 0, 7);
        _refused(7, _signed(keys[0], _digest(7)), IPanel.AlreadyVoted.selector);
        _refused(8, _signed(keys[0], _digest(8)), IPanel.AlreadyVoted.selector); // nor for another record
    }

    function test_aStrangerHasNoVote() public {
        _refused(7, _signed(0x999, _digest(7)), IPanel.NotVerifier.selector);
    }

    function test_aVerdictForAnotherHearingIsAStrangersVoice() public {
        bytes memory signed = _signed(keys[0], _digest(7));
        uint256 other = matchOf(claimed(7, 8), 7); // the same claims again
        submit(other, 7, 8);
        Submission memory s = submissionOf(other);
        bytes32 record = root(7);
        uint256 otherHearing = hearingOf(other);
        refuses(IPanel.NotVerifier.selector);
        panel.attest(otherHearing, s, record, signed);
        panel.attest(hearingId, submissionOf(id), record, signed);
    }

    function test_aVerdictForAnotherPanelIsAStrangersVoice() public {
        Panel other = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
        _refused(
            7, _signed(keys[0], other.verdictDigest(hearingId, 1, 0, root(7))), IPanel.NotVerifier.selector
        );
    }

    function test_theDigestIsEip712() public view {
        bytes32 want = Verdicts.digest(block.chainid, address(panel), hearingId, 1, 0, root(7));
        eq(_digest(7), want, "digest");
    }

    function test_garbageIsNoSignature() public {
        _refused(7, hex"00", ECDSA.ECDSAInvalidSignatureLength.selector);
        _refused(7, new bytes(65), ECDSA.ECDSAInvalidSignature.selector);
        // The mirror image of a signature, which ecrecover alone would accept.
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(keys[0], _digest(7));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        bytes memory mirror =
            abi.encodePacked(r, bytes32(order - uint256(s)), v == 27 ? uint8(28) : uint8(27));
        _refused(7, mirror, ECDSA.ECDSAInvalidSignatureS.selector);
    }

    function test_votesEndWhenThePeriodEnds() public {
        vote(id, 0, 7);
        bytes memory signed = _signed(keys[1], _digest(7));
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        pass(PERIOD - 1);
        refuses(IPanel.PeriodRunning.selector);
        panel.escalate(hearingId, s, d);
        pass(1);
        _refused(7, signed, IPanel.PeriodOver.selector);
        refuses(IPanel.WrongHearingPhase.selector);
        panel.proceed(hearingId, s); // silence is not a verdict
        panel.escalate(hearingId, s, d);
        eq(uint256(phaseOf(id)), uint256(HearingPhase.Trial), "the court judges");
        _refused(7, signed, IPanel.WrongHearingPhase.selector);
        refuses(IPanel.WrongHearingPhase.selector);
        panel.escalate(hearingId, s, d);
    }

    function test_nothingAfterTheDecision() public {
        decide(id, 7);
        _refused(7, _signed(keys[2], _digest(7)), IPanel.WrongHearingPhase.selector);
        _stands();
        _refused(7, _signed(keys[2], _digest(7)), IPanel.WrongHearingPhase.selector);
        refuses(IReferee.NotLate.selector);
        referee.timeout(id);
    }

    function test_aVoteHoldsTheBond() public {
        vote(id, 0, 7);
        vm.startPrank(verifier(0));
        registry.unregister();
        pass(7 days);
        vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.StillHeld.selector, verifier(0), 1));
        registry.withdrawBond();
        vm.stopPrank();
    }

    function test_whatIsShownMustBeWhatWasSubmitted() public {
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        s.node = 1;
        bytes32 record = root(7);
        bytes memory signed = _signed(keys[0], _digest(7));
        refuses(IPanel.AnotherSubmission.selector);
        panel.attest(hearingId, s, record, signed);
        pass(PERIOD);
        refuses(IPanel.AnotherSubmission.selector);
        panel.escalate(hearingId, s, d);
    }

    function test_aRefereeSubmitsAMatchOnce() public {
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        vm.prank(address(referee));
        vm.expectRevert(abi.encodeWithSelector(IPanel.AlreadyHeard.selector, hearingId));
        panel.hear(s, d);
        // Another sender's submission begins a hearing of its own.
        panel.hear(s, d);
        eq(panel.getHearing(panel.hearingOf(address(this), id)).referee, address(this), "its referee");
    }
}
