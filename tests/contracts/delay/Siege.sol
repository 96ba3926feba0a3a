// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Statements} from "../support/Statements.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Dispute, TrialPosition} from "contracts/interfaces/ICourt.sol";
import {Group, Job, JobPhase, Refutation} from "contracts/interfaces/IJobs.sol";
import {MatchTerms} from "contracts/interfaces/IReferee.sol";

/// @title Siege
/// @notice A job under siege: liars who prolong every match as far as the rules allow, and an honest challenger who
/// answers at once.
///
/// The longest match of these jobs: records in the last second of the clock, the verdict in the last second of its
/// period, by verifiers who are the liars' own, an appeal by a liar that the verdict calls wrong in the last second of
/// that period, and in the trial silence until the clock has run out. `LONGEST` is the sum.
abstract contract Siege is Market {
    using Views for Jobs;

    struct Play {
        uint256 id;
        /// @dev The instant of the match's next move, and the move.
        uint256 at;
        uint256 stage;
        /// @dev The sides' outputs, and which side loses.
        uint256[2] outputs;
        uint8 loser;
        uint32[2] groups;
    }

    /// @dev Seconds. NOTE: a verdict and an appeal come a second before their periods end, and a side is late a second
    /// after its clock has run out.
    uint256 internal constant LONGEST = CLOCK + (PERIOD - 1) + (PERIOD - 1) + (CLOCK + 1);
    address internal constant HONEST = address(0x600D);

    uint256 internal _job;
    Play[] private _plays;
    mapping(uint256 id => bool) private _known;
    uint160 private _people = 100;
    address[] private _accounts;
    /// @dev Stakes of the liars and of the honest challenger, including bonds of appeals.
    uint256 internal _liars;
    uint256 internal _honest;
    uint256 internal _refutations;
    /// @dev Of two liars the one that claims the truth loses; else the truth wins, and between lies side 0 loses.
    bool internal _givesAway;

    // ------------------------------------------------------------------ claims

    /// @dev Opens a job whose trainers, all liars, have claimed these outputs.
    function besiege(uint256[] memory outputs) internal {
        _job = claimed(outputs);
        for (uint160 i = 0; i < outputs.length; ++i) {
            _accounts.push(person(i + 1));
            _liars += STAKE;
        }
        look();
    }

    /// @dev Adds `count` new liars in one second: all claim this output, or each one the next output.
    function lie(uint256 output, uint256 count, bool same) internal {
        uint160 first = _people + 1;
        for (uint256 i = 0; i < count; ++i) {
            commitTo(_job, person(++_people), same ? output : output + i);
        }
        pass(1);
        for (uint256 i = 0; i < count; ++i) {
            address who = person(uint160(first + i));
            _liars += claimNow(_job, who, same ? output : output + i);
            _accounts.push(who);
        }
        look();
    }

    /// @dev A new liar states that the claim of an output is wrong, and that another is right.
    function refute(uint256 output, uint256 computed) internal {
        address who = person(++_people);
        // NOTE: remembers the output of the root.
        commitTo(_job, who, computed);
        Refutation memory r;
        (r.root, r.claimed, r.computed) = (root(output), root(output), root(computed));
        bytes32 commitment = jobs.commitmentOf(_job, who, r.computed, r.computed, r.root, "salt");
        vm.prank(who);
        jobs.commitChallenge(_job, commitment);
        pass(1);
        uint256 price = jobs.refutationPriceOf(_job, r.root);
        if (who.balance < price) vm.deal(who, price);
        vm.prank(who);
        jobs.refute{value: price}(_job, r, "salt");
        _liars += price;
        _accounts.push(who);
        ++_refutations;
        look();
    }

    function tell() internal {
        commitTo(_job, HONEST, TRUTH);
        pass(1);
        _honest += claimNow(_job, HONEST, TRUTH);
        look();
    }

    // ------------------------------------------------------------------ matches

    /// @dev NOTE: calls, so that the memory for a page of groups is freed.
    function groupAt(uint256 number) external view returns (Group memory) {
        return jobs.groupsFrom(_job, number)[0];
    }

    function matchesFrom(uint256 from) external view returns (uint256[] memory ids) {
        Group[] memory groups = jobs.groupsFrom(_job, from);
        ids = new uint256[](groups.length);
        for (uint256 i = 0; i < groups.length; ++i) {
            ids[i] = groups[i].matchId;
        }
    }

    /// @dev Registers matches that have opened in this second.
    function look() internal {
        uint256 from = 0;
        for (uint256[] memory ids = this.matchesFrom(0); ids.length > 0; ids = this.matchesFrom(from)) {
            for (uint256 i = 0; i < ids.length; ++i) {
                if (ids[i] != 0) _take(ids[i]);
            }
            from += ids.length;
        }
    }

    function _take(uint256 id) private {
        if (_known[id]) return;
        _known[id] = true;
        MatchTerms memory d = matchTerms(id);
        Play storage p = _plays.push();
        (p.id, p.at) = (id, currentSecond() + CLOCK);
        (p.outputs[0], p.outputs[1]) = (outputOf(d.roots[0]), outputOf(d.roots[1]));
        (, p.groups[0], p.groups[1]) = jobs.pairOf(_job, id);
        for (uint8 side = 0; side < 2; ++side) {
            if (d.players[side] == HONEST) {
                p.loser = 1 - side;
                return;
            }
            if (p.outputs[side] == TRUTH) p.loser = _givesAway ? side : 1 - side;
        }
    }

    /// @dev Makes the earliest next move of any match; returns false if no match runs.
    function step() internal returns (bool) {
        if (_plays.length == 0) return false;
        uint256 next = 0;
        for (uint256 i = 1; i < _plays.length; ++i) {
            if (_plays[i].at < _plays[next].at) next = i;
        }
        Play storage p = _plays[next];
        if (currentSecond() < p.at) vm.warp(p.at);
        (uint256 right, uint256 id) = (p.outputs[1 - p.loser], p.id);
        if (p.stage == 0) {
            submit(id, p.outputs[0], p.outputs[1]);
            p.at = currentSecond() + PERIOD - 1;
        } else if (p.stage == 1) {
            decide(id, right);
            p.at = currentSecond() + PERIOD - 1;
        } else if (p.stage == 2) {
            _appealed(id, p.loser, right);
            p.at = currentSecond() + CLOCK + 1;
        } else {
            court.timeout(trialTermsOf(id, disputeOf(id)));
            uint32[2] memory groups = p.groups;
            _plays[next] = _plays[_plays.length - 1];
            _plays.pop();
            // NOTE: a match that opens is between these groups or one of them.
            for (uint256 side = 0; side < 2; ++side) {
                uint256 another = this.groupAt(groups[side]).matchId;
                if (another != 0) _take(another);
            }
            return true;
        }
        ++p.stage;
        return true;
    }

    /// @dev NOTE: a call, so that its memory is freed.
    function stepped() external returns (bool) {
        return step();
    }

    function _appealed(uint256 id, uint8 loser, uint256 right) private {
        address who = matchTerms(id).players[loser];
        vm.deal(who, who.balance + STAKE);
        _liars += STAKE;
        appeal(id, who);
        Dispute memory d = disputeOf(id);
        TrialPosition memory nothing;
        court.showOutputs(trialTermsOf(id, d), d, nothing, Statements.only(1 - loser, dataRoot(right)));
    }

    /// @dev Plays to the end, and has everybody collect. Returns the seconds from the end of Challenge to the job's
    /// end.
    function finish() internal returns (uint256) {
        while (this.stepped()) {
            onEvent();
        }
        Job memory job = jobs.jobOf(_job);
        uint256 end = job.reclaimEnd > job.challengeEnd ? job.reclaimEnd : job.challengeEnd;
        if (time.time() < end) pass(end - time.time());
        uint256 took = currentSecond() - job.challengeEnd;
        finalize(_job);
        job = jobs.jobOf(_job);
        yes(job.ended == JobPhase.Accepted && job.acceptedRoot == root(TRUTH), "the truth is accepted");
        return took;
    }

    /// @dev Chain time passes while the clocks stand still.
    function postponed(uint256 duration) internal {
        for (uint256 i = 0; i < _plays.length; ++i) {
            _plays[i].at += duration;
        }
    }

    /// @dev Acts of the liars after each move.
    function onEvent() internal virtual {}

    // ------------------------------------------------------------------ costs

    /// @dev Returns the stakes that liars have not got back. The verifiers are theirs.
    function lost() internal view returns (uint256) {
        uint256 back;
        for (uint256 i = 0; i < _accounts.length; ++i) {
            back += jobs.credit(_accounts[i]) + panel.credit(_accounts[i]);
        }
        for (uint256 i = 0; i < keys.length; ++i) {
            back += jobs.credit(verifier(i));
        }
        return _liars - back;
    }

    /// @dev Returns the honest challenger's gain, without its stakes.
    function won() internal view returns (uint256) {
        return jobs.credit(HONEST) + panel.credit(HONEST) - _honest;
    }
}
