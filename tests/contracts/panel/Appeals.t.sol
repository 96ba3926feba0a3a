// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Dispute} from "contracts/interfaces/ICourt.sol";
import {Adjudication, Rules, Terms} from "contracts/interfaces/IJobs.sol";
import {Hearing, HearingPhase, IPanel, Submission} from "contracts/interfaces/IPanel.sol";
import {Phase, Reason, Record} from "contracts/interfaces/IReferee.sol";
import {IVerifierRegistry} from "contracts/interfaces/IVerifierRegistry.sol";

/// @notice A Jobs contract and a referee that somebody wrote to free a bond: its rules change while a hearing runs.
contract Turncoat {
    Rules private _rules;

    function set(Adjudication adjudication) external {
        _rules = Rules(adjudication, 2, 1000, 1000, 100);
    }

    function rulesOf(uint256) external view returns (Rules memory, uint256) {
        return (_rules, 1 ether);
    }

    function isVerifier(uint256, address) external pure returns (bool) {
        return true;
    }

    function submit(IPanel panel, Submission calldata submission, Dispute calldata dispute) external {
        panel.hear(submission, dispute);
    }

    function ruled(uint256, uint8, Reason, address[] calldata) external {}
}

/// @notice Appeals from verdicts, and what becomes of those who signed them. 7 is right.
contract AppealsTest is Market {
    uint256 private constant BOND = 1 ether;

    uint256 private job;
    uint256 private id;

    /// @dev A hearing of what persons 1 and 2 claim.
    function _hear(Adjudication adjudication, uint256 output0, uint256 output1) private {
        Terms memory t = terms(2);
        t.rules.adjudication = adjudication;
        if (adjudication == Adjudication.OnChain) {
            t.verifiers = new address[](0);
            t.rules.threshold = 0;
        }
        job = post(t);
        join(job, person(1));
        join(job, person(2));
        commit(job, person(1), output0);
        commit(job, person(2), output1);
        reveal(job, person(1), output0);
        reveal(job, person(2), output1);
        id = matchOf(job, output0);
        submit(id, output0, output1);
    }

    function _ruled(uint256 output0, uint256 output1, uint256 verdict) private {
        _hear(Adjudication.Appealable, output0, output1);
        decide(id, verdict);
        _in(HearingPhase.Ruled);
    }

    function _in(HearingPhase want) private view {
        eq(uint256(phaseOf(id)), uint256(want), "phase of the hearing");
    }

    function _decided(uint8 losers, Reason reason) private view {
        eq(uint256(referee.getMatch(id).phase), uint256(Phase.Done), "phase of the match");
        eq(referee.getMatch(id).losers, losers, "losers");
        eq(uint256(referee.getMatch(id).reason), uint256(reason), "reason");
    }

    function _bond(uint256 i) private view returns (uint256) {
        return registry.getVerifier(verifier(i)).bond;
    }

    function _solvent() private view {
        uint256 owed = panel.getHearing(hearingOf(id)).bond + panel.credit(panel.BURNED());
        for (uint160 n = 1; n < 3; ++n) {
            owed += panel.credit(address(0xF00000 + n));
        }
        eq(address(panel).balance, owed, "balance = credits + bond");
    }

    // ------------------------------------------------------------------ without appeal

    function test_aVerdictStandsIfNobodyAppeals() public {
        _ruled(7, 8, 7);
        Submission memory s = submissionOf(id);
        uint256 hearingId = hearingOf(id);
        pass(PERIOD - 1);
        refuses(IPanel.PeriodRunning.selector);
        panel.proceed(hearingId, s);
        pass(1);
        _appealRefused(person(2), STAKE, IPanel.PeriodOver.selector);
        panel.proceed(hearingId, s);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Done);
        credited(verifier(0), STAKE / 20, "the voters are paid");
        _free(0);
        refuses(IPanel.WrongHearingPhase.selector);
        panel.proceed(hearingId, s);
    }

    function _free(uint256 i) private {
        vm.prank(verifier(i));
        registry.unregister();
        pass(7 days);
        vm.prank(verifier(i));
        registry.withdrawBond();
    }

    function test_theBondsOfVotersAreHeldMeanwhile() public {
        _ruled(7, 8, 7);
        vm.prank(verifier(0));
        registry.unregister();
        pass(7 days);
        vm.prank(verifier(0));
        vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.StillHeld.selector, verifier(0), 1));
        registry.withdrawBond();
        proceed(id);
        vm.prank(verifier(0));
        registry.withdrawBond();
    }

    function _appealRefused(address who, uint256 value, bytes4 selector) private {
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        vm.prank(who);
        refuses(selector);
        panel.appeal{value: value}(hearingId, s, d);
    }

    function test_onlyWhomTheVerdictCallsWrongAppealsAndWithTheBond() public {
        _ruled(7, 8, 7);
        _appealRefused(person(1), STAKE, IPanel.NothingToAppeal.selector);
        _appealRefused(person(3), STAKE, IPanel.NothingToAppeal.selector);
        _appealRefused(person(2), STAKE - 1, IPanel.WrongBond.selector);
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        d.mode = 0x86;
        vm.prank(person(2));
        refuses(IPanel.AnotherDispute.selector);
        panel.appeal{value: STAKE}(hearingId, s, d);
        appeal(id, person(2));
        _in(HearingPhase.Trial);
        _appealRefused(person(2), STAKE, IPanel.WrongHearingPhase.selector);
    }

    // ------------------------------------------------------------------ appeals

    function test_anAttestedLieIsAppealedOverruledAndSlashed() public {
        _ruled(7, 8, 8);
        appeal(id, person(1));
        tryHonestly(id, 7, 8);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Defence);
        eq(panel.credit(person(1)), STAKE, "the appeal's bond is back");
        credited(person(1), STAKE / 2, "the prize of the match");
        credited(verifier(0), 0, "who signed a lie is not paid");
        _solvent();
        Submission memory s = submissionOf(id);
        uint256 hearingId = hearingOf(id);
        refuses(IPanel.PeriodRunning.selector);
        panel.proceed(hearingId, s);
        pass(PERIOD);
        panel.proceed(hearingId, s);
        _in(HearingPhase.Done);
        eq(_bond(0) + _bond(1), 0, "both signers");
        eq(_bond(2), BOND, "not who did not sign");
        eq(panel.credit(person(1)), STAKE + BOND, "half of both bonds");
        eq(panel.credit(panel.BURNED()), BOND, "the other half");
        _solvent();
    }

    function test_aLyingAppealLosesItsBond() public {
        _ruled(7, 8, 7);
        appeal(id, person(2));
        tryHonestly(id, 7, 8);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Done);
        eq(panel.credit(person(2)), 0, "the appellant");
        eq(panel.credit(person(1)), STAKE / 2, "who had to play");
        eq(panel.credit(panel.BURNED()), STAKE / 2, "burned");
        credited(verifier(0), STAKE / 20, "the voters are paid");
        eq(_bond(0), BOND, "and keep their bonds");
        _solvent();
        _free(0);
    }

    function test_anAppealThatIsNotPlayedIsLost() public {
        _ruled(7, 8, 7);
        appeal(id, person(2));
        tryAlone(id, 0, 7, 8);
        _decided(2, Reason.Timeout);
        _in(HearingPhase.Done);
        eq(panel.credit(person(1)), STAKE / 2, "who had to play");
    }

    function test_aVerdictThatBothAreWrongIsOverruledForWhoIsRight() public {
        _ruled(7, 8, 9);
        appeal(id, person(2)); // who is wrong was first
        tryHonestly(id, 7, 8);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Defence);
        eq(panel.getHearing(hearingOf(id)).side, 0, "the accuser is who was called wrong and is not");
        eq(panel.credit(person(2)), 0, "the appellant is wrong, too");
        eq(panel.credit(person(1)), STAKE / 2, "the other side");
        pass(PERIOD);
        proceed(id);
        eq(panel.credit(person(1)), STAKE / 2 + BOND, "and half of the bonds");
    }

    function test_aTrueVerdictThatBothAreWrongStands() public {
        _ruled(8, 9, 7);
        appeal(id, person(1));
        tryHonestly(id, 8, 9);
        _decided(3, Reason.Operator);
        _in(HearingPhase.Done);
        eq(panel.credit(panel.BURNED()), STAKE, "the appeal's bond is burned");
        credited(verifier(0), STAKE / 10, "the voters are paid");
        _solvent();
    }

    // ------------------------------------------------------------------ verifiers who stand by their verdict

    /// @dev A true verdict, for side 0, which does not play.
    function _givenAway() private {
        _ruled(7, 8, 7);
        appeal(id, person(2));
        tryAlone(id, 1, 7, 8);
        _decided(1, Reason.Timeout);
        _in(HearingPhase.Defence);
    }

    function test_anHonestSignerWhoStandsClearsAll() public {
        _givenAway();
        stand(id, 1, 7);
        _in(HearingPhase.Stand);
        tryHonestly(id, 7, 8);
        _in(HearingPhase.Done);
        eq(_bond(0), BOND, "the other signer keeps his bond");
        eq(_bond(1), BOND, "who stood keeps his");
        eq(referee.getMatch(id).losers, 1, "the match is over");
        _free(0);
        _solvent();
    }

    function test_anAccuserWhoDoesNotPlayClearsAll() public {
        _givenAway();
        stand(id, 0, 7);
        tryAlone(id, 0, 7, 8);
        _in(HearingPhase.Done);
        eq(_bond(0) + _bond(1), 2 * BOND, "bonds");
    }

    function test_aSignerWhoLosesLosesItsBondAndTheOthersMayStandStill() public {
        _givenAway();
        stand(id, 0, 7);
        tryAlone(id, 1, 7, 8); // an ally of the accuser, say
        _in(HearingPhase.Defence);
        eq(_bond(0), 0, "who stood");
        eq(_bond(1), BOND, "not the other");
        eq(panel.credit(person(2)), STAKE + BOND / 2, "half to the accuser");
        stand(id, 1, 7);
        tryHonestly(id, 7, 8);
        _in(HearingPhase.Done);
        eq(_bond(1), BOND, "who stood and won");
        _solvent();
    }

    function test_whenTheLastSignerLosesItIsOver() public {
        _ruled(7, 8, 8);
        appeal(id, person(1));
        tryHonestly(id, 7, 8);
        for (uint256 i = 0; i < 2; ++i) {
            stand(id, i, 8);
            tryHonestly(id, 7, 8);
        }
        _in(HearingPhase.Done);
        eq(_bond(0) + _bond(1), 0, "bonds");
        eq(panel.credit(person(1)), STAKE + BOND, "appeal's bond and half of both");
        _solvent();
    }

    function test_aVerdictForNeitherSideIsDefendedWithItsOwnRecord() public {
        _ruled(7, 8, 9);
        appeal(id, person(1));
        tryHonestly(id, 7, 8);
        stand(id, 0, 9);
        eq(panel.getHearing(hearingOf(id)).defendant, verifier(0), "defendant");
        tryHonestly(id, 7, 9);
        eq(_bond(0), 0, "who stood");
        _in(HearingPhase.Defence);
    }

    function test_onlySignersStandInTimeAndForTheirVerdict() public {
        _hear(Adjudication.Appealable, 7, 8);
        vote(id, 2, 8);
        decide(id, 7);
        appeal(id, person(2));
        tryAlone(id, 1, 7, 8);
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        (Record memory right, Record memory wrong) = (record(7), record(8));
        vm.prank(verifier(2)); // it voted for another record
        refuses(IPanel.NotSigner.selector);
        panel.stand(hearingId, s, d, right);
        vm.prank(person(1));
        refuses(IPanel.NotSigner.selector);
        panel.stand(hearingId, s, d, right);
        vm.prank(verifier(0));
        refuses(IPanel.AnotherRecord.selector);
        panel.stand(hearingId, s, d, wrong);
        pass(PERIOD);
        vm.prank(verifier(0));
        refuses(IPanel.PeriodOver.selector);
        panel.stand(hearingId, s, d, right);
        panel.proceed(hearingId, s);
        eq(_bond(2), BOND, "who voted otherwise keeps his bond");
        _free(2);
    }

    function test_aJobThatChangesItsMindFreesNoBond() public {
        _ruled(7, 8, 8); // both signers' bonds are held
        Turncoat crook = new Turncoat();
        crook.set(Adjudication.Attested);
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        s.jobs = address(crook);
        crook.submit(panel, s, d);
        uint256 hearingId = panel.hearingOf(address(crook), id);
        (uint8 v, bytes32 r, bytes32 z) = vm.sign(keys[0], panel.verdictDigest(hearingId, 1, 0, root(8)));
        bytes32 lie = root(8);
        panel.attest(hearingId, s, lie, abi.encodePacked(r, z, v));
        crook.set(Adjudication.Appealable);
        vm.prank(verifier(0));
        registry.unregister();
        pass(7 days);
        refuses(IPanel.NoAppeal.selector);
        panel.escalate(hearingId, s, d);
        panel.proceed(hearingId, s);
        vm.prank(verifier(0));
        vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.StillHeld.selector, verifier(0), 1));
        registry.withdrawBond();
    }

    function test_aBondIsTakenOnce() public {
        // The same verifiers sign two lies; the second hearing finds nothing left to take.
        _ruled(7, 8, 8);
        uint256 first = id;
        _ruled(7, 8, 8);
        for (uint256 i = 0; i < 2; ++i) {
            (id, first) = (first, id);
            appeal(id, person(1));
            tryHonestly(id, 7, 8);
        }
        pass(PERIOD);
        for (uint256 i = 0; i < 2; ++i) {
            (id, first) = (first, id);
            proceed(id);
            _in(HearingPhase.Done);
        }
        eq(panel.credit(person(1)), 2 * STAKE + BOND, "two appeals' bonds, half of two bonds");
        _solvent();
    }

    // ------------------------------------------------------------------ trials without a verdict

    function test_withoutAVerdictTheOperatorIsTried() public {
        _hear(Adjudication.Appealable, 7, 8);
        vote(id, 0, 8);
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        refuses(IPanel.PeriodRunning.selector);
        panel.escalate(hearingId, s, d);
        pass(PERIOD);
        vm.expectRevert(abi.encodeWithSelector(IPanel.NoVerdict.selector, hearingId));
        panel.proceed(hearingId, s);
        panel.escalate(hearingId, s, d);
        _in(HearingPhase.Trial);
        tryHonestly(id, 7, 8);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Done);
        eq(_bond(0), BOND, "a vote that was no verdict costs nothing");
        _free(0);
    }

    function test_onChainOnlyNobodyVotes() public {
        _hear(Adjudication.OnChain, 8, 7);
        Hearing memory h = panel.getHearing(hearingOf(id));
        eq(uint256(h.phase), uint256(HearingPhase.Trial), "tried at once");
        eq(h.until, 0, "no period");
        eq(h.file, 0, "no move will show the submission");
        tryHonestly(id, 8, 7);
        _decided(1, Reason.Operator);
        _in(HearingPhase.Done);
        credited(person(2), STAKE / 2, "prize");
    }

    function test_onChainOnlySilenceLoses() public {
        _hear(Adjudication.OnChain, 8, 7);
        tryAlone(id, 1, 8, 7);
        _decided(1, Reason.Timeout);
    }

    function test_onlyTheCourtTellsResults() public {
        _hear(Adjudication.OnChain, 8, 7);
        uint256 hearingId = hearingOf(id);
        vm.expectRevert(abi.encodeWithSelector(IPanel.NotCourt.selector, address(this)));
        panel.ruled(hearingId | 1, 2, false);
    }

    function test_etherThatIsNoBondIsRefused() public {
        vm.deal(address(this), 1 ether);
        (bool ok,) = address(panel).call{value: 1}("");
        yes(!ok, "refused");
    }
}
