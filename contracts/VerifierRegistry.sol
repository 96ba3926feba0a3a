// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "./Timed.sol";
import {ITimekeeper} from "./interfaces/ITimekeeper.sol";
import {IVerifierRegistry, Verifier} from "./interfaces/IVerifierRegistry.sol";
import {SafeTransferLib} from "solady/utils/SafeTransferLib.sol";

/// @title VerifierRegistry
/// @notice See IVerifierRegistry.
contract VerifierRegistry is IVerifierRegistry, Timed {
    // ------------------------------------------------------------------ storage

    /// @notice Long enough for any host name and path, short enough to list.
    uint256 public constant MAX_URI = 512;

    uint256 public immutable MIN_BOND;
    uint64 public immutable LEAVE_DELAY;

    mapping(address verifier => Verifier) private _verifiers;
    mapping(address verifier => bool) private _listed;
    /// @dev Number of hearings plus one; zero until the first one. NOTE: so the word stays, and the next one writes no new one.
    mapping(address verifier => mapping(address panel => uint256 hearings)) private _held;
    address[] private _list;

    // ------------------------------------------------------------------ constructor

    constructor(uint256 minBond, uint64 leaveDelay, ITimekeeper keeper) Timed(keeper) {
        // SAFETY: a bond of zero marks an empty place, so it must not be a valid one.
        if (minBond == 0) revert BondTooSmall(0, 1);
        MIN_BOND = minBond;
        LEAVE_DELAY = leaveDelay;
    }

    // ------------------------------------------------------------------ moves

    function register(address panel, string calldata uri) external payable {
        if (msg.value < MIN_BOND) revert BondTooSmall(msg.value, MIN_BOND);
        if (bytes(uri).length > MAX_URI) revert UriTooLong(bytes(uri).length);
        if (_verifiers[msg.sender].bond != 0) revert AlreadyRegistered(msg.sender);

        _verifiers[msg.sender] = Verifier({bond: msg.value, leavesAt: 0, panel: panel, uri: uri});
        if (!_listed[msg.sender]) {
            _listed[msg.sender] = true;
            _list.push(msg.sender);
        }
        emit Registered(msg.sender, msg.value, uri);
    }

    function move(string calldata uri) external {
        if (bytes(uri).length > MAX_URI) revert UriTooLong(bytes(uri).length);
        if (_verifiers[msg.sender].bond == 0) revert NotRegistered(msg.sender);

        _verifiers[msg.sender].uri = uri;
        emit Moved(msg.sender, uri);
    }

    function unregister() external {
        Verifier storage verifier = _verifiers[msg.sender];
        if (verifier.bond == 0) revert NotRegistered(msg.sender);
        if (verifier.leavesAt != 0) revert AlreadyLeaving(msg.sender, verifier.leavesAt);

        verifier.leavesAt = uint64(_time()) + LEAVE_DELAY;
        emit Leaving(msg.sender, verifier.leavesAt);
    }

    function withdrawBond() external {
        Verifier storage verifier = _verifiers[msg.sender];
        uint256 bond = verifier.bond;
        if (bond == 0) revert NotRegistered(msg.sender);
        if (verifier.leavesAt == 0 || _time() < verifier.leavesAt) {
            revert StillLocked(msg.sender, verifier.leavesAt);
        }
        uint256 held = _heldBy(msg.sender, verifier.panel);
        if (held != 0) revert StillHeld(msg.sender, held);

        delete _verifiers[msg.sender];
        emit Left(msg.sender, bond);
        SafeTransferLib.safeTransferETH(msg.sender, bond);
    }

    function hold(address verifier) external {
        if (!_answers(verifier, msg.sender)) revert NotPanel(msg.sender, _verifiers[verifier].panel);
        _held[verifier][msg.sender] = _heldBy(verifier, msg.sender) + 2;
    }

    function release(address verifier) external {
        if (_heldBy(verifier, msg.sender) == 0) revert NotHeld(verifier, msg.sender);
        --_held[verifier][msg.sender];
    }

    function take(address verifier) external returns (uint256 bond, bool alone) {
        // NOTE: another hearing may have taken the bond; then nothing is left, and there is no reason to revert.
        if (!_answers(verifier, msg.sender)) return (0, true);
        bond = _verifiers[verifier].bond;
        alone = _heldBy(verifier, msg.sender) <= 1;
        delete _verifiers[verifier];
        emit BondTaken(verifier, msg.sender, bond);
        SafeTransferLib.safeTransferETH(msg.sender, bond);
    }

    // ------------------------------------------------------------------ views

    function serves(address verifier, address panel) external view returns (bool) {
        return _answers(verifier, panel) && _verifiers[verifier].leavesAt == 0;
    }

    /// @dev Returns the number of hearings of a panel that hold the bond.
    function _heldBy(address verifier, address panel) private view returns (uint256) {
        uint256 held = _held[verifier][panel];
        return held == 0 ? 0 : held - 1;
    }

    function _answers(address verifier, address panel) private view returns (bool) {
        return _verifiers[verifier].bond != 0 && _verifiers[verifier].panel == panel;
    }

    function getVerifier(address verifier) external view returns (Verifier memory) {
        return _verifiers[verifier];
    }

    function verifierCount() external view returns (uint256) {
        return _list.length;
    }

    function verifierAt(uint256 position) external view returns (address) {
        return _list[position];
    }
}
