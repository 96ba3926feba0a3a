// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Heard} from "../support/Heard.sol";
import {Dispute} from "contracts/interfaces/ICourt.sol";
import {Rules} from "contracts/interfaces/IJobs.sol";
import {HearingPhase, IPanel, Submission} from "contracts/interfaces/IPanel.sol";
import {Reason, Record} from "contracts/interfaces/IReferee.sol";
import {IVerifierRegistry} from "contracts/interfaces/IVerifierRegistry.sol";

/// @notice A malicious Jobs contract and referee, made to free a bond: its rules change while a hearing runs.
contract Turncoat {
    Rules private _rules;

    function set(uint8 threshold) external {
        _rules = Rules(threshold, 1000, 1000, 100);
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

    function onHearingDecided(uint256, uint8, Reason, address[] calldata) external {}
}

/// @notice Verifiers who stand by an overruled verdict, and the bonds of those who do not. 7 is right.
contract StandsTest is Heard {
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
        eq(panel.credit(verifier(1)), STAKE / 2, "half of the appeal's bond");
        eq(panel.credit(person(2)), 0, "who appealed against the truth has lost it");
        eq(panel.credit(panel.BURNED()), STAKE / 2, "the rest");
        _free(0);
        _solvent();
    }

    function test_anAccuserWhoDoesNotPlayClearsAll() public {
        _givenAway();
        stand(id, 0, 7);
        tryAlone(id, 0, 7, 8);
        _in(HearingPhase.Done);
        eq(_bond(0) + _bond(1), 2 * BOND, "bonds");
        eq(panel.credit(verifier(0)), STAKE / 2, "who stood is paid");
        _solvent();
    }

    /// @dev Both sides are wrong, and one of them has appealed and lost. The other one is cleared by that alone, and
    /// accuses; the signer shows it wrong, so the accuser does not get the half.
    function test_anAccuserWhoDidNotAppealHasNothingOfTheBondIfASignerClearsItself() public {
        _ruled(8, 9, 7);
        appeal(id, person(2));
        tryAlone(id, 0, 8, 9);
        _in(HearingPhase.Defence);
        eq(panel.getHearing(hearingOf(id)).bond, STAKE, "held");
        stand(id, 0, 7);
        tryHonestly(id, 8, 7);
        _in(HearingPhase.Done);
        eq(panel.credit(person(1)) + panel.credit(person(2)), 0, "neither liar");
        eq(panel.credit(verifier(0)), STAKE / 2, "who stood and won");
        eq(panel.credit(panel.BURNED()), STAKE / 2, "the rest");
        _solvent();
    }

    /// @dev No signer clears itself: half goes to the accuser, as if the hearing had ended with the trial.
    function test_anAccuserWhoDidNotAppealHasHalfOfTheBondAtTheEnd() public {
        _ruled(7, 8, 9);
        appeal(id, person(2));
        tryHonestly(id, 7, 8);
        for (uint256 i = 0; i < 2; ++i) {
            eq(panel.getHearing(hearingOf(id)).bond, STAKE, "held");
            stand(id, i, 9);
            tryHonestly(id, 7, 9);
        }
        _in(HearingPhase.Done);
        eq(panel.credit(person(1)), STAKE / 2 + BOND, "half of the bond, and of both signers'");
        eq(panel.credit(person(2)), 0, "the appellant was wrong");
        eq(panel.getHearing(hearingOf(id)).bond, 0, "nothing is held");
        _solvent();
    }

    /// @dev One party is a side, its signers and the appellant: whichever of them wins, half of the bond is burned.
    function test_clearingAnAccomplicePaysOutHalfOfTheBond() public {
        _givenAway();
        uint256 before = address(panel).balance;
        stand(id, 0, 7);
        tryAlone(id, 0, 7, 8);
        eq(panel.credit(verifier(0)) + panel.credit(person(2)), before / 2, "half comes back to them");
        eq(panel.credit(panel.BURNED()), STAKE / 2, "half does not");
    }

    function test_aSignerWhoLosesLosesItsBondAndTheOthersMayStandStill() public {
        _givenAway();
        stand(id, 0, 7);
        tryAlone(id, 1, 7, 8); // such as an ally of the accuser
        _in(HearingPhase.Defence);
        eq(_bond(0), 0, "who stood");
        eq(_bond(1), BOND, "not the other");
        eq(panel.credit(person(2)), BOND / 2, "half to the accuser; the appeal's bond is held");
        stand(id, 1, 7);
        tryHonestly(id, 7, 8);
        _in(HearingPhase.Done);
        eq(_bond(1), BOND, "who stood and won");
        eq(panel.credit(verifier(1)), STAKE / 2, "and is paid");
        eq(panel.credit(verifier(0)), 0, "not who stood and lost");
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
        _hear(7, 8);
        vote(id, 2, 8);
        decide(id, 7);
        appeal(id, person(2));
        tryAlone(id, 1, 7, 8);
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        (Record memory right, Record memory wrong) = (record(7), record(8));
        vm.prank(verifier(2)); // this verifier voted for another record
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
        crook.set(1);
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        s.jobs = address(crook);
        crook.submit(panel, s, d);
        uint256 hearingId = panel.hearingOf(address(crook), id);
        (uint8 v, bytes32 r, bytes32 z) = vm.sign(keys[0], panel.verdictDigest(hearingId, 1, 0, root(8)));
        bytes32 lie = root(8);
        panel.attest(hearingId, s, lie, abi.encodePacked(r, z, v));
        crook.set(0); // as if there were no verifiers
        vm.prank(verifier(0));
        registry.unregister();
        pass(7 days);
        panel.proceed(hearingId, s);
        eq(uint256(panel.getHearing(hearingId).phase), uint256(HearingPhase.Done), "its own hearing is over");
        vm.prank(verifier(0));
        vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.StillHeld.selector, verifier(0), 1));
        registry.withdrawBond();
    }

    /// @dev Otherwise a hearing that never releases a bond could hold it.
    function test_aHearingThatBeganWithoutVerifiersTakesNoVotesLater() public {
        _ruled(7, 8, 8);
        Turncoat crook = new Turncoat();
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        s.jobs = address(crook);
        crook.submit(panel, s, d); // a threshold of zero
        uint256 hearingId = panel.hearingOf(address(crook), id);
        eq(uint256(panel.getHearing(hearingId).phase), uint256(HearingPhase.Trial), "tried at once");
        crook.set(1);
        (uint8 v, bytes32 r, bytes32 z) = vm.sign(keys[2], panel.verdictDigest(hearingId, 1, 0, root(8)));
        bytes32 lie = root(8);
        refuses(IPanel.WrongHearingPhase.selector);
        panel.attest(hearingId, s, lie, abi.encodePacked(r, z, v));
        _free(2);
    }

    function test_aBondIsTakenOnce() public {
        // The same verifiers sign two lies; for the second hearing nothing is left to take.
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
        eq(panel.credit(person(1)), 2 * STAKE, "two appeals' bonds");
        eq(panel.credit(panel.BURNED()), 2 * BOND, "what two hearings hold is burned whole");
        _solvent();
    }
}
