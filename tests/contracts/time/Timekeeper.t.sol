// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {ITimekeeper} from "contracts/interfaces/ITimekeeper.sol";

/// @notice The time: the chain's, less pauses, whose sum is bounded.
contract TimekeeperTest is Base {
    address private constant GUARDIAN = address(0x60A4D);
    uint64 private constant BUDGET = 1000;
    uint256 private constant BEGIN = 1_700_000_000;

    Timekeeper private time = Timekeeper(_deploy(GUARDIAN, BUDGET));

    function _deploy(address guardian, uint64 budget) private returns (address) {
        return deploy("Timekeeper.sol:Timekeeper", abi.encode(guardian, budget));
    }

    function setUp() external {
        vm.warp(BEGIN);
    }

    function _pause() private {
        vm.prank(GUARDIAN);
        time.pause();
    }

    function _resume() private {
        vm.prank(GUARDIAN);
        time.resume();
    }

    function test_withoutAPauseItIsTheChains() public {
        eq(time.time(), BEGIN, "at the beginning");
        pass(77);
        eq(time.time(), BEGIN + 77, "later");
        eq(time.pausedUntil(), 0, "no pause");
        eq(time.budgetLeft(), BUDGET, "all of the budget");
    }

    function test_inAPauseItStandsAndGoesOnAfterIt() public {
        pass(10);
        _pause();
        eq(time.pausedUntil(), BEGIN + 10 + BUDGET, "until");
        pass(300);
        eq(time.time(), BEGIN + 10, "stands");
        eq(time.budgetLeft(), BUDGET - 300, "is being spent");
        _resume();
        eq(time.time(), BEGIN + 10, "goes on from there");
        eq(time.pausedUntil(), 0, "runs");
        pass(5);
        eq(time.time(), BEGIN + 15, "as fast as before");
        _pause();
        eq(time.pausedUntil(), BEGIN + 315 + BUDGET - 300, "what is left");
        pass(200);
        _resume();
        eq(time.time(), BEGIN + 15, "both pauses count");
        eq(time.budgetLeft(), BUDGET - 500, "both are spent");
    }

    function test_noPauseIsForGood() public {
        _pause();
        pass(BUDGET - 1);
        eq(time.time(), BEGIN, "stands");
        pass(1);
        eq(time.pausedUntil(), 0, "runs without anybody's leave");
        pass(9);
        eq(time.time(), BEGIN + 9, "goes on");
        eq(time.budgetLeft(), 0, "spent");
        vm.expectRevert(abi.encodeWithSelector(ITimekeeper.BudgetSpent.selector, BUDGET));
        _pause();
        refuses(ITimekeeper.NotPaused.selector);
        _resume();
        eq(time.time(), BEGIN + 9, "nothing has changed");
    }

    function test_aPauseOfNoTimeCostsNothing() public {
        _pause();
        _resume();
        eq(time.budgetLeft(), BUDGET, "budget");
        eq(time.time(), BEGIN, "time");
    }

    function test_theGuardianAlone() public {
        refuses(ITimekeeper.NotGuardian.selector);
        time.pause();
        _pause();
        vm.expectRevert(abi.encodeWithSelector(ITimekeeper.NotGuardian.selector, address(this), GUARDIAN));
        time.resume();
        refuses(ITimekeeper.AlreadyPaused.selector);
        _pause();
        _resume();
        refuses(ITimekeeper.NotPaused.selector);
        _resume();
    }

    function test_withoutAGuardianOrABudgetThereIsNoPause() public {
        time = Timekeeper(_deploy(address(0), BUDGET));
        refuses(ITimekeeper.NotGuardian.selector);
        _pause();
        time = Timekeeper(_deploy(GUARDIAN, 0));
        refuses(ITimekeeper.BudgetSpent.selector);
        _pause();
    }

    function test_theBudgetIsLimited() public {
        refuses(ITimekeeper.BudgetTooLarge.selector);
        this.deployed(365 days + 1);
        this.deployed(365 days);
    }

    function deployed(uint64 budget) external {
        _deploy(GUARDIAN, budget);
    }

    /// @dev Whatever the guardian does, and when, the time never goes back, is never faster than the chain's or behind
    /// it by more than the budget, and is behind it by exactly the seconds of the pauses.
    function testFuzz_itNeverGoesBackNorFasterThanTheChain(uint16[24] calldata steps) public {
        uint256 lost;
        for (uint256 i = 0; i < steps.length; ++i) {
            bool paused = time.pausedUntil() != 0;
            if (steps[i] & 1 == 0) {
                if (paused) _resume();
                else if (time.budgetLeft() > 0) _pause();
            }
            (uint256 before, uint256 chain) = (time.time(), block.timestamp);
            eq(before, chain - lost, "behind by the pauses so far");
            uint256 duration = steps[i] % 512;
            uint256 until = time.pausedUntil();
            uint256 stands = until == 0 ? 0 : until - chain;
            // NOTE: read before time passes, because the compiler takes an instant to be constant in a transaction.
            lost += duration < stands ? duration : stands;
            pass(duration);
            yes(time.time() >= before, "not back");
            yes(time.time() - before <= duration, "not faster");
            yes(lost <= BUDGET, "within the budget");
            eq(time.budgetLeft(), BUDGET - lost, "what is left");
        }
    }
}
