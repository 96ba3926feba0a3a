// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Pledging} from "./Pledging.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {IJobs} from "contracts/interfaces/IJobs.sol";
import {Backed, Conditions, IPledges, Written} from "contracts/interfaces/IPledges.sol";
import {JobPhase, Program, Terms} from "contracts/interfaces/JobTypes.sol";

/// @notice Pledges and challenges. Whole disputes are played on a chain (tests/e2e/test_challenged_receipts.py).
contract PledgesTest is Pledging {
    // ------------------------------------------------------------------ money

    function test_aWrongReceiptCostsAForfeitOnce() public {
        Backed memory b = backed("a", FALSE);
        uint256 first = challenge(USER, b);
        uint256 second = challenge(USER, b);
        accept(first, RIGHT);
        accept(second, RIGHT);
        decide(b, RIGHT);
        eq(left(), 1 ether, "pledge");
        eq(pledges.credit(USER), CHARGE + FORFEIT / 2, "prize");
        yes(pledges.isWrong(pledges.digestOf(b)), "shown wrong");
        solvent(1);
        decide(b, RIGHT);
        eq(left(), 1 ether, "paid once");
        eq(pledges.credit(USER), 2 * CHARGE + FORFEIT / 2, "charges are back");
        solvent(0);
        commit(USER, b);
        _refused(b, IPledges.AlreadyWrong.selector);
    }

    function test_aPledgePaysWhatItHas() public {
        (Backed memory a, Backed memory b) = (backed("a", FALSE), backed("b", FALSE));
        accept(challenge(USER, a), RIGHT);
        accept(challenge(USER, b), RIGHT);
        decide(a, RIGHT);
        decide(b, RIGHT);
        eq(left(), 0, "all");
        eq(pledges.credit(BURNED), 1.5 ether, "half is burned");
        solvent(0);
    }

    function test_aRightReceiptAndOneThatNobodyBacksCostTheCharge() public {
        (Backed memory a, Backed memory b) = (backed("a", RIGHT), backed("b", FALSE));
        accept(challenge(USER, a), RIGHT);
        jobs.end(challenge(USER, b), JobPhase.Unclaimed, 0);
        decide(a, RIGHT);
        decide(b, 0);
        eq(left(), 3 ether, "pledge");
        eq(pledges.credit(OWNER), CHARGE, "two halves");
        eq(pledges.credit(BURNED), CHARGE, "two halves");
        solvent(0);
    }

    function test_fuzz_whatIsOwedIsThere(uint96 value, bool right, bool again) public {
        pledge(value % 100 ether + 1);
        Backed memory b = backed("a", right ? RIGHT : FALSE);
        accept(challenge(USER, b), RIGHT);
        if (again) accept(challenge(USER, b), RIGHT);
        decide(b, RIGHT);
        solvent(again ? 1 : 0);
        if (again) decide(b, RIGHT);
        solvent(0);
    }

    // ------------------------------------------------------------------ order

    function test_challengesAreDecidedInTheirOrder() public {
        (Backed memory a, Backed memory b) = (backed("a", FALSE), backed("b", FALSE));
        uint256 first = challenge(USER, a);
        accept(challenge(USER, b), RIGHT);
        (Written memory w,) = writtenOf(RIGHT);
        refuses(IPledges.OtherReceipt.selector);
        pledges.decide(conditions(), b, w);
        refuses(IJobs.JobRuns.selector);
        pledges.decide(conditions(), a, w);
        accept(first, RIGHT);
        decide(a, RIGHT);
        decide(b, RIGHT);
        refuses(IPledges.NothingOpen.selector);
        pledges.decide(conditions(), b, w);
    }

    function test_aProofOfAnotherPlaceDecidesNothing() public {
        Backed memory b = backed("a", FALSE);
        accept(challenge(USER, b), RIGHT);
        (Written memory w, bytes32 root) = writtenOf(RIGHT);
        w.output = 1;
        refuses(Merkle.PathMismatch.selector);
        pledges.decide(conditions(), b, w);
        (w,) = writtenOf(FALSE);
        refuses(Merkle.PathMismatch.selector);
        pledges.decide(conditions(), b, w);
        w.last = root;
        refuses(Merkle.PathMismatch.selector);
        pledges.decide(conditions(), b, w);
        decide(b, RIGHT);
    }

    function test_whatNobodyOpensIsClosed() public {
        Backed memory b = backed("a", FALSE);
        jobs.end(challenge(USER, b), JobPhase.Accepted, "nonsense");
        (Written memory w,) = writtenOf(RIGHT);
        vm.expectRevert();
        pledges.decide(conditions(), b, w);
        pledges.close(conditions(), b);
        eq(pledges.challengeOf(OWNER, 0).closesAt, currentSecond() + PERIOD, "a period");
        pass(PERIOD - 1);
        refuses(IPledges.StillOpen.selector);
        pledges.close(conditions(), b);
        pass(1);
        pledges.close(conditions(), b);
        eq(left(), 3 ether, "pledge");
        solvent(0);
        jobs.end(challenge(USER, b), JobPhase.Unclaimed, 0);
        refuses(IPledges.NothingAccepted.selector);
        pledges.close(conditions(), b);
    }

    function test_challengersSayWhatMustBeLeft() public {
        Backed memory b = backed("b", FALSE);
        challenge(USER, backed("a", FALSE));
        commit(USER, b);
        vm.deal(USER, CHARGE);
        Conditions memory c = conditions();
        bytes memory s = signature(KEY, b);
        Program memory p = program();
        refuses(IPledges.CoveredBy.selector);
        vm.prank(USER);
        pledges.challenge{value: CHARGE}(c, b, s, p, "", 1 ether + 1, SALT);
        vm.prank(USER);
        pledges.challenge{value: CHARGE}(c, b, s, p, "", 1 ether, SALT);
    }

    // ------------------------------------------------------------------ the job

    function test_theJobHasTheTermsOfTheConditions() public {
        challenge(USER, backed("a", FALSE));
        Terms memory t = jobs.last();
        Conditions memory c = conditions();
        eq(t.programFile, "file", "the file that is signed");
        eq(t.referee, pledges.REFEREE(), "referee");
        eq(address(pledges.JOBS()), address(jobs), "jobs");
        eq(t.verifiers.length + t.watchPeriod, 0, "none");
        eq(uint256(t.slots), 16, "slots");
        eq(t.stake + t.lowFee + t.highFee, c.stake + c.lowFee + c.highFee, "money");
        eq(t.trainPeriod + t.revealPeriod + t.challengePeriod, 3 * PERIOD, "periods");
        eq(keccak256(abi.encode(t.rules)), keccak256(abi.encode(c.rules)), "rules");
        eq(keccak256(abi.encode(t.program)), keccak256(abi.encode(program())), "program");
    }

    // ------------------------------------------------------------------ refusals

    function test_whatIsNotSignedIsRefused() public {
        Backed memory b = backed("a", FALSE);
        commit(USER, b);
        bytes memory foreign = signature(KEY + 1, b);
        Conditions memory c = conditions();
        Program memory p = program();
        vm.deal(USER, CHARGE);
        refuses(IPledges.NotSigned.selector);
        vm.prank(USER);
        pledges.challenge{value: CHARGE}(c, b, foreign, p, "", 0, SALT);
        bytes memory s = signature(KEY, b);
        vm.chainId(5);
        refuses(IPledges.NotSigned.selector);
        vm.prank(USER);
        pledges.challenge{value: CHARGE}(c, b, s, p, "", 0, SALT);
    }

    function test_anotherProgramIsRefused() public {
        Backed memory b = backed("a", FALSE);
        b.program = "another";
        commit(USER, b);
        _refused(b, IPledges.OtherProgram.selector);
    }

    function test_commitmentsHaveAnAgeAndASender() public {
        Backed memory b = backed("a", FALSE);
        bytes32 commitment = pledges.commitmentOf(USER, pledges.digestOf(b), SALT);
        pledges.commit(commitment);
        pass(47);
        pledges.commit(commitment);
        eq(pledges.committedAt(commitment), currentSecond() - 47, "it keeps its age");
        _refused(b, IJobs.TooSoon.selector);
        pass(1);
        vm.deal(OWNER, CHARGE);
        Conditions memory c = conditions();
        bytes memory s = signature(KEY, b);
        Program memory p = program();
        refuses(IJobs.NothingCommitted.selector);
        vm.prank(OWNER);
        pledges.challenge{value: CHARGE}(c, b, s, p, "", 0, SALT);
        vm.deal(USER, CHARGE);
        refuses(IPledges.WrongCharge.selector);
        vm.prank(USER);
        pledges.challenge{value: CHARGE - 1}(c, b, s, p, "", 0, SALT);
    }

    function test_theLastSecondOfAReceiptIsInTime() public {
        Backed memory b = backed("a", FALSE);
        commit(USER, b);
        vm.warp(b.until + 1);
        _refused(b, IPledges.ReceiptExpired.selector);
        vm.warp(b.until);
        challengeNow(USER, b);
    }

    // ------------------------------------------------------------------ leaving

    function test_aPledgeLeavesAfterItsNotice() public {
        Backed memory b = backed("a", FALSE);
        vm.prank(OWNER);
        refuses(IPledges.StillPledged.selector);
        pledges.reclaim();
        vm.prank(OWNER);
        pledges.giveNotice(conditions());
        vm.prank(OWNER);
        refuses(IPledges.AlreadyLeaving.selector);
        pledges.giveNotice(conditions());
        uint256 job = challenge(USER, b);
        pass(NOTICE - 49);
        vm.prank(OWNER);
        refuses(IPledges.StillPledged.selector);
        pledges.reclaim();
        pass(1);
        commit(USER, b);
        _refused(b, IPledges.PledgeGone.selector);
        vm.prank(OWNER);
        refuses(IPledges.ChallengesOpen.selector);
        pledges.reclaim();
        accept(job, RIGHT);
        decide(b, RIGHT);
        vm.prank(OWNER);
        pledges.reclaim();
        eq(pledges.credit(OWNER), 1 ether, "what is left");
        vm.prank(OWNER);
        refuses(IPledges.NothingPledged.selector);
        pledges.reclaim();
        _refused(b, IPledges.NothingPledged.selector);
        solvent(0);
    }

    function test_conditionsNeverChange() public {
        Conditions memory c = conditions();
        c.charge = 1;
        vm.deal(OWNER, 9 ether);
        vm.prank(OWNER);
        refuses(IPledges.OtherConditions.selector);
        pledges.pledge{value: 3 ether}(c);
        vm.prank(USER);
        refuses(IPledges.NothingPledged.selector);
        pledges.giveNotice(c);
    }

    function test_conditionsThatBackNothingAreRefused() public {
        for (uint256 i = 0; i < 4; ++i) {
            Conditions memory c = conditions();
            if (i == 0) c.forfeit = 0;
            if (i == 1) c.notice = 0;
            if (i == 2) c.notice = 366 days;
            if (i == 3) c.signer = address(0);
            refuses(IPledges.BadConditions.selector);
            pledges.pledge{value: 0}(c);
        }
        vm.deal(USER, FORFEIT);
        vm.prank(USER);
        refuses(IPledges.PledgeTooSmall.selector);
        pledges.pledge{value: FORFEIT - 1}(conditions());
    }

    /// @dev The attack: the owner takes all slots of a challenge's job and gives them back in its last second.
    function test_toKeepAChallengerFromTheSlotsCostsAForfeit() public {
        vm.deal(USER, 100 ether);
        for (uint256 i = 0; i < 4; ++i) {
            Conditions memory c = conditions();
            if (i == 0) c.stake = 32 * CHARGE - 1;
            if (i == 1) c.charge = uint96(CHARGE + 1);
            if (i == 2) c.forfeit = uint96(16 * CHARGE + 1);
            if (i == 3) c.forfeit = uint96(16 * CHARGE);
            if (i < 3) refuses(IPledges.StakeTooLow.selector);
            vm.prank(USER);
            pledges.pledge{value: 16 * CHARGE + 1}(c);
        }
    }

    /// @dev The user's challenge of a receipt, to which it has committed, is refused.
    function _refused(Backed memory b, bytes4 why) private {
        vm.deal(USER, USER.balance + CHARGE);
        Conditions memory c = conditions();
        bytes memory s = signature(KEY, b);
        Program memory p = program();
        refuses(why);
        vm.prank(USER);
        pledges.challenge{value: CHARGE}(c, b, s, p, "", 0, SALT);
    }
}
