// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Calls} from "../commit/Calls.sol";
import {Group, Job, JobPhase, KeptJob, StakedClaim, Trainer} from "../interfaces/IJobs.sol";
import {INotary} from "../interfaces/INotary.sol";
import {IReferee, Reason} from "../interfaces/IReferee.sol";
import {Board} from "./Board.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";

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
    uint256 private constant PRIZE_DIVISOR = 2;
    /// @notice The share of the verifiers who decided; where there is a winner, out of its half.
    uint256 private constant VERDICT_DIVISOR = 10;
    /// @dev Bytes of the arguments of `IReferee.open`, up to the program.
    uint256 private constant OPEN_HEAD = 7 * 0x20;
    /// @dev INVARIANT: in a mode with logs nobody can claim before the one trainer has, so the first group is its, and the first
    /// member of that is its claim.
    uint8 internal constant TRAINERS_GROUP = 0;

    mapping(uint256 jobId => mapping(uint256 matchId => Pair)) private _pairs;
    /// @dev Numbers plus one, so that zero says none.
    mapping(uint256 jobId => mapping(address owner => uint256)) internal _claimOf;
    mapping(uint256 jobId => mapping(bytes32 root => uint256)) internal _groupOf;

    // ------------------------------------------------------------------ moves

    function resolve(uint256 jobId, uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external
        nonReentrant
    {
        KeptJob storage job = _jobs[jobId];
        if (msg.sender != job.terms.referee) revert NotReferee(msg.sender, job.terms.referee);
        Pair storage pair = _pairs[jobId][matchId];
        if (!pair.open) revert NoSuchMatch(jobId, matchId);
        if (losers == 0 || losers > 3) revert BadResult(losers);

        (uint8 group0, uint8 group1) = (pair.group0, pair.group1);
        pair.open = false;
        --job.openMatches;
        _groups[jobId][group0].matchId = 0;
        _groups[jobId][group1].matchId = 0;
        emit Resolved(jobId, matchId, losers, reason);

        _settle(jobId, job, group0, group1, losers, deciders);
        // NOTE: at most one match opens here: if the first group finds one waiting, the second waits.
        _reenter(jobId, job, group0);
        _reenter(jobId, job, group1);
    }

    // ------------------------------------------------------------------ groups

    /// @dev A proven claim joins the group of its root or founds it. A group without a living member enters.
    function _claim(
        uint256 jobId,
        KeptJob storage job,
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
    function _enter(uint256 jobId, KeptJob storage job, uint8 groupNumber) private {
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
        uint256 matchId = _open(jobId, job, group0, group1);
        // SAFETY: the guard against reentrancy spans the call; an id that is zero or taken would confuse two matches.
        Pair storage pair = _pairs[jobId][matchId];
        if (matchId == 0 || pair.open) revert MatchTaken(jobId, matchId);
        _pairs[jobId][matchId] = Pair({open: true, group0: other, group1: groupNumber});
        group0.matchId = matchId;
        group1.matchId = matchId;
        emit Paired(jobId, matchId, other, groupNumber);
    }

    /// @dev Opens a match at the job's referee. NOTE: the program goes there as the notary encodes it, which begins with the word
    /// that says where it begins; so here it begins behind that word.
    function _open(uint256 jobId, KeptJob storage job, Group storage group0, Group storage group1)
        private
        returns (uint256)
    {
        bytes memory program =
            Address.functionStaticCall(address(NOTARY), abi.encodeCall(INotary.programOf, (jobId)));
        bytes memory move = abi.encodeWithSelector(
            IReferee.open.selector,
            jobId,
            [group0.root, group1.root],
            [_spokesman(jobId, group0).owner, _spokesman(jobId, group1).owner],
            job.terms.rules.clock,
            OPEN_HEAD + 0x20
        );
        bytes memory answer = Address.functionCall(job.terms.referee, abi.encodePacked(move, program));
        return abi.decode(answer, (uint256));
    }

    /// @dev After a match: a group with a member left enters again; one without is dead.
    function _reenter(uint256 jobId, KeptJob storage job, uint8 groupNumber) internal {
        if (groupNumber == TRAINERS_GROUP) _condemn(jobId, job);
        Group storage group = _groups[jobId][groupNumber];
        if (group.spokesman < group.members.length) return _enter(jobId, job, groupNumber);
        emit GroupDied(jobId, groupNumber);
        // SAFETY: a bad spokesman can give a right root away, even in the last second. So whoever knows that it is
        // right gets a challenge period to claim it again. Each extension costs somebody a stake.
        uint64 extended = uint64(_time()) + job.terms.challengePeriod;
        if (extended > job.challengeEnd) _setChallenge(jobId, job, extended);
    }

    // ------------------------------------------------------------------ money

    /// @dev Takes the losers' stakes: half to a winner and the verifiers who decided, a tenth of the whole to these; the rest is
    /// burned. SAFETY: were the verifiers' tenth not the winner's, whoever loses to himself with verifiers of his own would
    /// lose less than half.
    function _settle(
        uint256 jobId,
        KeptJob storage job,
        uint8 group0,
        uint8 group1,
        uint8 losers,
        address[] calldata deciders
    ) private {
        uint256 pot;
        if (losers & 1 != 0) pot += _lose(jobId, job, group0);
        if (losers & 2 != 0) pot += _lose(jobId, job, group1);
        uint256 shares;
        if (deciders.length > 0) {
            uint256 shareDown = pot / VERDICT_DIVISOR / deciders.length;
            for (uint256 i = 0; i < deciders.length; ++i) {
                _credit(deciders[i], shareDown);
            }
            shares = shareDown * deciders.length;
        }
        if (losers == 3) return _credit(BURNED, pot - shares);
        uint256 half = pot / PRIZE_DIVISOR;
        _credit(_spokesman(jobId, _groups[jobId][losers == 1 ? group1 : group0]).owner, half - shares);
        _credit(BURNED, pot - half);
    }

    /// @dev Of what is lost without a match half is the finder's, the rest is burned.
    function _reward(address finder, uint256 pot) internal {
        uint256 prize = pot / PRIZE_DIVISOR;
        _credit(finder, prize);
        _credit(BURNED, pot - prize);
    }

    /// @dev A trainer who has withheld its logs loses its claim, unless it has lost it before.
    function _condemn(uint256 jobId, KeptJob storage job) private {
        if (job.finder == address(0) || _groups[jobId][TRAINERS_GROUP].spokesman != 0) return;
        _reward(job.finder, _lose(jobId, job, TRAINERS_GROUP));
    }

    /// @dev A group's spokesman loses its claim; the next member speaks.
    function _lose(uint256 jobId, KeptJob storage job, uint8 groupNumber) internal returns (uint256 stake) {
        Group storage group = _groups[jobId][groupNumber];
        uint8 claimNumber = group.members[group.spokesman];
        StakedClaim storage lost = _claims[jobId][claimNumber];
        lost.lost = true;
        ++group.spokesman;
        emit ClaimLost(jobId, lost.owner, claimNumber);
        return job.terms.stake;
    }

    /// @dev Nobody can be shown right: everybody gets back what is not lost yet. INVARIANT: with no match open, a trainer who has
    /// withheld its logs has lost its claim.
    function _void(uint256 jobId, KeptJob storage job) internal {
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

    function viewOf(uint256)
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
        Calls.relay(address(NOTARY));
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

    function _spokesman(uint256 jobId, Group storage group) internal view returns (StakedClaim storage) {
        return _claims[jobId][group.members[group.spokesman]];
    }
}
