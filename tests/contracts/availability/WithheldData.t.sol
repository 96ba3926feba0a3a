// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Lapsed} from "./Lapsed.sol";
import {Jobs} from "contracts/Jobs.sol";
import {IDataAvailability, Piece, Place, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {Job, JobPhase} from "contracts/interfaces/IJobs.sol";
import {Position} from "contracts/interfaces/IReferee.sol";

/// @notice A job whose logs nobody publishes.
contract WithheldDataTest is Lapsed {
    using Trees for Tree;
    using Views for Jobs;

    function _finder() private view returns (address) {
        return jobs.jobOf(_job).finder;
    }

    function test_logsThatNobodyShowsMakeTheJobVoid() public {
        request(ofLogs(_job), blocks(3, 1, 0));
        uint256 end = _end();
        pass(PERIOD + 1);
        dataAvailability.close(ofLogs(_job), blocks(3, 1, 0));
        inPhase(_job, JobPhase.Challenge);
        eq(_finder(), AUDITOR, "withheld");
        credited(AUDITOR, STAKE / 2, "half of the trainer's stake");
        eq(burned(), STAKE / 2, "the rest");
        yes(jobs.claimsOf(_job)[0].lost, "the trainer has lost");
        yes(_end() == end && jobs.jobOf(_job).reclaimEnd == 0, "nobody needs more time");
        eq(jobs.jobOf(_job).waiting, 0, "nobody waits");
        _finalizedVoid();
        credited(CLIENT, REWARD, "the reward");
        credited(person(1), 0, "the trainer");
        eq(address(jobs).balance, REWARD + STAKE, "nothing is minted or lost");
    }

    /// @dev A running match goes on: its winner gets the prize, its loser loses its stake.
    function test_aLiarDoesNotSaveItsStakeByLogsThatSomebodyElseWithholds() public {
        (address liar, address other) = (person(2), person(3));
        otherClaimed(_job, liar);
        otherClaimed(_job, other); // waits
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 1, _children(liar));
        _timeOut(id);
        credited(liar, STAKE / 2, "it has won against the trainer, who did not play");
        id = jobs.groupsOf(_job)[1].matchId;
        yes(id != 0 && id == jobs.groupsOf(_job)[2].matchId, "and meets who waited");
        uint256 instant = jobs.groupsOf(_job)[0].until;
        (, uint32 group0,) = jobs.pairOf(_job, id);
        _revealAs(id, group0 == 2 ? 0 : 1, other);
        vm.warp(time.time() + 50);
        _withhold();
        credited(AUDITOR, 0, "the trainer has lost already, so there is nothing left for the finder");
        eq(jobs.jobOf(_job).openMatches, 1, "the match goes on");
        _timeOut(id);
        yes(jobs.claimsOf(_job)[1].lost, "the liar has lost its stake");
        credited(other, STAKE / 2, "to who showed it wrong");
        Job memory job = jobs.jobOf(_job);
        yes(job.openMatches == 0 && job.waiting == 0, "who plays no more, and does not wait");
        eq(job.reclaimEnd, instant, "nobody needs the time to claim the liar's root again");
        _finalizedVoid();
        credited(other, STAKE / 2 + STAKE * 17 / 16, "who is right has its stake back");
        credited(liar, STAKE / 2, "the liar has not");
        credited(CLIENT, REWARD, "the reward");
        eq(address(jobs).balance, REWARD + 2 * STAKE + STAKE * 17 / 16, "nothing is minted or lost");
    }

    /// @dev Shows the nodes of this side of a match between two challengers.
    function _revealAs(uint256 id, uint8 side, address who) private {
        Position memory at;
        at.agreed = jobs.programOf(_job).initialRoot;
        (, uint32 group0, uint32 group1) = jobs.pairOf(_job, id);
        (at.root[0], at.root[1]) = (jobs.groupsOf(_job)[group0].root, jobs.groupsOf(_job)[group1].root);
        at.node = at.root;
        referee.reveal(id, at, side, _children(who));
    }

    /// @dev Calls the job as DataAvailability would.
    function _withhold() private {
        vm.prank(address(dataAvailability));
        jobs.forfeit(_job, 0, true, AUDITOR);
    }

    /// @dev Once logs are known to be withheld, nobody enters a match, neither a new group nor one that waits.
    function test_nobodyEntersAMatchWhereLogsAreWithheld() public {
        otherClaimed(_job, person(2));
        otherClaimed(_job, person(3));
        eq(jobs.jobOf(_job).waiting, 3, "the third waits");
        _withhold();
        Job memory job = jobs.jobOf(_job);
        yes(job.waiting == 0 && job.openMatches == 1, "not any more; the others play");
        otherClaimed(_job, person(4));
        otherClaimed(_job, person(5));
        job = jobs.jobOf(_job);
        yes(job.waiting == 0 && job.openMatches == 1, "two who come later do not meet");
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 1, _children(person(2)));
        _timeOut(id);
        job = jobs.jobOf(_job);
        yes(job.waiting == 0 && job.openMatches == 0, "nor does who has won");
        yes(jobs.claimsOf(_job)[0].lost, "the trainer has lost");
        credited(AUDITOR, 0, "to its opponent");
        credited(person(2), STAKE / 2, "who has the prize");
        _finalizedVoid();
        credited(person(2), STAKE / 2 + STAKE, "and its stake");
        credited(person(3), STAKE * 17 / 16, "who waited");
        credited(person(5), STAKE * 19 / 16, "who came later");
    }

    /// @dev A claimant behind the trainer has not withheld anything.
    function test_whoClaimsTheTrainersRootDoesNotLoseForItsLogs() public {
        _claimAgain(person(3));
        _withhold();
        yes(jobs.claimsOf(_job)[0].lost && !jobs.claimsOf(_job)[1].lost, "the trainer alone");
        credited(AUDITOR, STAKE / 2, "half of its stake");
        _finalizedVoid();
        credited(person(3), 2 * STAKE, "who stood behind it");
    }

    /// @dev Nor does it answer for requests made while the trainer claimed the root, however the trainer lost.
    function test_whoClaimsADeadRootDoesNotAnswerForThoseBeforeWhereLogsAreWithheld() public {
        Place memory place = recordIn(1, 0);
        request(ofClaim(_job), place);
        _lapse(ofLogs(_job), digests(1));
        (, bool alive) = jobs.standing(_job, ofClaim(_job).root);
        yes(!alive, "condemned");
        _claimAgain(person(3));
        dataAvailability.close(ofClaim(_job), place); // late for the trainer, without effect on others
        yes(!jobs.claimsOf(_job)[1].lost, "the new claim stands");
        request(ofClaim(_job), place);
        pass(PERIOD + 1);
        dataAvailability.close(ofClaim(_job), place);
        yes(jobs.claimsOf(_job)[1].lost, "for what is requested of itself it answers");
        eq(jobs.groupsOf(_job)[0].deaths, 2, "dead again");
        _finalizedVoid();
        credited(person(3), 0, "who showed nothing");
    }

    function test_whoClaimsARootThatLostItsMatchDoesNotAnswerForThoseBefore() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 1, _children(person(2)));
        Place memory place = recordIn(1, 0);
        request(ofClaim(_job), place);
        pass(10);
        _withhold();
        _timeOut(id); // the trainer's root dies in a job that is lost
        pass(PERIOD);
        _claimAgain(person(3));
        dataAvailability.close(ofClaim(_job), place);
        yes(!jobs.claimsOf(_job)[2].lost, "the new claim stands");
    }

    /// @dev The prize of its match does not save the trainer's stake.
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

    /// @dev The trainer enters no second match, so any number of accomplices delay its loss by one match only.
    function test_aTrainerDoesNotPutItsLossOffByMatchesWithItself() public {
        otherClaimed(_job, person(2));
        otherClaimed(_job, person(3)); // waits for the winner
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        _lapse(ofLogs(_job), digests(1));
        _timeOut(id);
        yes(jobs.claimsOf(_job)[0].lost, "it has lost");
        eq(jobs.groupsOf(_job)[0].matchId, 0, "it plays no other match");
        eq(jobs.jobOf(_job).waiting, 0, "nobody waits any more");
        credited(AUDITOR, STAKE / 2, "the finder's");
        _finalizedVoid();
        credited(person(3), STAKE * 17 / 16, "its stake is back: nobody has shown it wrong");
    }

    /// @dev Logs are withheld once: the first requester is the finder.
    function test_logsAreWithheldOnce() public {
        request(ofLogs(_job), digests(1));
        request(ofLogs(_job), digests(2));
        pass(PERIOD + 61);
        dataAvailability.close(ofLogs(_job), digests(1));
        uint256 end = _end();
        dataAvailability.close(ofLogs(_job), digests(2));
        credited(AUDITOR, STAKE / 2, "one prize");
        eq(
            dataAvailability.credit(AUDITOR),
            2 * dataAvailability.depositOf(Piece.Digests, PRICE),
            "both deposits"
        );
        eq(_end(), end, "and no more time");
        closeRefused(ofLogs(_job), digests(2), IDataAvailability.NoSuchRequest.selector);
    }

    /// @dev While the trainer plays, nobody takes the first requester's place.
    function test_theFirstRequesterIsTheFinder() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        request(ofLogs(_job), digests(1));
        Place[] memory places = new Place[](1);
        places[0] = digests(2);
        uint256 deposit = dataAvailability.depositOf(Piece.Digests, PRICE);
        Subject memory s = ofLogs(_job);
        vm.deal(person(5), deposit);
        vm.prank(person(5));
        dataAvailability.request{value: deposit}(s, places);
        pass(PERIOD + 61);
        dataAvailability.close(s, digests(1));
        dataAvailability.close(s, digests(2));
        _timeOut(id);
        credited(AUDITOR, STAKE / 2, "the first");
        credited(person(5), 0, "not the second");
    }

    /// @dev A request that nobody answers is free: otherwise it could keep such a job open until the limit.
    function test_noRequestPutsTheEndOffWhereLogsAreWithheld() public {
        _lapse(ofLogs(_job), digests(1));
        _claimAgain(person(3));
        uint256 end = _end();
        vm.warp(end - 1);
        request(ofLogs(_job), digests(2));
        request(ofClaim(_job), recordIn(0, 0));
        eq(_end(), end, "no more time");
        vm.warp(end + PERIOD - 1);
        answer(ofClaim(_job), recordIn(0, 0));
        pass(1);
        dataAvailability.close(ofLogs(_job), digests(2));
        finalize(_job);
        inPhase(_job, JobPhase.Void);
        credited(person(3), 2 * STAKE, "who answers what is requested of its root has its stake");
    }

    /// @dev The end does not wait for requests of withheld logs: nobody has to close others' list.
    function test_aListOfRequestsDoesNotKeepAVoidJobFromItsEnd() public {
        Subject memory s = ofLogs(_job);
        for (uint64 from = 0; from < 512; from += 64) {
            Place[] memory list = new Place[](64);
            for (uint64 i = 0; i < 64; ++i) {
                list[i] = blocks(1, 0, from + i);
            }
            request(s, list);
        }
        pass(PERIOD + 1);
        dataAvailability.close(s, blocks(1, 0, 0));
        _claimAgain(person(3));
        _finalizedVoid();
        credited(person(3), 2 * STAKE, "its stake");
        for (uint64 i = 1; i < 512; ++i) {
            dataAvailability.close(s, blocks(1, 0, i));
        }
        eq(dataAvailability.credit(AUDITOR), address(dataAvailability).balance, "all deposits come back");
    }

    /// @dev Nothing is accepted, though the remaining root is right: nobody can have known it.
    function test_nothingIsAcceptedOfAJobWhoseLogsAreWithheld() public {
        _lapse(ofLogs(_job), digests(1));
        _claimAgain(person(3));
        _finalizedVoid();
        eq(jobs.jobOf(_job).acceptedRoot, 0, "nothing");
        credited(person(3), 2 * STAKE, "its stake");
        credited(CLIENT, REWARD, "the reward");
    }

    /// @dev A trainer whose claim is lost already loses nothing more, and its logs can still be requested.
    function test_theLogsOfATrainerThatHasLost() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[1].matchId;
        referee.reveal(id, atTheTop(_job), 1, _children(person(2)));
        _timeOut(id);
        yes(jobs.claimsOf(_job)[0].lost, "the trainer has lost by default");
        credited(person(2), STAKE / 2, "a prize");
        _lapse(ofLogs(_job), digests(1));
        eq(jobs.jobOf(_job).waiting, 0, "who waited, and is not the trainer, does not wait any more");
        credited(AUDITOR, 0, "there is nothing to win");
        eq(dataAvailability.credit(AUDITOR), dataAvailability.depositOf(Piece.Digests, PRICE), "the deposit");
        _finalizedVoid();
        credited(person(2), STAKE / 2 + STAKE, "its stake is back");
        eq(address(jobs).balance, REWARD + 2 * STAKE, "nothing is minted or lost");
    }

    function test_whatIsOverIsClosedForNothing() public {
        request(ofLogs(_job), digests(1));
        request(ofLogs(_job), blocks(1, 0, 5));
        pass(PERIOD + 1);
        dataAvailability.close(ofLogs(_job), digests(1));
        vm.warp(_end());
        // NOTE: no root is left to be accepted, so the end does not wait for requests.
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Void);
        dataAvailability.close(ofLogs(_job), blocks(1, 0, 5));
        credited(AUDITOR, STAKE / 2, "one prize");
        eq(
            address(dataAvailability).balance,
            dataAvailability.credit(AUDITOR),
            "both deposits, and nothing else"
        );
    }
}
