// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice A registered verifier. `bond == 0` means not registered.
struct Verifier {
    uint256 bond;
    /// @dev Zero while active; else the instant from which the bond can be withdrawn.
    uint64 leavesAt;
    string uri;
}

/// @title IVerifierRegistry
/// @notice Who re-executes disputed operators, and where to reach them.
///
/// PROMISES
/// - Anyone registers with at least `MIN_BOND`; nobody can be refused, removed or robbed. No owner, no upgrade.
/// - A bond stays locked for `LEAVE_DELAY` after its verifier has left, longer than any match it may have voted in
///   should last, so that a false verdict can be answered with the bond.
/// - A bond is paid to its verifier alone.
///
/// ASSUMPTIONS
/// - NOTE: this version has no on-chain proof of a wrong verdict yet, so the bond is a lock, not yet a penalty.
interface IVerifierRegistry {
    event Registered(address indexed verifier, uint256 bond, string uri);
    event Moved(address indexed verifier, string uri);
    event Leaving(address indexed verifier, uint64 leavesAt);
    event Left(address indexed verifier, uint256 bond);

    error BondTooSmall(uint256 have, uint256 want);
    error UriTooLong(uint256 length);
    error AlreadyRegistered(address verifier);
    error NotRegistered(address verifier);
    error AlreadyLeaving(address verifier, uint64 leavesAt);
    error StillLocked(address verifier, uint64 leavesAt);

    /// @notice Registers the sender with the value as bond.
    function register(string calldata uri) external payable;

    /// @notice Changes the sender's endpoint.
    function move(string calldata uri) external;

    /// @notice The sender stops being eligible for new jobs; its bond unlocks after `LEAVE_DELAY`.
    function unregister() external;

    /// @notice Pays the unlocked bond back to the sender.
    function withdrawBond() external;

    /// @notice Whether new jobs may name this verifier.
    function isActive(address verifier) external view returns (bool);

    function getVerifier(address verifier) external view returns (Verifier memory);

    /// @notice Number of addresses that ever registered, those that left included.
    function verifierCount() external view returns (uint256);

    function verifierAt(uint256 position) external view returns (address);
}
