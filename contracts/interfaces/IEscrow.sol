// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title IEscrow
/// @notice Credits: money is never sent along the way, it is noted and drawn by whom it belongs to.
interface IEscrow {
    event Credited(address indexed account, uint256 amount);
    event Withdrawn(address indexed account, uint256 amount);

    error NothingToPay(address account);

    /// @notice Pays the sender its credit.
    function withdraw() external;

    /// @notice Sends burned ether to `0x…dEaD`.
    function burn() external;

    /// @notice What an account can withdraw.
    function credit(address account) external view returns (uint256);
}
