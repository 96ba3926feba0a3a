// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Stage} from "./Stage.sol";
import {Claim, Group, Job, JobPhase, Refutation, StakedClaim, Terms} from "contracts/interfaces/IJobs.sol";

/// @title People
/// @notice The people, three of them honest, and what anybody may do about a job: post, join, commit, reveal, claim.
///
/// Verifiers 0 and 1 are honest, 2 and 3 are not. A job names none; or 0, 1 and 2; or 0, 2 and 3, so that its verdicts
/// may be lies.
abstract contract People is Stage {
    uint160 internal constant HONEST = 3;
    uint160 internal constant PEOPLE = 13;
    uint256 internal constant HONEST_VERIFIERS = 2;
    address internal constant CLIENT = address(0xC11E);

    uint256[] internal keys = [uint256(0x101), 0x102, 0x103, 0x104];
    /// @dev Jobs that have not ended.
    uint256[] internal live;
    /// @dev Jobs that the honest watch.
    mapping(uint256 job => bool) internal watches;

    /// @dev Number of jobs that ended without a result because nobody showed their logs.
    uint256 public withheld;
    /// @dev Number of jobs that had a second challenge period.
    uint256 public reopened;
    /// @dev Numbers of claims: behind a living root; of dead roots; after the challenge phase.
    uint256 public queued;
    uint256 public again;
    uint256 public closing;
    /// @dev Number of refutations after the challenge phase.
    uint256 public refutedLate;

    /// @dev The first failure; empty if there was none.
    string public broken;

    constructor() {
        vm.warp(1_700_000_000);
        vm.deal(CLIENT, 1e24);
        for (uint160 n = 0; n < PEOPLE; ++n) {
            vm.deal(person(n), 1e24);
        }
        for (uint256 i = 0; i < keys.length; ++i) {
            vm.deal(vm.addr(keys[i]), 1e24);
            enlist(i);
        }
    }

    function person(uint160 n) internal pure returns (address) {
        return address(0xF00000 + n);
    }

    function isHonest(address who) internal pure returns (bool) {
        return uint160(who) - 0xF00000 < HONEST;
    }

    function enlist(uint256 i) internal {
        vm.prank(vm.addr(keys[i]));
        registry.register{value: BOND}(address(panel), "http://verifier");
    }

    function _break(string memory what) internal {
        broken = what;
    }

    // ------------------------------------------------------------------ jobs

    /// @param honest Number of the job's three verifiers that are honest; if zero, the job names none.
    function terms(uint256 honest, uint8 slots, bool withLogs) internal view returns (Terms memory t) {
        (t.program, t.referee, t.slots, t.stake) = (program(withLogs), address(referee), slots, STAKE);
        // NOTE: at the high bound a stake must be as much as a bond.
        (t.lowFee, t.highFee) = (1 gwei, 20 gwei);
        (t.trainPeriod, t.revealPeriod, t.challengePeriod) = (PERIOD, PERIOD, PERIOD);
        (t.rules.verdictPeriod, t.rules.appealPeriod, t.rules.clock) = (PERIOD, PERIOD, CLOCK);
        if (honest == 0) return t;
        t.rules.threshold = 2;
        t.verifiers = new address[](3);
        (t.verifiers[0], t.verifiers[1]) = (vm.addr(keys[0]), vm.addr(keys[honest == 2 ? 1 : 3]));
        t.verifiers[2] = vm.addr(keys[2]);
    }

    function join(uint256 job, address who, uint16 run) internal {
        runOf[job][who] = run;
        uint256 price = jobs.stakeOf(job);
        vm.prank(who);
        jobs.join{value: price}(job);
    }

    /// @dev Most commit; of those who do not, half give their slots back.
    function commitOrNot(uint256 job, address who, uint256 seed) internal {
        if (seed & 7 != 0) return commit(job, who);
        if (seed & 16 == 0) return;
        vm.prank(who);
        jobs.resign(job);
    }

    function commit(uint256 job, address who) internal {
        bytes32 root = rootOf(runOf[job][who]);
        bytes32 last = checkpoint(runOf[job][who], 4);
        bytes32 commitment = jobs.commitmentOf(job, who, root, last, _logsBy(job, who), "salt");
        vm.prank(who);
        jobs.commit(job, commitment);
    }

    function reveal(uint256 job, address who) internal {
        (Claim memory c, bytes32 logs) = (_claim(runOf[job][who]), _logsBy(job, who));
        uint256 price = jobs.stakeOf(job);
        vm.prank(who);
        jobs.reveal{value: price}(job, c, logs, "salt");
        plays(job, who, runOf[job][who]);
    }

    /// @dev Returns the logs that a trainer reveals: in half of its jobs a hostile one reveals nonsense.
    function _logsBy(uint256 job, address who) private view returns (bytes32) {
        if (!rounded[job]) return 0;
        return isHonest(who) || job & 1 == 0 ? runLogs() : NONSENSE;
    }

    /// @param more Wei sent besides the price.
    function challenge(uint256 job, address who, uint16 run, uint256 more) internal {
        commitChallenge(job, who, run);
        pass(1);
        stake(job, who, run, more);
    }

    function commitmentTo(uint256 job, address who, uint16 run) internal view returns (bytes32) {
        return jobs.commitmentOf(job, who, rootOf(run), checkpoint(run, 4), 0, "salt");
    }

    function commitChallenge(uint256 job, address who, uint16 run) internal {
        bytes32 commitment = commitmentTo(job, who, run);
        vm.prank(who);
        jobs.commitChallenge(job, commitment);
    }

    /// @dev Stakes the claim that the person has committed to.
    function stake(uint256 job, address who, uint16 run, uint256 more) internal {
        Claim memory c = _claim(run);
        uint256 price = jobs.priceOf(job, c.root);
        (, bool alive) = jobs.standing(job, c.root);
        uint256 groups = jobs.groupsFrom(job, 0).length;
        bool closed = jobs.phaseOf(job) == JobPhase.Closing;
        uint256 credit = jobs.credit(who);
        vm.prank(who);
        jobs.challenge{value: price + more}(job, c, "salt");
        plays(job, who, run);
        if (jobs.credit(who) != credit + more) _break("what is more than the price is not credited");
        if (alive) ++queued;
        else if (jobs.groupsFrom(job, 0).length == groups) ++again;
        if (closed) ++closing;
    }

    /// @dev Returns the run that is `run` in the steps of an interval, and `victim` in all others.
    function graft(uint16 victim, uint16 run, uint256 interval) internal pure returns (uint16) {
        uint16 mask = uint16(0xFF << (8 * interval));
        return (victim & ~mask) | (run & mask);
    }

    /// @dev Refutes one interval of a victim's run, with that of another run.
    function refute(uint256 job, address who, uint16 victim, uint16 run, uint256 interval) internal {
        uint16 grafted = graft(victim, run, interval);
        Refutation memory r;
        (r.root, r.interval, r.path) = (rootOf(victim), uint64(interval), new bytes32[](1));
        uint64 end = 2 * uint64(interval) + 2;
        (r.claimed, r.computed) = (checkpoint(victim, end), checkpoint(grafted, end));
        r.path[0] = checkpoint(victim, 6 - end);
        bytes32 commitment = jobs.commitmentOf(job, who, rootOf(grafted), r.computed, r.root, "salt");
        vm.prank(who);
        jobs.commitChallenge(job, commitment);
        pass(1);
        uint256 price = jobs.refutationPriceOf(job, r.root);
        bool closed = jobs.phaseOf(job) == JobPhase.Closing;
        vm.prank(who);
        jobs.refute{value: price}(job, r, "salt");
        plays(job, who, grafted);
        if (closed) ++refutedLate;
    }

    function _claim(uint16 run) private view returns (Claim memory c) {
        (c.root, c.last, c.lastPath) = (rootOf(run), checkpoint(run, 4), new bytes32[](1));
        c.lastPath[0] = checkpoint(run, 2);
    }

    /// @dev Checks a job that has ended, and forgets it.
    function over(uint256 i) internal {
        uint256 id = live[i];
        live[i] = live[live.length - 1];
        live.pop();
        (JobPhase phase, Job memory job,, StakedClaim[] memory claims, Group[] memory groups) =
            jobs.viewOf(id);
        if (job.reopened != 0) ++reopened;
        if (job.finder != address(0)) ++withheld;
        if (job.acceptedRoot == rootOf(TRUTH)) return;
        bool known = job.reveals > 0 && (!rounded[id] || job.logs == runLogs());
        if (watches[id] && known && phase != JobPhase.Void) {
            _break("where the honest watch the truth is accepted");
        }
        if (phase != JobPhase.Accepted) return;
        for (uint256 k = 0; k < claims.length; ++k) {
            if (!isHonest(claims[k].owner)) continue;
            uint256 refutes = groups[claims[k].group].refutes;
            // NOTE: who refutes one claimed root knows nothing of another.
            if (refutes == 0) _break("an honest party took part, and a lie was accepted");
            else if (groups[refutes - 1].root == job.acceptedRoot) _break("a refuted root was accepted");
        }
    }
}
