// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Lapsed} from "./Lapsed.sol";
import {Jobs} from "contracts/Jobs.sol";
import {IDemands, Piece, Place, Subject} from "contracts/interfaces/IDemands.sol";
import {JobPhase} from "contracts/interfaces/IJobs.sol";
import {Position} from "contracts/interfaces/IReferee.sol";

/// @notice What becomes of a job whose logs nobody publishes.
contract WithheldTest is Lapsed {
    using Trees for Tree;
    using Views for Jobs;

    function _finder() private view returns (address) {
        return jobs.jobOf(_job).finder;
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

    /// @dev What is known to be withheld is not waited for: nobody has to close the list that others have open.
    function test_aListOfDemandsDoesNotKeepAVoidJobFromItsEnd() public {
        Subject memory s = ofLogs(_job);
        for (uint64 from = 0; from < 512; from += 256) {
            Place[] memory list = new Place[](256);
            for (uint64 i = 0; i < 256; ++i) {
                list[i] = blocks(1, 0, from + i);
            }
            demand(s, list);
        }
        pass(PERIOD + 1);
        demands.close(s, blocks(1, 0, 0));
        _claimAgain(person(3));
        _finalizedVoid();
        credited(person(3), STAKE, "its stake");
        for (uint64 i = 1; i < 512; ++i) {
            demands.close(s, blocks(1, 0, i));
        }
        eq(demands.credit(AUDITOR), address(demands).balance, "all deposits come back");
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
}
