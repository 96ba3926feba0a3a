// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Requested} from "../availability/Requested.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {DataRequest, Place, RequestState, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice A claim in the last second leaves nobody the time for another claim. So nothing can be claimed where no
/// trainer has revealed anything, because nobody else has trained there; and the data of such a claim can be requested
/// a challenge period long.
contract LastSecondTest is Requested {
    using Views for Jobs;

    address private constant HOSTILE = address(0xBAD);

    /// @dev A trainer who has committed reveals nothing; a root of nobody's run would be the only one, and be accepted.
    function test_aJobThatNobodyHasRevealedInIsNotClaimed() public {
        vm.deal(HOSTILE, 2 * STAKE);
        uint256 job = post(1);
        join(job, HOSTILE);
        commit(job, HOSTILE, 8);
        pass(PERIOD); // it does not reveal
        vm.warp(jobs.jobOf(job).challengeEnd - 2);
        commitChallenge(job, person(2), 8);
        inPhase(job, JobPhase.Challenge);
        challengeRefused(job, person(2), 8, STAKE, IJobs.NothingRevealed.selector);
        pass(1);
        finalize(job);
        inPhase(job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "the client is whole");
        eq(burned(), STAKE, "the trainer's stake is burned");
    }

    /// @dev The root of a run that its author shows to nobody.
    function test_ARootThatIsClaimedInTheLastSecondCanBeRequestedOf() public {
        uint256 job = runClaimed();
        vm.warp(jobs.jobOf(job).challengeEnd - 2);
        Subject memory s = Subject(IJobs(address(jobs)), job, otherClaimed(job, person(2)));
        pass(1);
        inPhase(job, JobPhase.Closing);
        uint256 until = jobs.groupsOf(job)[1].until;
        eq(until, time.time() - 1 + PERIOD, "a challenge period");
        vm.warp(until - 1);
        request(s, recordIn(0, 0));
        refuses(IJobs.MatchesOpen.selector);
        jobs.finalize(job);
        uint256 id = jobs.groupsOf(job)[0].matchId;
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id); // both are silent
        yes(jobs.claimsOf(job)[0].lost && jobs.claimsOf(job)[1].lost, "both have lost");
    }

    /// @dev The trainers' roots had a challenge period for requests.
    function test_aRootThatWasRevealedCannotBeRequestedOfLater() public {
        uint256 job = runClaimed();
        vm.warp(jobs.jobOf(job).challengeEnd);
        requestRefused(ofClaim(job), recordIn(0, 1), IJobs.WrongPhase.selector);
        jobs.finalize(job);
    }

    /// @dev A request from a former life of a root keeps nobody from requesting its data.
    function test_aPlaceOfAFormerLifeIsRequestedAnew() public {
        uint256 job = claimed(7);
        Subject memory s = Subject(IJobs(address(jobs)), job, root(7));
        Place memory place = recordIn(0, 0);
        requestAs(HOSTILE, s, one(place));
        uint256 deposit = depositsOf(s, one(leafIn(0, 0, 0, 0)));
        challenge(job, person(2), 8);
        winByDefault(job, 8); // the trainer gives it away
        challenge(job, person(3), 7);
        eq(dataAvailability.requestOf(s, place).life, 1, "of the first life");
        eq(dataAvailability.pending(s.jobs, job, 0, s.root, 2), 0, "nothing is open in this one");
        pass(5);
        request(s, place);
        DataRequest memory d = dataAvailability.requestOf(s, place);
        eq(d.life, 2, "of the second");
        yes(d.requester == AUDITOR && d.state == RequestState.Open, "the auditor's");
        eq(d.until, time.time() + PERIOD, "with a period of its own");
        yes(
            dataAvailability.credit(HOSTILE) > 0 && dataAvailability.credit(HOSTILE) <= deposit,
            "the first deposit is back"
        );
        eq(dataAvailability.pending(s.jobs, job, 0, s.root, 1), 0, "nothing is open in the first life");
        eq(dataAvailability.pending(s.jobs, job, 0, s.root, 2), 1, "one in the second");
    }
}
