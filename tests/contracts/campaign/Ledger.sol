// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Actors} from "./Actors.sol";
import {Place} from "contracts/interfaces/IDemands.sol";
import {Group, Job, JobPhase, StakedClaim, Trainer} from "contracts/interfaces/IJobs.sol";

/// @title Ledger
/// @notice What must add up at any time, whoever has done what: ether, and who waits, plays or has lost.
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

    /// @dev What everybody is owed is there; and groups, matches and claims agree.
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
        uint256 owedByDemands;
        for (uint256 i = 0; i < list.length; ++i) {
            owedByDemands += demands.credit(list[i]);
        }
        for (uint256 i = 0; i < asked.length; ++i) {
            Place memory place = asked[i].place;
            owedByDemands += demands.depositAt(place.piece, demands.demandOf(asked[i].subject, place).rank);
        }
        eq(address(demands).balance, owedByDemands, "demands: balance = credits + deposits of open demands");
        eq(address(jobs).balance, owed, "jobs: balance = credits + stakes at risk + rewards in escrow");
        eq(address(panel).balance, owedByPanel, "panel: balance = credits + bonds of open appeals");
        for (uint256 i = 0; i < HONEST_VERIFIERS; ++i) {
            eq(registry.getVerifier(vm.addr(keys[i])).bond, BOND, "an honest verifier keeps its bond");
        }
    }

    /// @dev Gives what a job has in escrow.
    function _checkJob(uint256 id) private view returns (uint256 escrow) {
        (, Job memory job, Trainer[] memory trainers, StakedClaim[] memory claims, Group[] memory groups) =
            jobs.viewOf(id);
        _checkGroups(job, claims, groups);
        if (job.ended != JobPhase.None) return 0;
        escrow = job.reward;
        for (uint256 i = 0; i < claims.length; ++i) {
            if (!claims[i].lost) escrow += job.terms.stake;
        }
        for (uint256 i = 0; i < trainers.length; ++i) {
            if (!trainers[i].revealed) escrow += job.terms.stake;
        }
    }

    function _checkGroups(Job memory job, StakedClaim[] memory claims, Group[] memory groups) private pure {
        (uint256 playing, uint256 idle) = (0, 0);
        for (uint256 g = 0; g < groups.length; ++g) {
            uint8[] memory members = groups[g].members;
            for (uint256 k = 0; k < members.length; ++k) {
                yes(
                    claims[members[k]].lost == (k < groups[g].spokesman),
                    "who has lost is before the spokesman"
                );
            }
            bool alive = groups[g].spokesman < members.length;
            if (groups[g].matchId != 0) ++playing;
            else if (alive && job.waiting != g + 1) ++idle;
            yes(alive || groups[g].matchId == 0, "a dead group plays no match");
        }
        eq(playing, 2 * uint256(job.openMatches), "two groups a match");
        if (job.ended != JobPhase.Void) eq(idle, 0, "every living group waits or plays");
    }
}
