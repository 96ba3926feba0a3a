// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {People} from "./People.sol";
import {Stage as TrialStage, Trial} from "contracts/interfaces/ICourt.sol";
import {DataRequest, Place, RequestState, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {Group, Job, JobPhase, StakedClaim, Trainer} from "contracts/interfaces/IJobs.sol";
import {Hearing, HearingPhase} from "contracts/interfaces/IPanel.sol";
import {Match, Phase} from "contracts/interfaces/IReferee.sol";

/// @title Actors
/// @notice Honest people and verifiers, who answer at once; all other actors are driven by the fuzzer.
///
/// The honest watch some jobs from the beginning: there they claim the truth if nobody does, and claim it again, behind
/// the remaining claims, when a claim of it was lost and fewer than two still stand; and they answer requests about it
/// for all its claimants.
abstract contract Actors is People {
    struct Asked {
        Subject subject;
        Place place;
        uint16 run;
    }

    /// @dev Matches that have not ended, and those whose verdict may still cost a bond.
    uint256[] internal watched;
    mapping(uint256 id => bool) private _seen;
    uint256 private _matches;
    mapping(uint256 id => uint32[2]) private _clocks;

    /// @dev Requests that are neither answered nor closed, and the run that each is about.
    Asked[] internal asked;

    /// @dev Jobs in which the honest have committed to a claim.
    mapping(uint256 job => bool) private _ready;

    /// @dev Number of honest claims made when a claim of the truth was lost.
    uint256 public defended;

    // ------------------------------------------------------------------ honest answers

    function answer() public {
        _lookAround();
        uint256 before;
        // NOTE: an answer may end a match, and its winner meets the group that waits: that match is answered, too.
        do {
            before = _matches;
            for (uint256 i = watched.length; i > 0; --i) {
                _see(i - 1);
            }
            _lookAround();
        } while (_matches != before);
        for (uint256 i = asked.length; i > 0; --i) {
            Asked memory a = asked[i - 1];
            // NOTE: a late request was made to others, who had lost the root before an honest person claimed it.
            bool inTime = time.time() <= dataAvailability.requestOf(a.subject, a.place).until;
            if (inTime && _isHonestly(a.subject)) answerRequest(person(0), a.subject, a.place, TRUTH);
            forgetAnswered(i - 1);
        }
    }

    /// @dev Returns whether an honest person has claimed the root and not lost, or has the logs to answer for.
    function _isHonestly(Subject memory s) private view returns (bool) {
        if (jobs.phaseOf(s.jobId) > JobPhase.Closing) return false;
        if (s.root == runLogs()) return isHonest(trainerOf[s.jobId]);
        if (s.root != rootOf(TRUTH)) return false;
        if (watches[s.jobId]) return true;
        (,,, StakedClaim[] memory claims,) = jobs.viewOf(s.jobId);
        for (uint256 i = 0; i < claims.length; ++i) {
            if (isHonest(claims[i].owner)) return true;
        }
        return false;
    }

    /// @dev Returns whether a request about present claims of the truth is late: a claim behind them is lost, too.
    function isDoomed(uint256 job) internal view returns (bool) {
        (uint32 life,) = jobs.standing(job, rootOf(TRUTH));
        for (uint256 i = 0; i < asked.length; ++i) {
            Subject memory s = asked[i].subject;
            if (s.jobId != job || s.root != rootOf(TRUTH)) continue;
            DataRequest memory d = dataAvailability.requestOf(s, asked[i].place);
            if (d.life == life && time.time() >= d.until) return true;
        }
        return false;
    }

    function forgetAnswered(uint256 i) internal {
        if (dataAvailability.requestOf(asked[i].subject, asked[i].place).state == RequestState.Open) return;
        asked[i] = asked[asked.length - 1];
        asked.pop();
    }

    function _lookAround() private {
        for (uint256 i = 0; i < live.length; ++i) {
            _lookAt(live[i]);
        }
    }

    function _see(uint256 i) private {
        uint256 id = watched[i];
        for (uint256 moves = 0; _answer(id, referee.getMatch(id)); ++moves) {
            if (moves == 20) return _break("an answer never ends");
        }
        _checkClocks(id);
        if (!_isOver(id)) return;
        watched[i] = watched[watched.length - 1];
        watched.pop();
    }

    function _isOver(uint256 id) internal view returns (bool) {
        HearingPhase phase = panel.getHearing(hearingOf(id)).phase;
        return referee.getMatch(id).phase == Phase.Done
            && (phase == HearingPhase.None || phase == HearingPhase.Done);
    }

    /// @dev Reveals honest trainers' claims, looks for new matches, and checks that no honest claim is lost.
    function _lookAt(uint256 job) private {
        _defend(job);
        (JobPhase phase,, Trainer[] memory trainers, StakedClaim[] memory claims, Group[] memory groups) =
            jobs.viewOf(job);
        if (phase == JobPhase.Reveal) {
            bool revealed;
            for (uint256 i = 0; i < trainers.length; ++i) {
                address who = trainers[i].owner;
                if (!isHonest(who) || trainers[i].revealed || trainers[i].commitment == 0) continue;
                reveal(job, who);
                revealed = true;
            }
            if (revealed) (,,, claims, groups) = jobs.viewOf(job);
        }
        for (uint256 i = 0; i < claims.length; ++i) {
            if (claims[i].lost && isHonest(claims[i].owner)) _break("an honest claim is lost");
        }
        for (uint256 i = 0; i < groups.length; ++i) {
            uint256 id = groups[i].matchId;
            if (id == 0 || _seen[id]) continue;
            _seen[id] = true;
            ++_matches;
            watched.push(id);
            meet(id, job, groups, claims);
            Match memory m = referee.getMatch(id);
            _clocks[id] = [m.clock0, m.clock1];
        }
    }

    /// @dev Claims the truth in a watched job, if it has to be claimed.
    function _defend(uint256 job) private {
        if (!watches[job]) return;
        if (!_ready[job]) {
            _ready[job] = true;
            for (uint160 n = 0; n < HONEST; ++n) {
                commitChallenge(job, person(n), TRUTH);
            }
        }
        (JobPhase phase, Job memory j,, StakedClaim[] memory claims, Group[] memory groups) = jobs.viewOf(job);
        if (j.reveals == 0) return;
        // NOTE: without the logs nobody knows which run is right.
        if (j.finder != address(0) || (rounded[job] && j.logs != runLogs())) return;
        bool closed = phase == JobPhase.Closing;
        if (phase != JobPhase.Challenge && !closed) return;
        bytes32 truth = rootOf(TRUTH);
        bool lost;
        for (uint256 i = 0; i < groups.length; ++i) {
            // NOTE: a refutation may have the root of the truth, and is not a claim of it.
            if (groups[i].root != truth || groups[i].refutes != 0) continue;
            uint256 speakers = groups[i].members.length - groups[i].spokesman;
            lost = groups[i].spokesman != 0;
            if (speakers > 1 || (speakers == 1 && !lost)) return;
            if (closed && speakers == 0 && time.time() >= groups[i].until) return;
        }
        if (closed && !lost) return;
        address who = _free(job, claims, groups);
        // NOTE: an honest claim is never lost, so once all three have claimed, one of the three speaks.
        if (who == address(0)) return;
        if (lost) ++defended;
        stake(job, who, TRUTH, 0);
    }

    /// @dev Returns an honest person that has no claim in the job, and whose commitment is old enough.
    function _free(uint256 job, StakedClaim[] memory claims, Group[] memory groups)
        private
        view
        returns (address who)
    {
        for (uint160 n = 0; n < HONEST; ++n) {
            who = person(n);
            if (block.timestamp < jobs.committedAt(job, commitmentTo(job, who, TRUTH)) + COMMIT_AGE) {
                who = address(0);
                continue;
            }
            for (uint256 i = 0; i < claims.length; ++i) {
                if (claims[i].owner == who && groups[claims[i].group].refutes == 0) who = address(0);
                if (who == address(0)) break;
            }
            if (who != address(0)) return who;
        }
    }

    /// @dev Time is conserved: no clock ever shows more than before.
    function _checkClocks(uint256 id) private {
        Match memory m = referee.getMatch(id);
        uint32[2] memory now_ = [m.clock0, m.clock1];
        uint32[2] storage before = _clocks[id];
        if (now_[0] > before[0] || now_[1] > before[1]) _break("a clock has gained time");
        if (now_[0] != before[0] || now_[1] != before[1]) _clocks[id] = now_;
    }

    /// @dev Makes a move that an honest spokesman or verifier owes; returns false if none is owed.
    function _answer(uint256 id, Match memory m) private returns (bool) {
        if (m.phase == Phase.Hearing || m.phase == Phase.Done) return _answerHearing(id, m);
        for (uint8 side = 0; side < 2; ++side) {
            if (!isHonest(playerOf(id, side))) continue;
            if (m.phase == Phase.Refine) {
                if (m.posted & (1 << side) != 0) continue;
                publish(id, m, side);
                return true;
            }
            // NOTE: in half of the matches the trees are published, in the others they are shown piece by piece.
            if (m.posted == 3 || id & 1 == 0) conclude(id, m);
            else if (m.posted & (1 << side) == 0) publish(id, m, side);
            else continue;
            return true;
        }
        return false;
    }

    function _answerHearing(uint256 id, Match memory m) private returns (bool) {
        uint256 hearingId = hearingOf(id);
        Hearing memory h = panel.getHearing(hearingId);
        if (h.phase == HearingPhase.Voting) {
            return time.time() < h.until && _voteHonestly(id, m, hearingId);
        }
        if (h.phase == HearingPhase.Ruled) return time.time() < h.until && _appealHonestly(id, m, h);
        if (h.phase == HearingPhase.Defence) {
            return time.time() < h.until && _standHonestly(id, m, hearingId, h);
        }
        if (h.phase == HearingPhase.Trial) {
            return _tryHonestly(id, m, isHonest(playerOf(id, 0)), isHonest(playerOf(id, 1)));
        }
        if (h.phase != HearingPhase.Stand) return false;
        bool defends = h.defendant == vm.addr(keys[0]) || h.defendant == vm.addr(keys[1]);
        bool accuses = isHonest(playerOf(id, h.side));
        return h.side == 0 ? _tryHonestly(id, m, accuses, defends) : _tryHonestly(id, m, defends, accuses);
    }

    function _voteHonestly(uint256 id, Match memory m, uint256 hearingId) private returns (bool) {
        for (uint256 i = 0; i < HONEST_VERIFIERS; ++i) {
            address verifier = vm.addr(keys[i]);
            if (!jobs.isVerifier(m.jobId, verifier) || panel.voted(hearingId, verifier)) continue;
            vote(id, m, keys[i], 1);
            return true;
        }
        return false;
    }

    function _appealHonestly(uint256 id, Match memory m, Hearing memory h) private returns (bool) {
        for (uint8 side = 0; side < 2; ++side) {
            if (!isHonest(playerOf(id, side)) || here(id).node[side] == h.verdict) continue;
            appeal(id, m, playerOf(id, side));
            return true;
        }
        return false;
    }

    function _standHonestly(uint256 id, Match memory m, uint256 hearingId, Hearing memory h)
        private
        returns (bool)
    {
        address[] memory signers = panel.votes(hearingId, h.verdict);
        for (uint256 i = 0; i < signers.length; ++i) {
            if (signers[i] != vm.addr(keys[0]) && signers[i] != vm.addr(keys[1])) continue;
            stand(id, m, signers[i], _valueOf(h.verdict));
            return true;
        }
        return false;
    }

    function _tryHonestly(uint256 id, Match memory m, bool honest0, bool honest1) private returns (bool) {
        if (!honest0 && !honest1) return false;
        Trial memory t = trialOf(id, m);
        if (t.stage == TrialStage.Outputs) {
            uint8 side = honest0 && t.posted & 1 == 0 ? 0 : 1;
            if ((side == 1 && !honest1) || t.posted & (1 << side) != 0) return false;
            playTrial(id, m, side);
        } else {
            // NOTE: both outputs have been shown, so an honest side has all that it needs.
            playTrial(id, m, 0);
        }
        return true;
    }
}
