// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ITimed} from "./ITimekeeper.sol";

/// @notice A registered verifier. `bond == 0` means not registered.
struct Verifier {
    uint256 bond;
    /// @dev Zero while active; else the instant from which the bond can be withdrawn.
    uint64 leavesAt;
    /// @dev The only contract that may hold or take the bond.
    address panel;
    string uri;
}

/// @title IVerifierRegistry
/// @notice The verifiers, who re-execute disputed operators, with their bonds and endpoints.
///
/// PROMISES
/// - Anybody registers with at least `MIN_BOND`; nobody can be refused, removed or robbed. No owner, no upgrade.
/// - A bond stays locked for `LEAVE_DELAY` after its verifier leaves, and while a hearing holds it for a vote.
/// - A bond is paid to its verifier, or is taken by the one panel that the verifier has named.
///
/// ASSUMPTIONS
/// - A verifier names only a panel whose code it knows.
interface IVerifierRegistry is ITimed {
    event Registered(address indexed verifier, uint256 bond, string uri);
    event Moved(address indexed verifier, string uri);
    event Leaving(address indexed verifier, uint64 leavesAt);
    event Left(address indexed verifier, uint256 bond);
    event BondTaken(address indexed verifier, address indexed panel, uint256 bond);

    error BondTooSmall(uint256 have, uint256 want);
    error UriTooLong(uint256 length);
    error AlreadyRegistered(address verifier);
    error NotRegistered(address verifier);
    error AlreadyLeaving(address verifier, uint64 leavesAt);
    error StillLocked(address verifier, uint64 leavesAt);
    /// @notice The verifier has voted in this many hearings that are open.
    error StillHeld(address verifier, uint256 hearings);
    error NotPanel(address sender, address panel);
    /// @notice No hearing of the sender holds the verifier's bond.
    error NotHeld(address verifier, address sender);

    /// @notice Registers the caller with the value as bond, which `panel` may hold and take.
    function register(address panel, string calldata uri) external payable;

    /// @notice Changes the caller's endpoint.
    function move(string calldata uri) external;

    /// @notice Ends the caller's eligibility for new jobs; its bond unlocks after `LEAVE_DELAY`.
    function unregister() external;

    /// @notice Pays the unlocked bond to the caller.
    function withdrawBond() external;

    /// @notice Holds the bond, so that it cannot be withdrawn; once for each hearing. The verifier's panel only.
    function hold(address verifier) external;

    /// @notice Releases one hold of the calling panel on the bond.
    function release(address verifier) external;

    /// @notice Pays the bond to the caller, the verifier's panel; zero if the bond is gone.
    /// @return bond In wei.
    /// @return alone Whether no second hearing holds the bond.
    function take(address verifier) external returns (uint256 bond, bool alone);

    /// @notice Returns whether new jobs may name this verifier, if the panel of their referee is this one.
    function serves(address verifier, address panel) external view returns (bool);

    function getVerifier(address verifier) external view returns (Verifier memory);

    /// @notice Returns how many addresses have ever registered, including those that left.
    function verifierCount() external view returns (uint256);

    function verifierAt(uint256 position) external view returns (address);
}
