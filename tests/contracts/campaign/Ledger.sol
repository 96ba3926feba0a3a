// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Actors} from "./Actors.sol";
import {DataRequest} from "contracts/interfaces/IDataAvailability.sol";
import {Group, Job, JobPhase, StakedClaim, Trainer} from "contracts/interfaces/IJobs.sol";

/// @title Ledger
/// @notice Sums and states that agree at any time, after any acts: ether, and which groups wait, play or have lost.
abstract contract Ledger is Actors {
    function accounts() public view returns (address[] memory list) {
        list = new address[](PEOPLE + keys.length + 2);
        for (uint160 n = 0; n < PEOPLE; ++n) {
            list[n] = person(n);
        }
        for (uint256 i = 0; i < keys.length; ++i) {
            list[PEOPLE + i] = vm.addr(keys[i]);
        }
        list[PEOPLE + keys.length] = CLIENT;
        list[PEOPLE + keys.length + 1] = jobs.BURNED();
    }

    /// @dev Checks that the contracts hold what they owe, and that groups, matches and claims agree.
    function check() external view {
        address[] memory list = accounts();
        (uint256 owed, uint256 owedByPanel) = (0, 0);
        for (uint256 i = 0; i < list.length; ++i) {
            owed += jobs.credit(list[i]);
            owedByPanel += panel.credit(list[i]);
        }
        for (uint256 job = 1; job <= jobs.jobCount(); ++job) {
            owed += _checkJob(job);
        }
        for (uint256 i = 0; i < watched.length; ++i) {
            owedByPanel += panel.getHearing(hearingOf(watched[i])).bond;
        }
        uint256 owedByRequests;
        for (uint256 i = 0; i < list.length; ++i) {
            owedByRequests += dataAvailability.credit(list[i]);
        }
        for (uint256 i = 0; i < asked.length; ++i) {
            DataRequest memory d = dataAvailability.requestOf(asked[i].subject, asked[i].place);
            owedByRequests += dataAvailability.depositAt(
                asked[i].place.piece, d.rank, uint256(d.price) * 1_000
            );
        }
        eq(
            address(dataAvailability).balance,
            owedByRequests,
            "dataAvailability: balance = credits + deposits of open requests"
        );
        eq(address(jobs).balance, owed, "jobs: balance = credits + stakes at risk + rewards in escrow");
        eq(
            address(panel).balance,
            owedByPanel,
            "panel: balance = credits + bonds of hearings that are not over"
        );
        for (uint256 i = 0; i < HONEST_VERIFIERS; ++i) {
            eq(registry.getVerifier(vm.addr(keys[i])).bond, BOND, "an honest verifier keeps its bond");
        }
    }

    /// @dev Returns the ether that a job has in escrow.
    function _checkJob(uint256 id) private view returns (uint256 escrow) {
        (, Job memory job, Trainer[] memory trainers, StakedClaim[] memory claims, Group[] memory groups) =
            jobs.viewOf(id);
        _checkGroups(job, claims, groups);
        for (uint256 i = 0; i < claims.length; ++i) {
            if (!claims[i].lost && !claims[i].collected) escrow += claims[i].stake;
            yes(!claims[i].collected || job.ended != JobPhase.None, "nothing is collected before the end");
            yes(!claims[i].collected || !claims[i].lost, "nor what is lost");
        }
        if (job.ended == JobPhase.Accepted) return escrow + _uncollected(job.reward, claims, groups);
        if (job.ended != JobPhase.None) return escrow;
        escrow += job.reward;
        uint256 slots;
        for (uint256 i = 0; i < trainers.length; ++i) {
            if (!trainers[i].revealed) slots += trainers[i].stake;
        }
        eq(job.unrevealed, slots, "stakes of slots without a claim");
        return escrow + slots;
    }

    /// @dev Returns the uncollected part of an accepted job's reward. Slots that stand share it, the first gets the
    /// remainder; without one the first claim that stands gets everything.
    function _uncollected(uint256 reward, StakedClaim[] memory claims, Group[] memory groups)
        private
        pure
        returns (uint256 sum)
    {
        (uint256 slots, uint256 share) = (0, 0);
        for (uint256 i = 0; i < claims.length; ++i) {
            if (!claims[i].lost && claims[i].slot) ++slots;
        }
        bool first = true;
        for (uint256 i = 0; i < claims.length; ++i) {
            if (claims[i].lost || groups[claims[i].group].refutes != 0) continue;
            share = slots == 0 ? 0 : claims[i].slot ? reward / slots : 0;
            if (first) share = slots == 0 ? reward : share + reward % slots;
            first = false;
            if (!claims[i].collected) sum += share;
        }
    }

    function _checkGroups(Job memory job, StakedClaim[] memory claims, Group[] memory groups) private pure {
        (uint256 playing, uint256 living) = (0, 0);
        (uint256 members, uint256 slots, uint256 refutations) = (0, 0, 0);
        for (uint256 g = 0; g < groups.length; ++g) {
            _checkGroup(groups[g], claims);
            bool alive = groups[g].spokesman < groups[g].members.length;
            if (groups[g].matchId != 0) ++playing;
            bool idle = groups[g].refutes != 0 && groups[g].matchId == 0;
            if (groups[g].refutes != 0) ++refutations;
            yes(!idle || job.waiting != g + 1, "a refutation never waits");
            yes(
                !(idle && alive) || job.waiting != groups[g].refutes,
                "a root that waits has met its refutations"
            );
            if (alive && !idle) ++living;
            yes(alive || groups[g].matchId == 0, "a dead group plays no match");
            yes(alive || job.waiting != g + 1, "nor does it wait");
            yes(groups[g].matchId == 0 || job.waiting != g + 1, "who plays does not wait");
            yes(groups[g].until <= job.reclaimEnd, "the job waits for every dead root");
            (members, slots) = (members + groups[g].members.length, slots + groups[g].slots);
        }
        eq(playing, 2 * uint256(job.openMatches), "two groups a match");
        eq(members, claims.length, "each claim is in a group");
        eq(slots, job.reveals, "each slot that was revealed");
        eq(claims.length, uint256(job.reveals) + job.founded + job.followers + refutations, "how claims came");
        if (job.finder != address(0)) eq(job.waiting, 0, "where logs are withheld nobody waits");
        else eq(living - playing, job.waiting == 0 ? 0 : 1, "every living group plays, but one that waits");
    }

    function _checkGroup(Group memory group, StakedClaim[] memory claims) private pure {
        uint256 atRisk;
        for (uint256 k = 0; k < group.members.length; ++k) {
            StakedClaim memory claim = claims[group.members[k]];
            yes(claim.lost == (k < group.spokesman), "who has lost is before the spokesman");
            yes(claim.slot == (k < group.slots), "slots come first");
            if (!claim.lost) atRisk += claim.stake;
        }
        eq(group.atRisk, atRisk, "what a group risks is what its living members have staked");
        bool revealed = group.slots > 0 && group.deaths == 0;
        yes(!revealed || group.until == 0, "what trainers reveal has no instant before it dies");
        bool alive = group.spokesman < group.members.length;
        yes(alive || group.deaths > 0, "each death counts");
    }
}
