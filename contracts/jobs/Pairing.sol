// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Group, Job, JobPhase, StakedClaim, Trainer} from "../interfaces/IJobs.sol";
import {IReferee, Reason} from "../interfaces/IReferee.sol";
import {Board} from "./Board.sol";

/// @title Pairing
/// @notice Claims form groups by root; groups meet in matches until one is left.
///
///     claim ─▶ group ─enter─▶ waiting place empty? ─yes─▶ waits
///                                  │no
///                                  ▼
///                   match (waiting group is side 0) ─▶ losing spokesmen out; groups with a member left enter again
abstract contract Pairing is Board {
    // ------------------------------------------------------------------ types

    struct Pair {
        bool open;
        uint8 group0;
        uint8 group1;
    }

    // ------------------------------------------------------------------ storage

    /// @notice Bounds the gas of every loop over claims.
    uint256 public constant MAX_CLAIMS = 64;
    /// @notice A winner's share of a lost stake. NOTE: at most half, so that nobody profits from losing to himself.
    uint256 internal constant PRIZE_DIVISOR = 2;
    /// @notice The share of the verifiers who decided.
    uint256 private constant VERDICT_DIVISOR = 10;

    mapping(uint256 jobId => Trainer[]) internal _trainers;
    mapping(uint256 jobId => StakedClaim[]) internal _claims;
    mapping(uint256 jobId => Group[]) internal _groups;
    mapping(uint256 jobId => mapping(uint256 matchId => Pair)) private _pairs;
    /// @dev Numbers plus one, so that zero says none.
    mapping(uint256 jobId => mapping(address owner => uint256)) internal _claimOf;
    mapping(uint256 jobId => mapping(bytes32 root => uint256)) internal _groupOf;

    // ------------------------------------------------------------------ moves

    function resolve(uint256 jobId, uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external
        nonReentrant
    {
        Job storage job = _jobs[jobId];
        if (msg.sender != job.terms.referee) revert NotReferee(msg.sender, job.terms.referee);
        Pair storage pair = _pairs[jobId][matchId];
        if (!pair.open) revert NoSuchMatch(jobId, matchId);
        if (losers > 3 || (losers == 0) != (reason == Reason.Unresolved)) revert BadResult(losers, reason);

        (uint8 group0, uint8 group1) = (pair.group0, pair.group1);
        pair.open = false;
        --job.openMatches;
        _groups[jobId][group0].matchId = 0;
        _groups[jobId][group1].matchId = 0;
        emit Resolved(jobId, matchId, losers, reason);

        // NOTE: a job that another match made void has paid everybody; its other matches just end.
        if (job.ended != JobPhase.None) return;
        if (losers == 0) return _void(jobId, job);
        _settle(jobId, job, group0, group1, losers, deciders);
        // NOTE: at most one match opens here: if the first group finds one waiting, the second waits.
        _reenter(jobId, job, group0);
        _reenter(jobId, job, group1);
    }

    // ------------------------------------------------------------------ groups

    /// @dev A proven claim joins the group of its root or founds it. A group without a living member enters.
    function _claim(
        uint256 jobId,
        Job storage job,
        bytes32 root,
        bytes32 last,
        string calldata uri,
        bool slot
    ) internal {
        Group[] storage groups = _groups[jobId];
        uint256 number = _groupOf[jobId][root];
        if (number == 0) {
            Group storage founded = groups.push();
            founded.root = root;
            founded.last = last;
            number = groups.length;
            _groupOf[jobId][root] = number;
        }
        uint8 groupNumber = uint8(number - 1);
        Group storage group = groups[groupNumber];
        bool dead = group.spokesman == group.members.length;
        uint8 claimNumber = uint8(_claims[jobId].length);
        group.members.push(claimNumber);
        _claims[jobId].push(
            StakedClaim({owner: msg.sender, group: groupNumber, slot: slot, lost: false, uri: uri})
        );
        _claimOf[jobId][msg.sender] = uint256(claimNumber) + 1;
        emit Claimed(jobId, msg.sender, claimNumber, groupNumber, root, last, uri);

        if (dead) _enter(jobId, job, groupNumber);
    }

    /// @dev A group takes the waiting place, or meets who is there.
    function _enter(uint256 jobId, Job storage job, uint8 groupNumber) private {
        if (job.waiting == 0) {
            job.waiting = groupNumber + 1;
            emit Waiting(jobId, groupNumber);
            return;
        }
        uint8 other = job.waiting - 1;
        job.waiting = 0;
        ++job.openMatches;
        Group storage group0 = _groups[jobId][other];
        Group storage group1 = _groups[jobId][groupNumber];
        uint256 matchId = IReferee(job.terms.referee)
            .open(
                jobId,
                [group0.root, group1.root],
                [_spokesman(jobId, group0).owner, _spokesman(jobId, group1).owner],
                job.terms.rules.clock,
                job.terms.program
            );
        // SAFETY: the guard against reentrancy spans the call; an id that is zero or taken would confuse two matches.
        Pair storage pair = _pairs[jobId][matchId];
        if (matchId == 0 || pair.open) revert MatchTaken(jobId, matchId);
        _pairs[jobId][matchId] = Pair({open: true, group0: other, group1: groupNumber});
        group0.matchId = matchId;
        group1.matchId = matchId;
        emit Paired(jobId, matchId, other, groupNumber);
    }

    /// @dev After a match: a group with a member left enters again; one without is dead.
    function _reenter(uint256 jobId, Job storage job, uint8 groupNumber) internal {
        Group storage group = _groups[jobId][groupNumber];
        if (group.spokesman < group.members.length) return _enter(jobId, job, groupNumber);
        emit GroupDied(jobId, groupNumber);
        // SAFETY: a bad spokesman can give a right root away, even in the last second. So whoever knows that it is
        // right gets a challenge period to claim it again. Each extension costs somebody a stake.
        uint64 extended = uint64(_time()) + job.terms.challengePeriod;
        if (extended > job.challengeEnd) _setChallenge(jobId, job, extended);
    }

    // ------------------------------------------------------------------ money

    /// @dev Takes the losers' stakes: half to a winner, a tenth to the verifiers who decided, the rest is burned.
    function _settle(
        uint256 jobId,
        Job storage job,
        uint8 group0,
        uint8 group1,
        uint8 losers,
        address[] calldata deciders
    ) private {
        uint256 pot;
        if (losers & 1 != 0) pot += _lose(jobId, job, group0);
        if (losers & 2 != 0) pot += _lose(jobId, job, group1);
        uint256 rest = pot;
        if (losers != 3) {
            uint256 prize = pot / PRIZE_DIVISOR;
            _credit(_spokesman(jobId, _groups[jobId][losers == 1 ? group1 : group0]).owner, prize);
            rest -= prize;
        }
        if (deciders.length > 0) {
            uint256 shareDown = pot / VERDICT_DIVISOR / deciders.length;
            for (uint256 i = 0; i < deciders.length; ++i) {
                _credit(deciders[i], shareDown);
            }
            rest -= shareDown * deciders.length;
        }
        _credit(BURNED, rest);
    }

    /// @dev A group's spokesman loses its claim; the next member speaks.
    function _lose(uint256 jobId, Job storage job, uint8 groupNumber) internal returns (uint256 stake) {
        Group storage group = _groups[jobId][groupNumber];
        uint8 claimNumber = group.members[group.spokesman];
        StakedClaim storage lost = _claims[jobId][claimNumber];
        lost.lost = true;
        ++group.spokesman;
        emit ClaimLost(jobId, lost.owner, claimNumber);
        return job.terms.stake;
    }

    /// @dev Nobody can be shown wrong: everybody gets back what is not lost yet.
    function _void(uint256 jobId, Job storage job) internal {
        job.ended = JobPhase.Void;
        job.waiting = 0;
        uint256 stake = job.terms.stake;
        _credit(job.client, job.reward);
        StakedClaim[] storage claims = _claims[jobId];
        for (uint256 i = 0; i < claims.length; ++i) {
            if (!claims[i].lost) _credit(claims[i].owner, stake);
        }
        // NOTE: a slot that was revealed has become a claim.
        Trainer[] storage trainers = _trainers[jobId];
        for (uint256 i = 0; i < trainers.length; ++i) {
            if (!trainers[i].revealed) _credit(trainers[i].owner, stake);
        }
        emit Voided(jobId);
    }

    // ------------------------------------------------------------------ views

    function viewOf(uint256 jobId)
        external
        view
        returns (
            JobPhase phase,
            Job memory job,
            Trainer[] memory trainers,
            StakedClaim[] memory claims,
            Group[] memory groups
        )
    {
        return (phaseOf(jobId), _jobs[jobId], _trainers[jobId], _claims[jobId], _groups[jobId]);
    }

    function pairOf(uint256 jobId, uint256 matchId)
        external
        view
        returns (bool open, uint8 group0, uint8 group1)
    {
        Pair storage pair = _pairs[jobId][matchId];
        return (pair.open, pair.group0, pair.group1);
    }

    /// @dev Whether a claim of this root has not been lost.
    function _isClaimed(uint256 jobId, bytes32 root) internal view returns (bool) {
        uint256 number = _groupOf[jobId][root];
        if (number == 0) return false;
        Group storage group = _groups[jobId][number - 1];
        return group.spokesman < group.members.length;
    }

    /// @dev Who speaks for the group that this one plays against; nobody if it plays no match.
    function _rival(uint256 jobId, uint8 groupNumber) internal view returns (address) {
        uint256 matchId = _groups[jobId][groupNumber].matchId;
        if (matchId == 0) return address(0);
        Pair storage pair = _pairs[jobId][matchId];
        uint8 other = pair.group0 == groupNumber ? pair.group1 : pair.group0;
        return _spokesman(jobId, _groups[jobId][other]).owner;
    }

    function _spokesman(uint256 jobId, Group storage group) internal view returns (StakedClaim storage) {
        return _claims[jobId][group.members[group.spokesman]];
    }
}
