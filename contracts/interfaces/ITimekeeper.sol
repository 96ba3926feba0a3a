// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice Who goes by the time of a timekeeper.
interface ITimed {
    error NoTime(ITimekeeper keeper);

    /// @notice Who says what time it is.
    function TIME() external view returns (ITimekeeper);
}

/// @title ITimekeeper
/// @notice What time it is for the contracts of a deployment: the chain's time, less that of all pauses so far.
///
///     running ──pause──▶ paused ──resume, or the budget is spent──▶ running
///
/// A pause stops every clock and period at once, and nothing else: whoever can act may act, and nobody is late for it. It is
/// for times in which honest parties cannot act: the chain is down or refuses them, or their software has to be mended.
///
/// PROMISES
/// - The time never goes back, and never faster than the chain's.
/// - Nothing stands still for good: all pauses together last at most `BUDGET` seconds, counted by the chain, not by the guardian.
/// - The guardian can stop the clocks and let them run, nothing more: no ether, match, claim or verdict is in its hands.
///
/// ASSUMPTIONS
/// - `block.timestamp` is about right.
interface ITimekeeper {
    // ------------------------------------------------------------------ events

    /// @notice The clocks stand still since then, until `resume` or, on the chain's clock, `until`.
    event Paused(uint64 since, uint64 until);
    /// @notice The clocks run. So far they stood still for `lost` seconds.
    event Resumed(uint64 instant, uint64 lost);

    // ------------------------------------------------------------------ errors

    error NotGuardian(address sender, address guardian);
    error AlreadyPaused(uint64 until);
    error NotPaused();
    error BudgetSpent(uint64 budget);
    error BudgetTooLarge(uint64 budget, uint64 limit);

    // ------------------------------------------------------------------ moves

    /// @notice Stops the clocks. The guardian only.
    function pause() external;

    /// @notice Lets them run again. The guardian only.
    function resume() external;

    // ------------------------------------------------------------------ views

    /// @notice Seconds: `block.timestamp` less all pauses.
    function time() external view returns (uint256);

    /// @notice The first instant of the chain at which the clocks run again, if nobody resumes before it; zero if they run.
    function pausedUntil() external view returns (uint64);

    /// @notice Seconds that are left of the budget.
    function budgetLeft() external view returns (uint64);

    /// @notice Zero if there is none, and so never a pause.
    function GUARDIAN() external view returns (address);

    function BUDGET() external view returns (uint64);
}
