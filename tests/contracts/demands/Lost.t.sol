// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Demanded} from "./Demanded.sol";
import {Jobs} from "contracts/Jobs.sol";
import {
    DemandState,
    IDemands,
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDemands.sol";
import {Claim, IJobs, JobPhase, Program, Terms} from "contracts/interfaces/IJobs.sol";
import {IPanel} from "contracts/interfaces/IPanel.sol";
import {Position, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice A referee whose match is decided by nobody, as one whose verifiers stay silent.
contract SilentReferee {
    IPanel public immutable PANEL;

    constructor(IPanel panel) {
        PANEL = panel;
    }

    function check(Program calldata) external pure returns (bytes32) {
        return 0;
    }

    function open(uint256, bytes32[2] calldata, address[2] calldata, uint32, Program calldata)
        external
        pure
        returns (uint256)
    {
        return 1;
    }

    function unresolved(IJobs jobs, uint256 job) external {
        jobs.resolve(job, 1, 0, Reason.Unresolved, new address[](0));
    }
}

/// @notice What may be demanded and when, what becomes of what nobody publishes, and how long that takes.
contract LostTest is Demanded {
    using Trees for Tree;
    using Views for Jobs;

    /// @dev Twice what 512 open pages of blocks take, at one a minute.
    uint256 private constant LISTS = 61_440;

    uint256 private _job = runClaimed();

    function _end() private view returns (uint256) {
        return jobs.jobOf(_job).challengeEnd;
    }

    function _lapse(Subject memory s, Place memory place) private {
        demand(s, place);
        pass(PERIOD + 1);
        demands.close(s, place);
    }

    function closeRefused(Subject memory s, Place memory place, bytes4 selector) private {
        refuses(selector);
        demands.close(s, place);
    }

    // ------------------------------------------------------------------ what can be demanded

    function test_onlyPlacesOfTheProgramCanBeDemanded() public {
        bytes4 refused = IDemands.NoSuchPlace.selector;
        demandRefused(ofLogs(_job), digests(0), refused);
        demandRefused(ofLogs(_job), digests(6), refused);
        demandRefused(ofLogs(_job), Place(Piece.Digests, 1, 1, 0, 0), refused);
        demandRefused(ofLogs(_job), Place(Piece.Digests, 1, 0, 1, 0), refused);
        demandRefused(ofLogs(_job), Place(Piece.Digests, 1, 0, 0, 1), refused);
        demandRefused(ofLogs(_job), blocks(1, 3, 0), refused);
        demandRefused(ofLogs(_job), Place(Piece.Blocks, 1, 0, 1, 0), refused);
        demandRefused(ofClaim(_job), recordIn(3, 0), refused);
        demandRefused(ofClaim(_job), recordIn(0, 3), refused);
        demandRefused(ofClaim(_job), Place(Piece.Record, 0, 0, 0, 1), refused);
        demandRefused(ofClaim(_job), leafIn(3, 0, 0, 0), refused);
        demand(ofClaim(_job), leafIn(2, 2, 0, 0));
    }

    function test_onlyWhatIsCommittedToCanBeDemanded() public {
        demandRefused(ofLogs(_job), recordIn(0, 0), IDemands.NotClaimed.selector);
        demandRefused(ofClaim(_job), digests(1), IDemands.NoSuchLogs.selector);
        uint256 other = claimed(7);
        Subject memory s = Subject(IJobs(address(jobs)), other, 0);
        demandRefused(s, digests(1), IDemands.NoSuchLogs.selector);
        demandRefused(s, recordIn(0, 0), IDemands.NotClaimed.selector);
        s.root = root(7);
        demand(s, recordIn(0, 0));
    }

    function test_aBatchIsOfOneRootAndPaid() public {
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (digests(1), recordIn(0, 0));
        uint256 both = demands.depositOf(Piece.Digests) + demands.depositOf(Piece.Record);
        Subject memory s = ofLogs(_job);
        refuses(IDemands.WrongPiece.selector);
        demands.demand{value: both}(s, list);
        list[1] = digests(2);
        refuses(IDemands.WrongDeposit.selector);
        demands.demand{value: both - 1}(s, list);
        refuses(IDemands.NothingDemanded.selector);
        demands.demand(s, new Place[](0));
        demand(s, list);
    }

    /// @dev Whoever is first to demand one of many places does not keep another from the rest.
    function test_whatIsDemandedAlreadyIsPassedOver() public {
        Subject memory s = ofLogs(_job);
        demand(s, digests(1));
        Place[] memory list = new Place[](3);
        (list[0], list[1], list[2]) = (digests(1), digests(2), digests(2));
        demand(s, list);
        eq(demands.credit(AUDITOR), 2 * demands.depositOf(Piece.Digests), "one is new");
        eq(demands.pending(s.jobs, _job, s.root, 0, 0), 2, "two are open");
        uint256 end = _end();
        answer(s, digests(1));
        pass(10);
        demand(s, digests(1));
        eq(_end(), end, "nothing is extended for nothing");
    }

    function test_onlyInTheChallengePhase() public {
        vm.warp(_end());
        demandRefused(ofLogs(_job), digests(1), IJobs.WrongPhase.selector);
        uint256 early = post(roundedTerms());
        Subject memory s = Subject(IJobs(address(jobs)), early, 0);
        demandRefused(s, digests(1), IJobs.WrongPhase.selector);
    }

    /// @dev A trainer could make the job void, and save the stake that it owes for not revealing.
    function test_logsThatWereNotRevealedCannotBeDemanded() public {
        uint256 job = post(roundedTerms());
        join(job, person(2));
        commit(job, person(2), 7);
        pass(PERIOD);
        inPhase(job, JobPhase.Challenge);
        demandRefused(Subject(IJobs(address(jobs)), job, 0), digests(1), IJobs.LogsNotRevealed.selector);
    }

    function test_onlyTheContractOfDemandsTellsJobs() public {
        refuses(IJobs.NotDemands.selector);
        jobs.extend(_job, 0, 0);
        bytes32 root = ofClaim(_job).root;
        refuses(IJobs.NotDemands.selector);
        jobs.forfeit(_job, root, false, AUDITOR);
    }

    // ------------------------------------------------------------------ what is lost

    function test_aRecordThatNobodyShowsLosesTheRoot() public {
        Place memory place = recordIn(2, 1);
        demand(ofClaim(_job), place);
        uint256 end = _end();
        pass(PERIOD + 1);
        demands.close(ofClaim(_job), place);
        credited(AUDITOR, STAKE / 2, "the finder's prize");
        eq(burned(), STAKE / 2, "the rest");
        eq(demands.credit(AUDITOR), demands.depositOf(Piece.Record), "the deposit");
        yes(jobs.claimsOf(_job)[0].lost, "the claim is lost");
        (, bool alive) = jobs.standing(_job, ofClaim(_job).root);
        yes(!alive, "nobody claims the root any more");
        yes(_end() >= end, "a challenge may follow");
        inPhase(_job, JobPhase.Challenge);
        vm.warp(_end());
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "the reward");
        eq(address(jobs).balance, REWARD + STAKE, "nothing is minted or lost");
    }

    function test_allWhoClaimTheRootLose() public {
        uint256 job = claimed(7, 7, 7);
        Subject memory s = Subject(IJobs(address(jobs)), job, root(7));
        _lapse(s, recordIn(0, 0));
        credited(AUDITOR, 3 * STAKE / 2, "half of three stakes");
        for (uint256 i = 0; i < 3; ++i) {
            yes(jobs.claimsOf(job)[i].lost, "each is lost");
        }
        eq(address(jobs).balance, 2 * REWARD + 4 * STAKE, "nothing is minted or lost");
    }

    // ------------------------------------------------------------------ what logs are lost for

    function _finder() private view returns (address) {
        return jobs.jobOf(_job).finder;
    }

    /// @dev Both groups of the first match lose by their clocks, or only this side if the other has revealed.
    function _timeOut(uint256 id) private {
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
    }

    function _finalizedVoid() private {
        vm.warp(_end());
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Void);
    }

    function test_logsThatNobodyShowsMakeTheJobVoid() public {
        _lapse(ofLogs(_job), blocks(3, 1, 0));
        inPhase(_job, JobPhase.Challenge);
        eq(_finder(), AUDITOR, "withheld");
        credited(AUDITOR, STAKE / 2, "half of the trainer's stake");
        eq(burned(), STAKE / 2, "the rest");
        yes(jobs.claimsOf(_job)[0].lost, "the trainer has lost");
        yes(_end() == block.timestamp + PERIOD, "whoever can show another wrong has the time to");
        _finalizedVoid();
        credited(CLIENT, REWARD, "the reward");
        credited(person(1), 0, "the trainer");
        eq(address(jobs).balance, REWARD + STAKE, "nothing is minted or lost");
    }

    /// @dev A liar who is not the trainer loses to whoever has the logs, as ever.
    function test_aLiarDoesNotSaveItsStakeByLogsThatSomebodyElseWithholds() public {
        address liar = person(2);
        otherClaimed(_job, liar);
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 1, _children(liar));
        _lapse(ofLogs(_job), digests(1));
        eq(_finder(), AUDITOR, "withheld");
        credited(AUDITOR, 0, "the trainer plays, so its stake waits for the match");
        _timeOut(id);
        credited(liar, STAKE / 2, "it has won against the trainer, who did not play");
        credited(AUDITOR, 0, "so there is nothing left for the finder");
        _claimAgain(person(3)); // who has the logs, but does not want to show them
        id = jobs.groupsOf(_job)[0].matchId;
        bytes32 root = ofClaim(_job).root;
        yes(id != 0 && jobs.groupsOf(_job)[0].root == root, "the game goes on");
        (, uint8 group0,) = jobs.pairOf(_job, id);
        uint8 right = group0 == 0 ? 0 : 1;
        Position memory at;
        at.agreed = jobs.programOf(_job).initialRoot;
        bytes32 lie = jobs.groupsOf(_job)[1].root;
        (at.root[right], at.root[1 - right]) = (root, lie);
        at.node = at.root;
        referee.reveal(id, at, right, runTree().levels[0]);
        _timeOut(id);
        yes(jobs.claimsOf(_job)[1].lost, "the liar has lost its stake");
        credited(person(3), STAKE / 2, "to who showed it wrong");
        _finalizedVoid();
        credited(person(3), STAKE / 2 + STAKE, "who is right has its stake back");
        credited(liar, STAKE / 2, "the liar has not");
        credited(CLIENT, REWARD, "the reward");
        eq(address(jobs).balance, REWARD + 3 * STAKE, "nothing is minted or lost");
    }

    /// @dev What the trainer wins in the match that it is in does not save its stake.
    function test_aTrainerWhoWinsItsMatchLosesForItsLogsAllTheSame() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        _lapse(ofLogs(_job), digests(1));
        yes(!jobs.claimsOf(_job)[0].lost, "not while it plays");
        _timeOut(id);
        yes(jobs.claimsOf(_job)[0].lost && jobs.claimsOf(_job)[1].lost, "then it has lost, too");
        credited(person(1), STAKE / 2, "its prize");
        credited(AUDITOR, STAKE / 2, "the finder's");
        _finalizedVoid();
        eq(burned(), STAKE, "the rest");
        eq(address(jobs).balance, REWARD + 2 * STAKE, "nothing is minted or lost");
    }

    /// @dev It enters no second match, so with any number of accomplices it puts its loss off for one match.
    function test_aTrainerDoesNotPutItsLossOffByMatchesWithItself() public {
        otherClaimed(_job, person(2));
        otherClaimed(_job, person(3)); // waits for the winner
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        _lapse(ofLogs(_job), digests(1));
        _timeOut(id);
        yes(jobs.claimsOf(_job)[0].lost, "it has lost");
        eq(jobs.groupsOf(_job)[0].matchId, 0, "it plays no other match");
        eq(jobs.jobOf(_job).waiting, 3, "who waited still waits");
        credited(AUDITOR, STAKE / 2, "the finder's");
        _finalizedVoid();
        credited(person(3), STAKE, "its stake is back: nobody has shown it wrong");
    }

    /// @dev In an attested job whose verifiers see no inputs and say nothing.
    function test_aTrainerDoesNotSaveItsStakeByAMatchThatNobodyDecides() public {
        SilentReferee crook = new SilentReferee(panel);
        Terms memory t = roundedTerms();
        t.referee = address(crook);
        uint256 job = post(t);
        join(job, person(1));
        bytes32 commitment = jobs.commitmentOf(job, person(1), root(7), root(7), "logs", "salt");
        Claim memory c = claim(7);
        vm.prank(person(1));
        jobs.commit(job, commitment);
        vm.prank(person(1));
        jobs.reveal(job, c, "logs", "salt");
        challenge(job, person(2), 8);
        _lapse(Subject(IJobs(address(jobs)), job, "logs"), digests(1));
        crook.unresolved(IJobs(address(jobs)), job);
        inPhase(job, JobPhase.Void);
        credited(AUDITOR, STAKE / 2, "the finder's");
        credited(person(1), 0, "the trainer's stake is lost");
        credited(person(2), STAKE, "its opponent's is not");
        credited(CLIENT, REWARD, "the reward");
    }

    /// @dev Logs that are withheld are withheld once: the first demander is the finder.
    function test_logsAreWithheldOnce() public {
        demand(ofLogs(_job), digests(1));
        demand(ofLogs(_job), digests(2));
        pass(PERIOD + 61);
        demands.close(ofLogs(_job), digests(1));
        uint256 end = _end();
        demands.close(ofLogs(_job), digests(2));
        credited(AUDITOR, STAKE / 2, "one prize");
        eq(demands.credit(AUDITOR), 2 * demands.depositOf(Piece.Digests), "both deposits");
        eq(_end(), end, "and no more time");
        closeRefused(ofLogs(_job), digests(2), IDemands.NoSuchDemand.selector);
    }

    /// @dev While the trainer plays, nobody takes the first demander's place.
    function test_theFirstDemanderIsTheFinder() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        demand(ofLogs(_job), digests(1));
        Place[] memory places = new Place[](1);
        places[0] = digests(2);
        uint256 deposit = demands.depositOf(Piece.Digests);
        Subject memory s = ofLogs(_job);
        vm.deal(person(5), deposit);
        vm.prank(person(5));
        demands.demand{value: deposit}(s, places);
        pass(PERIOD + 61);
        demands.close(s, digests(1));
        demands.close(s, digests(2));
        _timeOut(id);
        credited(AUDITOR, STAKE / 2, "the first");
        credited(person(5), 0, "not the second");
    }

    /// @dev What nobody answers costs its demander nothing: without a stake anybody could keep such a job open until the limit.
    function test_noDemandPutsTheEndOffWhereLogsAreWithheld() public {
        _lapse(ofLogs(_job), digests(1));
        _claimAgain(person(3));
        uint256 end = _end();
        vm.warp(end - 1);
        demand(ofLogs(_job), digests(2));
        demand(ofClaim(_job), recordIn(0, 0));
        eq(_end(), end, "no more time");
        vm.warp(end + PERIOD - 1);
        answer(ofClaim(_job), recordIn(0, 0));
        pass(1);
        demands.close(ofLogs(_job), digests(2));
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Void);
        credited(person(3), STAKE, "who answers what is demanded of its root has its stake");
    }

    /// @dev Nothing is accepted, though the root that is left is right: nobody can have known it.
    function test_nothingIsAcceptedOfAJobWhoseLogsAreWithheld() public {
        _lapse(ofLogs(_job), digests(1));
        _claimAgain(person(3));
        _finalizedVoid();
        eq(jobs.jobOf(_job).acceptedRoot, 0, "nothing");
        credited(person(3), STAKE, "its stake");
        credited(CLIENT, REWARD, "the reward");
    }

    /// @dev A trainer whose claim is lost already loses nothing more, and its logs can still be demanded.
    function test_theLogsOfATrainerThatHasLost() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[1].matchId;
        referee.reveal(id, atTheTop(_job), 1, _children(person(2)));
        _timeOut(id);
        yes(jobs.claimsOf(_job)[0].lost, "the trainer has lost by default");
        credited(person(2), STAKE / 2, "a prize");
        _lapse(ofLogs(_job), digests(1));
        eq(jobs.jobOf(_job).waiting, 2, "who waits is not the trainer");
        credited(AUDITOR, 0, "there is nothing to win");
        eq(demands.credit(AUDITOR), demands.depositOf(Piece.Digests), "the deposit");
        _finalizedVoid();
        credited(person(2), STAKE / 2 + STAKE, "its stake is back");
        eq(address(jobs).balance, REWARD + 2 * STAKE, "nothing is minted or lost");
    }

    function _children(address who) private pure returns (bytes32[] memory nodes) {
        nodes = new bytes32[](4);
        for (uint256 i = 0; i < 4; ++i) {
            nodes[i] = runTree().levels[0][i];
        }
        nodes[0] = sha256(abi.encode(who));
    }

    function test_aGroupPlaysItsMatchToTheEndFirst() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        demand(ofClaim(_job), recordIn(0, 0));
        pass(PERIOD + 1);
        // NOTE: by now both are late; before anybody says so, the group is in the match.
        closeRefused(ofClaim(_job), recordIn(0, 0), IJobs.GroupPlays.selector);
        is_(stateOf(ofClaim(_job), recordIn(0, 0)), DemandState.Open, "it waits for the match");
        referee.timeout(id);
        // Both have lost by default, so there is nothing to lose any more.
        demands.close(ofClaim(_job), recordIn(0, 0));
        credited(AUDITOR, 0, "the match came first");
        eq(demands.credit(AUDITOR), demands.depositOf(Piece.Record), "the deposit");
    }

    function test_aWinnerLosesByWhatWasDemandedOfItMeanwhile() public {
        bytes32 root = otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        demand(ofClaim(_job), recordIn(0, 0));
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
        credited(person(1), STAKE / 2, "the match is won");
        closeRefused(ofClaim(_job), recordIn(0, 0), IDemands.NotLate.selector);
        vm.warp(_end());
        refuses(IJobs.DemandsOpen.selector);
        jobs.finalize(_job);
        demands.close(ofClaim(_job), recordIn(0, 0));
        credited(AUDITOR, STAKE / 2, "and lost all the same");
        inPhase(_job, JobPhase.Challenge);
        yes(root != 0, "another");
    }

    /// @dev Whoever claims a root again is not answerable for what was demanded of those who have lost it.
    function test_aDemandDiesWithThoseItWasMadeOf() public {
        Subject memory s = ofClaim(_job);
        demand(s, recordIn(1, 0));
        demand(s, recordIn(1, 1));
        pass(PERIOD + 1);
        demands.close(s, recordIn(1, 0));
        _claimAgain(person(3));
        demands.close(s, recordIn(1, 1));
        (, bool alive) = jobs.standing(_job, s.root);
        yes(alive, "the new claim stands");
        credited(AUDITOR, STAKE / 2, "one prize");
        demand(s, recordIn(1, 1));
        answer(s, recordIn(1, 1));
        vm.warp(_end());
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    function _claimAgain(address who) private {
        bytes32 root = ofClaim(_job).root;
        bytes32 last = stepTree(STEPS).root();
        bytes32 commitment = jobs.commitmentOf(_job, who, root, last, 0, "salt");
        vm.prank(who);
        jobs.commitChallenge(_job, commitment);
        pass(1);
        Claim memory c = Claim(root, last, runTree().path(2), "http://claim");
        vm.prank(who);
        jobs.challenge{value: STAKE}(_job, c, "salt");
    }

    function test_whatIsOverIsClosedForNothing() public {
        demand(ofLogs(_job), digests(1));
        demand(ofLogs(_job), blocks(1, 0, 5));
        pass(PERIOD + 1);
        demands.close(ofLogs(_job), digests(1));
        vm.warp(_end());
        // NOTE: with nobody left to be accepted nothing waits for what is demanded.
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Void);
        demands.close(ofLogs(_job), blocks(1, 0, 5));
        credited(AUDITOR, STAKE / 2, "one prize");
        eq(address(demands).balance, demands.credit(AUDITOR), "both deposits, and nothing else");
    }

    // ------------------------------------------------------------------ time

    function test_whoGetsItLateHasTheTimeToChallenge() public {
        vm.warp(_end() - 1);
        demand(ofLogs(_job), digests(1));
        eq(_end(), block.timestamp + 2 * PERIOD, "an answer, and a challenge period");
        pass(PERIOD);
        answer(ofLogs(_job), digests(1));
        inPhase(_job, JobPhase.Challenge);
    }

    function test_demandsDoNotKeepAJobFromEnding() public {
        uint256 limit = block.timestamp + 4 * 2 * PERIOD + LISTS;
        (Subject memory s, RecordPiece memory shown) = (ofClaim(_job), recordAt(recordIn(0, 0)));
        TensorPiece memory none;
        while (jobs.phaseOf(_job) == JobPhase.Challenge) {
            Place memory place = leafIn(0, 0, 300, uint64(time.time()));
            demand(s, place);
            yes(_end() <= limit, "not longer than that");
            pass(PERIOD / 2);
            demands.answerLeaf(s, place, shown, none);
            pass(PERIOD / 2);
        }
        eq(_end(), limit, "for as long as that");
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    function test_nothingIsAcceptedWhileSomethingIsDemanded() public {
        vm.warp(_end() - 1);
        uint256 limit = block.timestamp + 4 * 2 * PERIOD + LISTS;
        LogPiece memory none = logAt(blocks(1, 2, 0));
        Subject memory s = ofLogs(_job);
        for (uint64 i = 0; _end() < limit; ++i) {
            demand(s, blocks(1, 2, i));
            pass(PERIOD);
            demands.answerBlocks(s, blocks(1, 2, i), none);
        }
        vm.warp(_end() - 1);
        demand(ofLogs(_job), digests(1));
        pass(1);
        inPhase(_job, JobPhase.Closing);
        refuses(IJobs.DemandsOpen.selector);
        jobs.finalize(_job);
        answer(ofLogs(_job), digests(1));
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    // ------------------------------------------------------------------ money

    function test_demandingOfHimselfCostsHalfAStake() public {
        address trainer = person(1);
        Place[] memory places = new Place[](1);
        places[0] = recordIn(0, 0);
        uint256 deposit = demands.depositOf(Piece.Record);
        Subject memory s = ofClaim(_job);
        vm.deal(trainer, deposit);
        vm.prank(trainer);
        demands.demand{value: deposit}(s, places);
        pass(PERIOD + 1);
        demands.close(ofClaim(_job), places[0]);
        eq(jobs.credit(trainer) + demands.credit(trainer), STAKE / 2 + deposit, "half is burned");
    }

    function test_creditsAreDrawn() public {
        demand(ofLogs(_job), digests(1));
        answer(ofLogs(_job), digests(1));
        uint256 fee = demands.credit(AUTHOR);
        vm.prank(AUTHOR);
        demands.withdraw();
        eq(AUTHOR.balance, fee, "the fee");
        vm.prank(AUDITOR);
        demands.withdraw();
        eq(address(demands).balance, 0, "all is paid out");
    }
}
