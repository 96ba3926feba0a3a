// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ITimekeeper} from "./interfaces/ITimekeeper.sol";

/// @title Timekeeper
/// @notice See ITimekeeper.
contract Timekeeper is ITimekeeper {
    // ------------------------------------------------------------------ storage

    /// @notice Bounds how long a stake can be locked.
    uint64 private constant MAX_BUDGET = 365 days;

    address public immutable GUARDIAN;
    uint64 public immutable BUDGET;

    /// @dev The chain's time at which the last pause began; zero after `resume`.
    uint64 private _pausedAt;
    /// @dev Seconds that the clocks have stood still, without the last pause while `_pausedAt` is set.
    uint64 private _lost;

    // ------------------------------------------------------------------ constructor

    constructor(address guardian, uint64 budget) {
        if (budget > MAX_BUDGET) revert BudgetTooLarge(budget, MAX_BUDGET);
        GUARDIAN = guardian;
        BUDGET = budget;
    }

    // ------------------------------------------------------------------ guards

    modifier onlyGuardian() {
        if (msg.sender != GUARDIAN) revert NotGuardian(msg.sender, GUARDIAN);
        _;
    }

    // ------------------------------------------------------------------ moves

    function pause() external onlyGuardian {
        uint64 until = pausedUntil();
        if (until != 0) revert AlreadyPaused(until);
        _lost = _lostSoFar();
        if (_lost == BUDGET) revert BudgetSpent(BUDGET);

        _pausedAt = uint64(block.timestamp);
        emit Paused(_pausedAt, _pausedAt + BUDGET - _lost);
    }

    function resume() external onlyGuardian {
        if (pausedUntil() == 0) revert NotPaused();

        _lost = _lostSoFar();
        _pausedAt = 0;
        emit Resumed(uint64(block.timestamp), _lost);
    }

    // ------------------------------------------------------------------ views

    function time() external view returns (uint256) {
        return block.timestamp - _lostSoFar();
    }

    function pausedUntil() public view returns (uint64) {
        if (_pausedAt == 0) return 0;
        uint64 until = _pausedAt + BUDGET - _lost;
        return block.timestamp < until ? until : 0;
    }

    function budgetLeft() external view returns (uint64) {
        return BUDGET - _lostSoFar();
    }

    /// @dev Seconds that the clocks have stood still. INVARIANT: at most the budget; never grows faster than time.
    function _lostSoFar() private view returns (uint64) {
        if (_pausedAt == 0) return _lost;
        uint64 lasted = uint64(block.timestamp) - _pausedAt;
        uint64 left = BUDGET - _lost;
        return _lost + (lasted < left ? lasted : left);
    }
}
