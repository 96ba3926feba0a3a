// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Watching} from "./Watching.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";
import {IWatch} from "contracts/interfaces/IWatch.sol";

/// @notice Moves that a bounty refuses.
contract WatchRefusedTest is Watching {
    function _fundRefused(uint256 amount, uint8 shares, bytes memory refusal) private {
        vm.deal(FUNDER, amount);
        vm.prank(FUNDER);
        vm.expectRevert(refusal);
        watch.fund{value: amount}(IJobs(address(jobs)), JOB, shares);
    }

    function _watchRefused(address who, uint256 value, bytes32 commitment, bytes4 selector) private {
        vm.deal(who, value);
        vm.prank(who);
        refuses(selector);
        watch.watch{value: value}(bounty(), commitment);
    }

    function _showRefused(address who, bytes32 root, bytes4 selector) private {
        vm.prank(who);
        refuses(selector);
        watch.show(bounty(), root, saltOf(who));
    }

    function _phase(JobPhase have, JobPhase want) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IJobs.WrongPhase.selector, JOB, have, want);
    }

    function test_fundings() public {
        _fundRefused(0, SHARES, abi.encodeWithSelector(IWatch.NothingFunded.selector));
        _fundRefused(1, 0, abi.encodeWithSelector(IWatch.BadShares.selector, 0));
        jobs.say(JobPhase.Reveal);
        _fundRefused(1, 1, _phase(JobPhase.Reveal, JobPhase.Training));
        jobs.say(JobPhase.None);
        _fundRefused(1, 1, _phase(JobPhase.None, JobPhase.Training));
        jobs.say(JobPhase.Training);
        fund();
        _fundRefused(1, 1, abi.encodeWithSelector(IWatch.AlreadyFunded.selector, JOB, FUNDER));
        vm.deal(FUNDER, 2 ** 97);
        vm.prank(FUNDER);
        vm.expectRevert();
        watch.fund{value: 2 ** 96}(IJobs(address(jobs)), JOB + 1, 1);
    }

    /// @dev Only the trainer can know the root before it reveals its logs.
    function test_modesWithRoundingLogs() public {
        for (uint8 bits = 0; bits <= 6; ++bits) {
            for (uint8 form = 0; form <= 3; ++form) {
                uint8 mode = 0x80 | form << 3 | bits;
                jobs.sayMode(mode);
                _fundRefused(1, 1, abi.encodeWithSelector(IWatch.UnwatchableMode.selector, mode));
            }
        }
    }

    function test_watchers() public {
        _watchRefused(person(1), STAKE, RIGHT, IWatch.NothingFunded.selector);
        fund();
        _watchRefused(person(1), STAKE, 0, IJobs.EmptyCommitment.selector);
        _watchRefused(person(1), STAKE - 1, RIGHT, IJobs.WrongStake.selector);
        commit(person(1), RIGHT);
        _watchRefused(person(1), STAKE, RIGHT, IWatch.AlreadyWatching.selector);
        // The last second of Training is in time, the first second of Reveal is not.
        jobs.say(JobPhase.Reveal);
        _watchRefused(person(2), STAKE, RIGHT, IJobs.WrongPhase.selector);
        jobs.say(JobPhase.Challenge);
        _watchRefused(person(2), STAKE, RIGHT, IJobs.WrongPhase.selector);
    }

    function test_showings() public {
        _showRefused(person(1), RIGHT, IWatch.NothingFunded.selector);
        fund();
        commit(person(1), RIGHT);
        _showRefused(person(1), RIGHT, IJobs.WrongPhase.selector);
        jobs.say(JobPhase.Reveal);
        _showRefused(person(1), RIGHT, IJobs.WrongPhase.selector);
        jobs.say(JobPhase.Challenge);
        _showRefused(person(1), WRONG, IJobs.WrongCommitment.selector);
        _showRefused(person(2), RIGHT, IWatch.NothingToShow.selector);
        jobs.say(JobPhase.Closing);
        show(person(1), RIGHT);
        _showRefused(person(1), RIGHT, IWatch.NothingToShow.selector);
        jobs.sayAccepted(RIGHT);
        commitLate();
    }

    /// @dev A commitment is too late once the job is over.
    function commitLate() private {
        anew();
        fund();
        commit(person(1), RIGHT);
        jobs.sayAccepted(RIGHT);
        _showRefused(person(1), RIGHT, IJobs.WrongPhase.selector);
    }

    /// @dev A copied commitment is of no use: it is bound to its sender.
    function test_copies() public {
        fund();
        commit(person(1), RIGHT);
        bytes32 seen = watch.watcherOf(bounty(), person(1)).found;
        vm.deal(person(2), STAKE);
        vm.prank(person(2));
        watch.watch{value: STAKE}(bounty(), seen);
        jobs.say(JobPhase.Challenge);
        show(person(1), RIGHT);
        bytes32 salt = saltOf(person(1));
        vm.prank(person(2));
        refuses(IJobs.WrongCommitment.selector);
        watch.show(bounty(), RIGHT, salt);
        // A commitment for another job or another contract is of no use either.
        bytes32 here = watch.commitmentOf(JOB, person(1), RIGHT, salt);
        yes(here != watch.commitmentOf(JOB + 1, person(1), RIGHT, salt), "another job");
        anew();
        yes(here != watch.commitmentOf(JOB, person(1), RIGHT, salt), "another contract");
    }

    function test_settlingsAndCollections() public {
        refuses(IWatch.NothingFunded.selector);
        watch.distribute(bounty());
        fund();
        commit(person(2), RIGHT);
        shown(1);
        refuses(IJobs.JobRuns.selector);
        watch.distribute(bounty());
        refuses(IJobs.JobRuns.selector);
        collect(person(1));
        refuses(IWatch.NothingToCollect.selector);
        collect(person(3));
        jobs.sayAccepted(RIGHT);
        watch.distribute(bounty());
        refuses(IWatch.AlreadyDistributed.selector);
        watch.distribute(bounty());
        collect(person(1));
        refuses(IWatch.NothingToCollect.selector);
        collect(person(1));
        credited(person(1), STAKE + POOL / SHARES, "once");
    }

    /// @dev The Jobs contract pretends that the job begins anew.
    function test_aBountyThatIsDistributedIsOver() public {
        fund();
        commit(person(2), RIGHT);
        shown(1);
        jobs.sayAccepted(RIGHT);
        watch.distribute(bounty());
        jobs.say(JobPhase.Training);
        _watchRefused(person(3), STAKE, RIGHT, IWatch.AlreadyDistributed.selector);
        _fundRefused(1, 1, abi.encodeWithSelector(IWatch.AlreadyFunded.selector, JOB, FUNDER));
        jobs.say(JobPhase.Challenge);
        _showRefused(person(2), RIGHT, IWatch.AlreadyDistributed.selector);
        jobs.sayAccepted(WRONG);
        collect(person(1));
        credited(person(1), STAKE + POOL / SHARES, "as it was distributed");
    }
}
