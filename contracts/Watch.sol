// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Escrow} from "./Escrow.sol";
import {Hash} from "./commit/Hash.sol";
import {Modes} from "./commit/Modes.sol";
import {IJobs} from "./interfaces/IJobs.sol";
import {Bounty, IWatch, Pool, Watcher, WatcherState} from "./interfaces/IWatch.sol";
import {JobPhase} from "./interfaces/JobTypes.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {SafeCastLib} from "solady/utils/SafeCastLib.sol";

/// @title Watch
/// @notice See IWatch.
/// @dev NOTE: a Jobs contract is asked by static calls and changes nothing. It may answer differently each time.
contract Watch is IWatch, Escrow {
    // ------------------------------------------------------------------ storage

    mapping(bytes32 key => Pool) private _pools;
    mapping(bytes32 key => mapping(address watcher => Watcher)) private _watchers;
    /// @dev Number of watchers that have shown the root.
    mapping(bytes32 key => mapping(bytes32 root => uint256)) private _shown;

    // ------------------------------------------------------------------ moves

    function fund(IJobs jobs, uint256 jobId, uint8 shares) external payable {
        if (msg.value == 0) revert NothingFunded();
        if (shares == 0) revert BadShares(shares);
        _checkTraining(jobs, jobId);
        uint8 mode = jobs.programOf(jobId).mode;
        if (Modes.rounded(mode)) revert UnwatchableMode(mode);
        // SAFETY: a pool for each funder: otherwise a stranger that funds one wei first would keep the client from it.
        Pool storage pool = _pools[keccak256(abi.encode(Bounty(jobs, jobId, msg.sender)))];
        if (pool.amount != 0) revert AlreadyFunded(jobId, msg.sender);

        (pool.amount, pool.shares) = (SafeCastLib.toUint96(msg.value), shares);
        emit Funded(jobId, address(jobs), msg.sender, msg.value, shares);
    }

    function watch(Bounty calldata bounty, bytes32 commitment) external payable {
        (bytes32 key, Pool storage pool) = _open(bounty);
        _checkTraining(bounty.jobs, bounty.jobId);
        if (commitment == 0) revert IJobs.EmptyCommitment();
        uint256 stake = bounty.jobs.stakeOf(bounty.jobId);
        if (msg.value < stake) revert IJobs.WrongStake(msg.value, stake);
        Watcher storage watcher = _watchers[key][msg.sender];
        if (watcher.state != WatcherState.None) revert AlreadyWatching(bounty.jobId, msg.sender);

        (watcher.stake, watcher.state) = (SafeCastLib.toUint96(stake), WatcherState.Committed);
        watcher.found = commitment;
        ++pool.watchers;
        emit Watched(bounty.jobId, address(bounty.jobs), bounty.funder, msg.sender, commitment, stake);
        _credit(msg.sender, msg.value - stake);
    }

    function show(Bounty calldata bounty, bytes32 root, bytes32 salt) external {
        (bytes32 key,) = _open(bounty);
        JobPhase phase = bounty.jobs.phaseOf(bounty.jobId);
        if (phase != JobPhase.Closing) _checkPhase(bounty.jobId, phase, JobPhase.Challenge);
        Watcher storage watcher = _watchers[key][msg.sender];
        if (watcher.state != WatcherState.Committed) revert NothingToShow(bounty.jobId, msg.sender);
        bytes32 have = commitmentOf(bounty.jobId, msg.sender, root, salt);
        if (have != watcher.found) revert IJobs.WrongCommitment(have, watcher.found);

        (watcher.state, watcher.found) = (WatcherState.Shown, root);
        ++_shown[key][root];
        emit Shown(bounty.jobId, address(bounty.jobs), bounty.funder, msg.sender, root);
    }

    function distribute(Bounty calldata bounty) external {
        (bytes32 key, Pool storage pool) = _open(bounty);
        _distribute(bounty, key, pool);
    }

    function collect(Bounty calldata bounty, address account) external {
        bytes32 key = keccak256(abi.encode(bounty));
        Pool storage pool = _pools[key];
        Watcher storage watcher = _watchers[key][account];
        WatcherState state = watcher.state;
        if (state == WatcherState.None || state == WatcherState.Collected) {
            revert NothingToCollect(bounty.jobId, account);
        }
        if (pool.ended == JobPhase.None) _distribute(bounty, key, pool);

        watcher.state = WatcherState.Collected;
        bool right = state == WatcherState.Shown && watcher.found == pool.root;
        uint256 stake = watcher.stake;
        uint256 amount = 0;
        if (pool.ended != JobPhase.Accepted) amount = stake;
        else if (right) amount = stake + pool.share;
        else _credit(BURNED, stake);
        emit Collected(bounty.jobId, address(bounty.jobs), bounty.funder, account, amount);
        _credit(account, amount);
    }

    // ------------------------------------------------------------------ money

    /// @dev SAFETY: the answers of the Jobs contract are recorded once, and nobody watches or shows anything after it.
    /// So each watcher that is counted here is paid once, and nobody else is paid.
    function _distribute(Bounty calldata bounty, bytes32 key, Pool storage pool) private {
        JobPhase ended = bounty.jobs.phaseOf(bounty.jobId);
        if (ended <= JobPhase.Closing) revert IJobs.JobRuns(bounty.jobId);
        (uint256 right, uint256 share, uint256 amount) = (0, 0, pool.amount);
        pool.ended = ended;
        if (ended == JobPhase.Accepted) {
            pool.root = bounty.jobs.acceptedRoot(bounty.jobId);
            right = _shown[key][pool.root];
            uint256 most = FixedPointMathLib.max(right, pool.shares);
            // INVARIANT: right * share <= amount * shares * right / most^2 <= amount.
            share = amount * pool.shares / (most * most);
            pool.share = uint96(share);
        }
        emit Distributed(bounty.jobId, address(bounty.jobs), bounty.funder, ended, right, share);
        _credit(bounty.funder, amount - right * share);
    }

    // ------------------------------------------------------------------ views

    function poolOf(Bounty calldata bounty) external view returns (Pool memory) {
        return _pools[keccak256(abi.encode(bounty))];
    }

    function watcherOf(Bounty calldata bounty, address watcher) external view returns (Watcher memory) {
        return _watchers[keccak256(abi.encode(bounty))][watcher];
    }

    function shownOf(Bounty calldata bounty, bytes32 root) external view returns (uint256) {
        return _shown[keccak256(abi.encode(bounty))][root];
    }

    /// @dev NOTE: with this contract's address, not the Jobs contract's: nothing shown here opens a commitment there.
    function commitmentOf(uint256 jobId, address sender, bytes32 root, bytes32 salt)
        public
        view
        returns (bytes32)
    {
        return Hash.commitment(address(this), jobId, sender, root, 0, 0, salt);
    }

    /// @dev Returns the bounty's pool; reverts unless it was funded and is not distributed.
    function _open(Bounty calldata bounty) private view returns (bytes32 key, Pool storage pool) {
        key = keccak256(abi.encode(bounty));
        pool = _pools[key];
        if (pool.amount == 0) revert NothingFunded();
        if (pool.ended != JobPhase.None) revert AlreadyDistributed(bounty.jobId, bounty.funder);
    }

    function _checkTraining(IJobs jobs, uint256 jobId) private view {
        _checkPhase(jobId, jobs.phaseOf(jobId), JobPhase.Training);
    }

    function _checkPhase(uint256 jobId, JobPhase have, JobPhase want) private pure {
        if (have != want) revert IJobs.WrongPhase(jobId, have, want);
    }
}
