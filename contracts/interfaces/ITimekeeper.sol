// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice A contract that uses the time of a timekeeper.
interface ITimed {
    error NoTime(ITimekeeper keeper);

    /// @notice The contract whose time this one uses.
    function TIME() external view returns (ITimekeeper);
}

/// @title ITimekeeper
/// @notice The time for the contracts of a deployment: the chain's time, less the length of all pauses so far.
///
///     running ──pause──▶ paused ──resume, or the budget is spent──▶ running
///
/// A pause stops every clock and period at once, and nothing else: parties may still act, and nobody becomes late. It
/// is for times in which honest parties cannot act: the chain is down or refuses their transactions, or their software
/// must be fixed.
///
/// PROMISES
/// - The time never goes back, and never runs faster than the chain's.
/// - No pause lasts for good: all pauses together last at most `BUDGET` seconds, counted by the chain.
/// - The guardian can stop the clocks and let them run, nothing more: it controls no ether, match, claim or verdict.
///
/// ASSUMPTIONS
/// - `block.timestamp` is about right.
interface ITimekeeper {
    // ------------------------------------------------------------------ events

    /// @notice The clocks have stood still since `since`, until `resume` or, on the chain's clock, `until`.
    event Paused(uint64 since, uint64 until);
    /// @notice The clocks run again. So far they have stood still for `lost` seconds in all.
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

    /// @notice Lets the clocks run again. The guardian only.
    function resume() external;

    // ------------------------------------------------------------------ views

    /// @notice Returns the time in seconds: `block.timestamp` less all pauses.
    function time() external view returns (uint256);

    /// @notice Returns the chain's instant from which the clocks run again if nobody resumes before; zero if they run.
    function pausedUntil() external view returns (uint64);

    /// @notice Returns the seconds of the budget that are left.
    function budgetLeft() external view returns (uint64);

    /// @notice Zero if there is no guardian, and so never a pause.
    function GUARDIAN() external view returns (address);

    function BUDGET() external view returns (uint64);
}
