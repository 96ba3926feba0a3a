// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Counting} from "../support/Counting.sol";
import {Watching} from "./Watching.sol";
import {JobPhase} from "contracts/interfaces/IJobs.sol";
import {Pool, Watcher, WatcherState} from "contracts/interfaces/IWatch.sol";

/// @notice The payments of a bounty.
contract WatchTest is Watching, Counting {
    // ------------------------------------------------------------------ shares

    function test_whoeverIsRightGetsItsStakeAndItsShareOfThePool() public {
        fund();
        shown(1);
        jobs.sayAccepted(RIGHT);
        collect(person(1));
        credited(person(1), STAKE + POOL / SHARES, "the watcher");
        credited(FUNDER, POOL - POOL / SHARES, "the rest is the funder's");
        vm.prank(person(1));
        watch.withdraw();
        vm.prank(FUNDER);
        watch.withdraw();
        eq(address(watch).balance, 0, "nothing stays");
    }

    function test_asManyAsThePoolIsForShareAllOfIt() public {
        fund();
        shown(SHARES);
        jobs.sayAccepted(RIGHT);
        for (uint160 n = 1; n <= SHARES; ++n) {
            collect(person(n));
            credited(person(n), STAKE + POOL / SHARES, "a watcher");
        }
        credited(FUNDER, 0, "nothing is left");
    }

    /// @dev Twice as many watchers share half of the pool.
    function test_moreThanThePoolIsForShareLessOfIt() public {
        fund();
        shown(2 * SHARES);
        jobs.sayAccepted(RIGHT);
        for (uint160 n = 1; n <= 2 * SHARES; ++n) {
            collect(person(n));
            credited(person(n), STAKE + POOL / SHARES / 4, "a watcher");
        }
        credited(FUNDER, POOL / 2, "the other half");
    }

    /// @dev Person 1 is on its own; all others are one party that need not compute anything, such as the trainer.
    function test_moreAccountsThanThePoolIsForEarnLess() public {
        uint256 filled = _othersEarn(SHARES - 1);
        for (uint160 others = SHARES; others < 20; ++others) {
            uint256 crowded = _othersEarn(others);
            yes(crowded < filled, "a crowd earns less than who fills the places");
            filled = crowded;
        }
    }

    function _othersEarn(uint160 others) private returns (uint256 earned) {
        anew();
        fund();
        shown(others + 1);
        jobs.sayAccepted(RIGHT);
        for (uint160 n = 2; n <= others + 1; ++n) {
            collect(person(n));
            earned += watch.credit(person(n)) - STAKE;
        }
    }

    // ------------------------------------------------------------------ wrong watchers

    function test_whoeverHasFoundSomethingElseLosesItsStake() public {
        fund();
        commit(person(2), WRONG);
        shown(1);
        show(person(2), WRONG);
        jobs.sayAccepted(RIGHT);
        collect(person(2));
        credited(person(2), 0, "who was wrong");
        eq(burned(), STAKE, "burned");
        collect(person(1));
        credited(person(1), STAKE + POOL / SHARES, "who was right gets no more and no less");
    }

    function test_whoeverShowsNothingLosesItsStake() public {
        fund();
        commit(person(2), RIGHT);
        shown(1);
        jobs.sayAccepted(RIGHT);
        collect(person(2));
        eq(burned(), STAKE, "burned");
        eq(watch.poolOf(bounty()).share, POOL / SHARES, "it was not counted");
    }

    function test_anAcceptedRootOfZeroIsNotThatOfWhoeverHasShownNothing() public {
        fund();
        commit(person(1), RIGHT);
        jobs.sayAccepted(0);
        collect(person(1));
        credited(person(1), 0, "nothing");
        credited(FUNDER, POOL, "the funder");
    }

    function test_whereNothingIsAcceptedAllStakesGoBack() public {
        for (uint256 k = 0; k < 2; ++k) {
            anew();
            fund();
            commit(person(2), WRONG);
            shown(1);
            jobs.say(k == 0 ? JobPhase.Unclaimed : JobPhase.Void);
            collect(person(1));
            collect(person(2));
            credited(person(1), STAKE, "who has shown its root");
            credited(person(2), STAKE, "who has shown nothing");
            credited(FUNDER, POOL, "the funder");
            eq(burned(), 0, "nothing is burned");
        }
    }

    // ------------------------------------------------------------------ bounties

    function test_aBountyOfNobodyElseKeepsTheClientFromItsOwn() public {
        fund(person(9), 1, 255);
        fund();
        shown(1);
        jobs.sayAccepted(RIGHT);
        collect(person(1));
        credited(person(1), STAKE + POOL / SHARES, "of the client's");
        watch.distribute(bountyOf(person(9)));
        credited(person(9), 1, "its own");
    }

    function test_anybodyDistributesABountyThatNobodyWatched() public {
        fund();
        jobs.sayAccepted(RIGHT);
        vm.prank(person(5));
        watch.distribute(bounty());
        credited(FUNDER, POOL, "all of it");
    }

    function test_whatIsMoreThanTheStakeIsCredited() public {
        fund();
        bytes32 commitment = watch.commitmentOf(JOB, person(1), RIGHT, 0);
        vm.deal(person(1), 3 * STAKE);
        vm.prank(person(1));
        watch.watch{value: 3 * STAKE}(bounty(), commitment);
        credited(person(1), 2 * STAKE, "the rest");
        eq(watch.watcherOf(bounty(), person(1)).stake, STAKE, "at risk");
    }

    function test_whatIsKeptIsShown() public {
        fund();
        Pool memory pool = watch.poolOf(bounty());
        eq(pool.amount, POOL, "amount");
        eq(pool.shares, SHARES, "shares");
        shown(2);
        pool = watch.poolOf(bounty());
        eq(pool.watchers, 2, "watchers");
        yes(pool.ended == JobPhase.None, "not distributed");
        eq(watch.shownOf(bounty(), RIGHT), 2, "shown");
        Watcher memory watcher = watch.watcherOf(bounty(), person(1));
        yes(watcher.state == WatcherState.Shown, "state");
        eq(watcher.found, RIGHT, "root");
        jobs.sayAccepted(RIGHT);
        watch.distribute(bounty());
        pool = watch.poolOf(bounty());
        yes(pool.ended == JobPhase.Accepted, "how it ended");
        eq(pool.root, RIGHT, "the accepted root");
        eq(pool.share, POOL / SHARES, "share");
    }

    // ------------------------------------------------------------------ gas

    function test_gasOfEachMove() public {
        fund();
        vm.snapshotGasLastCall("watch", "fund");
        commit(person(1), RIGHT);
        vm.snapshotGasLastCall("watch", "watch");
        jobs.say(JobPhase.Challenge);
        show(person(1), RIGHT);
        vm.snapshotGasLastCall("watch", "show");
        jobs.sayAccepted(RIGHT);
        collect(person(1));
        vm.snapshotGasLastCall("watch", "collect, the first");
    }

    function test_whatAWatcherLeaves() public {
        fund();
        record();
        commit(person(1), RIGHT);
        counted("counts", "watch");
        jobs.say(JobPhase.Challenge);
        record();
        show(person(1), RIGHT);
        counted("counts", "show");
        jobs.sayAccepted(RIGHT);
        record();
        collect(person(1));
        counted("counts", "collect of a watcher");
        vm.deal(person(1), 1 ether);
        vm.prank(person(1));
        record();
        watch.withdraw();
        counted("counts", "withdraw of a watcher");
    }

    /// @dev A move costs the same with many other watchers as with none.
    function test_noMoveCostsMoreBecauseThereAreMany() public {
        fund();
        commit(person(1), RIGHT);
        commit(person(2), RIGHT);
        uint256 few = vm.lastCallGas().gasTotalUsed;
        for (uint160 n = 3; n < 100; ++n) {
            commit(person(n), RIGHT);
        }
        yes(vm.lastCallGas().gasTotalUsed <= few, "to watch");
    }
}
