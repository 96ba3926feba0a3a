// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Group, Job, JobPhase, StakedClaim, Terms, Trainer} from "contracts/interfaces/IJobs.sol";
import {Match} from "contracts/interfaces/IReferee.sol";

/// @notice Plays jobs at random: everybody does anything at any time, whether it is allowed or not.
contract Handler is Market {
    using Views for Jobs;

    uint160 private constant PEOPLE = 12;
    uint256 private constant OUTPUTS = 3;

    function market() external view returns (Jobs) {
        return jobs;
    }

    function accounts() external view returns (address[] memory list) {
        list = new address[](PEOPLE + 5);
        for (uint160 n = 0; n < PEOPLE; ++n) {
            list[n] = address(0xF00000 + n);
        }
        for (uint256 i = 0; i < 3; ++i) {
            list[PEOPLE + i] = verifier(i);
        }
        list[PEOPLE + 3] = CLIENT;
        list[PEOPLE + 4] = jobs.BURNED();
    }

    // ------------------------------------------------------------------ anything, at any time

    /// @dev A job in training. One trainer in four forgets to commit.
    function postJob(uint8 slots, uint96 reward, uint256 seed) external {
        if (jobs.jobCount() >= 8) return;
        Terms memory t = seed % 5 == 0 ? roundedTerms() : terms(uint8(bound(slots, 1, 4)));
        vm.prank(CLIENT);
        uint256 job = jobs.post{value: bound(reward, 0, 10 ether)}(t);
        for (uint160 n = 0; n < t.slots; ++n) {
            address who = person(uint160(seed + n) % PEOPLE);
            join(job, who);
            if ((seed >> (8 * n + 8)) % 4 != 0) commit(job, who, bound(seed >> (8 * n), 1, OUTPUTS));
        }
    }

    /// @dev One trainer in four sleeps.
    function revealAll(uint256 job, uint256 seed) external {
        job = _job(job);
        while (jobs.phaseOf(job) == JobPhase.Training) pass(PERIOD / 2);
        Trainer[] memory trainers = jobs.trainersOf(job);
        for (uint256 i = 0; i < trainers.length; ++i) {
            if ((seed >> (8 * i)) % 4 == 0 || trainers[i].revealed) continue;
            for (uint256 output = 1; output <= OUTPUTS; ++output) {
                address who = trainers[i].owner;
                bytes32 commitment =
                    jobs.commitmentOf(job, who, root(output), root(output), 0, bytes32(output));
                if (commitment == trainers[i].commitment) reveal(job, who, output);
            }
        }
    }

    function challengeJob(uint256 job, uint160 who, uint256 output) external {
        job = _job(job);
        while (jobs.phaseOf(job) < JobPhase.Challenge) pass(PERIOD / 2);
        challenge(job, person(who % PEOPLE), bound(output, 1, OUTPUTS));
    }

    /// @dev A job with up to four trainers and four challengers, played until no match is open.
    function dispute(uint256 seed) external {
        if (jobs.jobCount() >= 8) return;
        uint256[] memory outputs = new uint256[](bound(seed, 1, 4));
        for (uint256 i = 0; i < outputs.length; ++i) {
            outputs[i] = bound(seed >> (8 * i + 8), 1, OUTPUTS);
        }
        uint256 job = claimed(outputs);
        for (uint160 i = 0; i < (seed >> 64) % 5; ++i) {
            uint256 output = bound(seed >> (8 * i + 72), 1, OUTPUTS);
            if (!isClaimed(job, output)) challenge(job, person(5 + i), output);
        }
        while (jobs.jobOf(job).openMatches > 0) {
            seed = uint256(keccak256(abi.encode(seed)));
            _end(seed, job);
        }
    }

    function playMatch(uint256 seed) external {
        _end(seed, _job(seed));
    }

    /// @dev Ends some match of the job, in one of four ways.
    function _end(uint256 seed, uint256 job) private {
        (uint256 id, uint256 output) = _playing(seed, job);
        Match memory m = referee.getMatch(id);
        uint256 how = seed % 8;
        if (how < 2 || block.timestamp > referee.deadline(id)) {
            if (block.timestamp <= referee.deadline(id)) vm.warp(referee.deadline(id) + 1);
            referee.timeout(id);
        } else if (how < 4) {
            winByDefault(job, output);
        } else {
            submit(id, outputOf(m.node[0]), outputOf(m.node[1]));
            if (how < 7) return decide(id, bound(seed >> 8, 1, OUTPUTS));
            pass(PERIOD);
            proceed(id);
        }
    }

    function finalizeJob(uint256 job) external {
        job = _job(job);
        while (jobs.phaseOf(job) < JobPhase.Closing) pass(PERIOD / 2);
        jobs.finalize(job);
    }

    function withdraw(uint160 who) external {
        for (uint160 n = 0; n < PEOPLE; ++n) {
            address account = person((who % PEOPLE + n) % PEOPLE);
            if (jobs.credit(account) == 0) continue;
            vm.prank(account);
            jobs.withdraw();
            return;
        }
    }

    function burn() external {
        if (burned() > 0) jobs.burn();
    }

    // ------------------------------------------------------------------ choices

    function _job(uint256 job) private view returns (uint256) {
        return bound(job, 1, jobs.jobCount());
    }

    /// @dev A match of the job, and what one of its sides claims.
    function _playing(uint256 seed, uint256 job) private view returns (uint256 id, uint256 output) {
        Group[] memory groups = jobs.groupsOf(job);
        for (uint256 i = 0; i < groups.length; ++i) {
            uint256 g = ((seed >> 16) % groups.length + i) % groups.length;
            if (groups[g].matchId != 0) return (groups[g].matchId, outputOf(groups[g].root));
        }
        revert NotSo("somebody plays");
    }
}

/// @notice At all times: balance = credits + stakes at risk + rewards in escrow.
contract SolvencyTest is Market {
    using Views for Jobs;

    Handler private handler = new Handler();
    address[] private accounts = handler.accounts();

    function targetContracts() external view returns (address[] memory list) {
        list = new address[](1);
        list[0] = address(handler);
    }

    function invariant_etherInIsEtherOutAndBurned() public view {
        Jobs market = handler.market();
        uint256 owed;
        for (uint256 i = 0; i < accounts.length; ++i) {
            owed += market.credit(accounts[i]);
        }
        for (uint256 job = 1; job <= market.jobCount(); ++job) {
            owed += _inEscrow(market, job);
        }
        eq(address(market).balance, owed, "balance = credits + stakes at risk + rewards in escrow");
    }

    function invariant_groupsAndMatchesAgree() public view {
        Jobs market = handler.market();
        for (uint256 id = 1; id <= market.jobCount(); ++id) {
            Job memory job = market.jobOf(id);
            Group[] memory groups = market.groupsOf(id);
            StakedClaim[] memory claims = market.claimsOf(id);
            uint256 playing;
            uint256 idle;
            for (uint256 g = 0; g < groups.length; ++g) {
                for (uint256 k = 0; k < groups[g].members.length; ++k) {
                    bool lost = claims[groups[g].members[k]].lost;
                    yes(
                        lost == (k < groups[g].spokesman),
                        "exactly the members before the spokesman have lost"
                    );
                }
                bool alive = groups[g].spokesman < groups[g].members.length;
                if (groups[g].matchId != 0) ++playing;
                else if (alive && job.waiting != g + 1) ++idle;
                yes(alive || groups[g].matchId == 0, "a dead group plays no match");
            }
            eq(playing, 2 * uint256(job.openMatches), "two groups a match");
            if (job.ended != JobPhase.Void) eq(idle, 0, "every living group waits or plays");
        }
    }

    function _inEscrow(Jobs market, uint256 id) private view returns (uint256 sum) {
        Job memory job = market.jobOf(id);
        if (job.ended != JobPhase.None) return 0;
        sum = job.reward;
        StakedClaim[] memory claims = market.claimsOf(id);
        for (uint256 i = 0; i < claims.length; ++i) {
            if (!claims[i].lost) sum += job.terms.stake;
        }
        Trainer[] memory trainers = market.trainersOf(id);
        for (uint256 i = 0; i < trainers.length; ++i) {
            if (!trainers[i].revealed) sum += job.terms.stake;
        }
    }
}
