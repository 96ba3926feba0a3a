// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IEscrow} from "./IEscrow.sol";
import {IJobs} from "./IJobs.sol";
import {JobPhase} from "./JobTypes.sol";

/// @notice What somebody has set aside for those who watch a job.
struct Bounty {
    IJobs jobs;
    uint256 jobId;
    address funder;
}

/// @notice The money of a bounty.
struct Pool {
    /// @dev What was set aside, in wei. Zero if nothing was.
    uint96 amount;
    /// @dev For how many watchers: none gets more than this part of it.
    uint8 shares;
    /// @dev How many have committed.
    uint32 watchers;
    /// @dev Zero until it is distributed; then how the job ended: Accepted, Unclaimed or Void.
    JobPhase ended;
    /// @dev Once distributed: what each gets who has shown the accepted root, in wei.
    uint96 share;
    /// @dev Once distributed: the accepted root, if one was.
    bytes32 root;
}

/// @notice Where a watcher of a bounty stands.
enum WatcherState {
    None,
    Committed,
    Shown,
    Collected
}

struct Watcher {
    /// @dev What it puts at risk, in wei.
    uint96 stake;
    WatcherState state;
    /// @dev What it has committed to; once shown, the root.
    bytes32 found;
}

/// @title IWatch
/// @notice Watching pays: a part of what a job is worth to somebody is for those who knew its right result before anybody revealed
/// one. Whoever computes that is also who notices a wrong claim, and claims the right one (IJobs).
///
///     none ─watch─▶ committed ─show─▶ shown ─collect─▶ collected
///                       └──────────collect────────────────▲
///
/// A watcher commits in Training, when nobody has revealed anything, and stakes as much as a slot does. It shows the root once
/// claims can be challenged. If that root is accepted it gets its stake and its share; otherwise its stake is burned. If no root is
/// accepted all stakes go back.
///
/// With a pool `p` for `s` watchers, of whom `m` were right, each gets `p / s` if `m <= s`, else `p s / m^2`. What is not paid is the
/// funder's again. NOTE: not `p / m`, or whoever knows the root would take what others had left by coming with more accounts
/// (docs/economics.md, section 8).
///
/// PROMISES
/// - Whoever commits to the root that is accepted, and shows it, loses nothing but gas, and gets a share.
/// - What others have committed to helps nobody: it is salted, and bound to its sender.
/// - A pool pays at most what is in it, whatever its Jobs contract says, and when.
/// - Whoever funds a bounty has one of its own: nobody can spend, fill or close another's.
/// - Anybody finds a place, at the price of a stake; no move costs more gas because there are many.
/// - Balance = credits + pools that are not distributed + stakes that are not collected + shares of distributed pools that are not collected.
///   No owner, no upgrade.
///
/// ASSUMPTIONS
/// - SAFETY: any Jobs contract may be named. A malicious one hurts those who fund or watch its jobs, and nobody else.
/// - A commitment's salt has enough entropy.
interface IWatch is IEscrow {
    // ------------------------------------------------------------------ events

    event Funded(
        uint256 indexed jobId, address indexed jobs, address indexed funder, uint256 amount, uint8 shares
    );
    event Watched(
        uint256 indexed jobId,
        address indexed jobs,
        address indexed funder,
        address watcher,
        bytes32 commitment,
        uint256 stake
    );
    event Shown(
        uint256 indexed jobId, address indexed jobs, address indexed funder, address watcher, bytes32 root
    );
    /// @notice The job is over: `right` watchers have shown the accepted root and get a share each; the rest is the funder's credit.
    event Distributed(
        uint256 indexed jobId,
        address indexed jobs,
        address indexed funder,
        JobPhase ended,
        uint256 right,
        uint256 share
    );
    /// @notice What a watcher gets is its credit; nothing if its stake is burned.
    event Collected(
        uint256 indexed jobId, address indexed jobs, address indexed funder, address watcher, uint256 amount
    );

    // ------------------------------------------------------------------ errors

    /// @notice A bounty of nothing, or one that nobody has funded.
    error NothingFunded();
    error AlreadyFunded(uint256 jobId, address funder);
    error BadShares(uint256 shares);
    /// @notice In a mode with rounding logs nobody but the trainer can know the root before the logs are revealed.
    error UnwatchableMode(uint8 mode);
    error AlreadyWatching(uint256 jobId, address watcher);
    /// @notice The sender has committed to nothing, or has shown it already.
    error NothingToShow(uint256 jobId, address watcher);
    /// @notice Whoever has committed to nothing gets nothing, and nobody gets it twice.
    error NothingToCollect(uint256 jobId, address watcher);
    error AlreadyDistributed(uint256 jobId, address funder);

    // ------------------------------------------------------------------ moves

    /// @notice Training: sets the value aside, once for each sender. It is for `shares` watchers.
    function fund(IJobs jobs, uint256 jobId, uint8 shares) external payable;

    /// @notice Training: commits to a root, once for each sender; the value covers `stakeOf` the job, and what is more is credited.
    function watch(Bounty calldata bounty, bytes32 commitment) external payable;

    /// @notice Challenge, Closing: shows what the sender has committed to.
    /// @dev NOTE: whoever shows a root that nobody claims gives it away; so claim it first.
    function show(Bounty calldata bounty, bytes32 root, bytes32 salt) external;

    /// @notice The job is over: notes which root was accepted, and credits the funder with what no watcher gets. Anybody may call
    /// it, once.
    function distribute(Bounty calldata bounty) external;

    /// @notice The job is over: credits a watcher with what it gets, or burns its stake. Anybody may call it, once for each; the
    /// first call distributes.
    function collect(Bounty calldata bounty, address watcher) external;

    // ------------------------------------------------------------------ views

    function poolOf(Bounty calldata bounty) external view returns (Pool memory);

    function watcherOf(Bounty calldata bounty, address watcher) external view returns (Watcher memory);

    /// @notice How many watchers have shown this root.
    function shownOf(Bounty calldata bounty, bytes32 root) external view returns (uint256);

    /// @notice What a sender would commit to.
    function commitmentOf(uint256 jobId, address sender, bytes32 root, bytes32 salt)
        external
        view
        returns (bytes32);
}
