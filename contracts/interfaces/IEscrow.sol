// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title IEscrow
/// @notice Credits: a contract never sends money during another move. It credits an account, whose owner withdraws.
interface IEscrow {
    event Credited(address indexed account, uint256 amount);
    event Withdrawn(address indexed account, uint256 amount);

    error NothingToPay(address account);

    /// @notice Pays the caller its credit.
    function withdraw() external;

    /// @notice Sends burned ether to `0x…dEaD`.
    function burn() external;

    /// @notice Returns how much an account can withdraw, in wei.
    function credit(address account) external view returns (uint256);
}
