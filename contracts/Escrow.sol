// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IEscrow} from "./interfaces/IEscrow.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeTransferLib} from "solady/utils/SafeTransferLib.sol";

/// @title Escrow
/// @notice See IEscrow. A contract that inherits this one keeps its ether here.
abstract contract Escrow is IEscrow, ReentrancyGuardTransient {
    // ------------------------------------------------------------------ storage

    /// @notice The account whose credit is burned ether.
    address public constant BURNED = 0x000000000000000000000000000000000000dEaD;

    /// @dev What an account is owed, in wei, plus one; zero until its first credit. NOTE: so the word stays when the
    /// account is paid, and its next credit writes no new one.
    mapping(address account => uint256) private _owed;

    // ------------------------------------------------------------------ moves

    function withdraw() external {
        _pay(msg.sender);
    }

    function burn() external {
        _pay(BURNED);
    }

    // ------------------------------------------------------------------ accounting

    function _credit(address account, uint256 amount) internal {
        if (amount == 0) return;
        uint256 owed = _owed[account];
        _owed[account] = (owed == 0 ? 1 : owed) + amount;
        emit Credited(account, amount);
    }

    /// @dev Writes the word of an account's credits, for which its first credit would pay. SAFETY: so whoever makes
    /// others credit it pays for the word, however dear that is, and not they.
    function _prepare(address account) internal {
        if (_owed[account] == 0) _owed[account] = 1;
    }

    function _pay(address account) private nonReentrant {
        uint256 amount = credit(account);
        if (amount == 0) revert NothingToPay(account);

        _owed[account] = 1;
        emit Withdrawn(account, amount);
        SafeTransferLib.safeTransferETH(account, amount);
    }

    // ------------------------------------------------------------------ views

    function credit(address account) public view returns (uint256) {
        uint256 owed = _owed[account];
        return owed == 0 ? 0 : owed - 1;
    }
}
