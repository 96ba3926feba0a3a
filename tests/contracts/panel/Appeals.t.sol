// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Heard} from "../support/Heard.sol";
import {Dispute} from "contracts/interfaces/ICourt.sol";
import {Hearing, HearingPhase, IPanel, Submission} from "contracts/interfaces/IPanel.sol";
import {Reason} from "contracts/interfaces/IReferee.sol";
import {IVerifierRegistry} from "contracts/interfaces/IVerifierRegistry.sol";

/// @notice Appeals from verdicts, and trials without a verdict. 7 is right.
contract AppealsTest is Heard {
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

    function test_aSignedLieIsAppealedOverruledAndSlashed() public {
        _ruled(7, 8, 8);
        appeal(id, person(1));
        tryHonestly(id, 7, 8);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Defence);
        eq(panel.credit(person(1)), 0, "the appeal's bond is held while a signer may stand");
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
        appeal(id, person(2)); // the side that is wrong appealed first
        tryHonestly(id, 7, 8);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Defence);
        eq(panel.getHearing(hearingOf(id)).side, 0, "the accuser is who was called wrong and is not");
        eq(panel.credit(person(1)), 0, "the bond is held while a signer may stand");
        pass(PERIOD);
        proceed(id);
        eq(panel.credit(person(2)), 0, "the appellant is wrong, too");
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

    // ------------------------------------------------------------------ trials without a verdict

    function test_withoutAVerdictTheOperatorIsTried() public {
        _hear(7, 8);
        vote(id, 0, 8);
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        refuses(IPanel.PeriodRunning.selector);
        panel.escalate(hearingId, s, d);
        pass(PERIOD);
        vm.expectRevert(
            abi.encodeWithSelector(
                IPanel.WrongHearingPhase.selector, hearingId, HearingPhase.Voting, HearingPhase.Defence
            )
        );
        panel.proceed(hearingId, s);
        panel.escalate(hearingId, s, d);
        _in(HearingPhase.Trial);
        tryHonestly(id, 7, 8);
        _decided(2, Reason.Operator);
        _in(HearingPhase.Done);
        eq(_bond(0), BOND, "a vote that was not a verdict costs nothing");
        _free(0);
    }

    function test_withoutVerifiersNobodyVotes() public {
        _hearInCourt(8, 7);
        Hearing memory h = panel.getHearing(hearingOf(id));
        eq(uint256(h.phase), uint256(HearingPhase.Trial), "tried at once");
        eq(h.until, 0, "no period");
        eq(h.file, 0, "no move will show the submission");
        tryHonestly(id, 8, 7);
        _decided(1, Reason.Operator);
        _in(HearingPhase.Done);
        credited(person(2), STAKE / 2, "prize");
    }

    function test_withoutVerifiersSilenceLoses() public {
        _hearInCourt(8, 7);
        tryAlone(id, 1, 8, 7);
        _decided(1, Reason.Timeout);
    }

    function test_onlyTheCourtTellsResults() public {
        _hearInCourt(8, 7);
        uint256 hearingId = hearingOf(id);
        vm.expectRevert(abi.encodeWithSelector(IPanel.NotCourt.selector, address(this)));
        panel.onTrialDecided(hearingId | 1, 2, false);
    }

    function test_etherThatIsNoBondIsRefused() public {
        vm.deal(address(this), 1 ether);
        (bool ok,) = address(panel).call{value: 1}("");
        yes(!ok, "refused");
    }
}
