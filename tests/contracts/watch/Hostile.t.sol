// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Watching} from "./Watching.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";
import {IWatch, Pool, Watcher, WatcherState} from "contracts/interfaces/IWatch.sol";

/// @notice Whatever a Jobs contract answers, and when: ether in = ether out, and no other bounty pays for it.
contract WatchHostileTest is Watching {
    uint160 private constant PEOPLE = 6;
    uint256 private constant ACTS = 60;

    uint256 private _seed;
    uint256 private _paid;

    function _roll(uint256 sides) private returns (uint256) {
        _seed = uint256(keccak256(abi.encode(_seed)));
        return _seed % sides;
    }

    function _root() private returns (bytes32) {
        return [RIGHT, RIGHT, RIGHT, RIGHT, WRONG, bytes32(0)][_roll(6)];
    }

    /// forge-config: default.fuzz.runs = 48
    function test_fuzz_aBountyPaysWhatIsInIt(uint256 seed) public {
        _play(seed);
    }

    /// @dev Checks that shares are paid in the play: without them it would test nothing.
    function test_thePlayComesToShares() public {
        for (uint256 seed = 0; seed < 60; ++seed) {
            anew();
            _play(seed);
        }
        yes(_paid >= 3, "shares are paid");
    }

    function _play(uint256 seed) private {
        _seed = seed;
        fund(person(0), 4 * POOL, SHARES);
        for (uint256 k = 0; k < ACTS; ++k) {
            _say();
            _act(person(uint160(_roll(PEOPLE))), person(uint160(_roll(5) / 4)));
            _check();
        }
        for (uint160 n = 0; n < PEOPLE; ++n) {
            vm.prank(person(n));
            try watch.withdraw() {} catch {}
        }
        _check();
    }

    /// @dev Often an answer that an honest contract might give, though seldom in this order.
    function _say() private {
        uint256 roll = _roll(24);
        if (roll == 0) jobs.say(JobPhase(_roll(8)));
        else if (roll == 1) jobs.sayAccepted(_root());
        else if (roll == 2) jobs.sayStake(_roll(3) * STAKE);
        else if (roll < 5) jobs.say(JobPhase.Training);
        else if (roll < 7) jobs.say(JobPhase.Challenge);
    }

    function _act(address who, address funder) private {
        uint256 roll = _roll(16);
        vm.deal(who, 10 ether);
        bytes32 root = _roll(8) == 0 ? _root() : RIGHT;
        bytes32 commitment = watch.commitmentOf(JOB, who, root, 0);
        address account = person(uint160(_roll(PEOPLE)));
        uint256 before = watch.credit(account) + 2 * STAKE;
        vm.prank(who);
        if (roll == 0) {
            try watch.fund{value: _roll(7)}(IJobs(address(jobs)), JOB, uint8(_roll(4))) {} catch {}
        } else if (roll == 1) {
            try watch.distribute(bountyOf(funder)) {} catch {}
        } else if (roll < 7) {
            try watch.watch{value: 2 * STAKE}(bountyOf(funder), commitment) {} catch {}
        } else if (roll < 12) {
            try watch.show(bountyOf(funder), root, 0) {} catch {}
        } else {
            try watch.collect(bountyOf(funder), account) {
                if (watch.credit(account) > before) ++_paid;
            } catch {}
        }
    }

    /// @dev Balance = credits + pools that are not distributed + stakes that are not collected + shares that are not.
    function _check() private view {
        uint256 owed = burned();
        for (uint160 n = 0; n < PEOPLE; ++n) {
            owed += watch.credit(person(n)) + _held(person(n));
        }
        eq(address(watch).balance, owed, "ether in = ether out");
    }

    function _held(address funder) private view returns (uint256 held) {
        Pool memory pool = watch.poolOf(bountyOf(funder));
        if (pool.ended == JobPhase.None) held = pool.amount;
        for (uint160 n = 0; n < PEOPLE; ++n) {
            Watcher memory watcher = watch.watcherOf(bountyOf(funder), person(n));
            if (watcher.state == WatcherState.None || watcher.state == WatcherState.Collected) continue;
            held += watcher.stake;
            bool right = watcher.state == WatcherState.Shown && watcher.found == pool.root;
            if (pool.ended == JobPhase.Accepted && right) held += pool.share;
        }
    }

    /// @dev The remainder of a division is the funder's, too.
    function test_fuzz_aPoolIsPaidToTheLastWei(uint96 amount, uint8 shares, uint8 right) public {
        if (amount == 0) amount = 1;
        if (shares == 0) shares = 1;
        right = uint8(bound(right, 1, 12));
        fund(FUNDER, amount, shares);
        shown(right);
        jobs.sayAccepted(RIGHT);
        uint256 paid = 0;
        for (uint160 n = 1; n <= right; ++n) {
            collect(person(n));
            paid += watch.credit(person(n)) - STAKE;
            yes(watch.credit(person(n)) - STAKE <= uint256(amount) / shares, "no more than its part");
        }
        eq(watch.credit(FUNDER) + paid, amount, "all of it");
        eq(burned(), 0, "nothing is burned");
    }
}
