// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "./Market.sol";
import {Views} from "./Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Group, Refutation} from "contracts/interfaces/IJobs.sol";

/// @title Refuters
/// @notice People who refute the claims of Market.
/// @dev NOTE: these runs have one interval, so a refutation's root is the output that it states.
abstract contract Refuters is Market {
    using Views for Jobs;

    function told(uint256 claimed_, uint256 computed) internal pure returns (Refutation memory r) {
        (r.root, r.claimed, r.computed) = (root(claimed_), root(claimed_), root(computed));
        r.uri = "http://refuter";
    }

    function commitRefutation(uint256 job, address who, uint256 claimed_, uint256 computed) internal {
        // NOTE: remembers the output of the root.
        commitTo(job, who, computed);
        bytes32 c = jobs.commitmentOf(job, who, root(computed), root(computed), root(claimed_), "salt");
        vm.prank(who);
        jobs.commitChallenge(job, c);
        pass(1);
    }

    function refute(uint256 job, uint160 n, uint256 claimed_, uint256 computed)
        internal
        returns (uint256 price)
    {
        address who = person(n);
        commitRefutation(job, who, claimed_, computed);
        Refutation memory r = told(claimed_, computed);
        price = jobs.refutationPriceOf(job, r.root);
        vm.deal(who, price);
        vm.prank(who);
        jobs.refute{value: price}(job, r, "salt");
    }

    /// @dev Refutes 8 by 7 at this instant, by a person that has committed to it.
    function refuteAt(uint256 job, uint160 n, uint256 instant) internal {
        vm.warp(instant);
        Refutation memory r = told(8, 7);
        uint256 price = jobs.refutationPriceOf(job, r.root);
        vm.deal(person(n), price);
        vm.prank(person(n));
        jobs.refute{value: price}(job, r, "salt");
    }

    /// @dev The refutation that plays a claim wins, while the claimant is silent.
    function refutationWins(uint256 job, uint256 claimed_, uint256 computed) internal {
        uint256 id = matchOf(job, claimed_);
        referee.openRecord(id, here(id), 1, record(computed));
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
    }

    function refuteRefused(uint256 job, uint160 n, Refutation memory r, uint256 value, bytes4 selector)
        internal
    {
        vm.deal(person(n), value);
        vm.prank(person(n));
        refuses(selector);
        jobs.refute{value: value}(job, r, "salt");
    }

    /// @dev Returns the group of the job's last claim.
    function lastGroup(uint256 job) internal view returns (Group memory) {
        Group[] memory groups = jobs.groupsOf(job);
        return groups[groups.length - 1];
    }
}
