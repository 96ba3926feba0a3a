// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Calls
/// @notice Calls with arguments that are encoded already: those of the call that is being made, as they lie in calldata, or what
/// another contract has returned. No word of them is encoded again.
///
/// SAFETY: both contracts read the arguments by the same types, so they read the same.
library Calls {
    /// @notice What a view of another contract, of the same arguments as this call, returns; or its refusal.
    function ask(address target, bytes4 selector) internal view returns (bytes memory answer) {
        assembly ("memory-safe") {
            let start := mload(0x40)
            mstore(start, selector)
            calldatacopy(add(start, 4), 4, sub(calldatasize(), 4))
            let ok := staticcall(gas(), target, start, calldatasize(), 0, 0)
            if iszero(ok) {
                returndatacopy(start, 0, returndatasize())
                revert(start, returndatasize())
            }
            answer := start
            mstore(answer, returndatasize())
            returndatacopy(add(answer, 0x20), 0, returndatasize())
            mstore(0x40, add(add(answer, 0x20), and(add(returndatasize(), 0x1f), not(0x1f))))
        }
    }

    /// @notice Ends this call with what a view of another contract, of the same name and arguments, returns.
    function relay(address target) internal view {
        bytes memory answer = ask(target, msg.sig);
        assembly ("memory-safe") {
            return(add(answer, 0x20), mload(answer))
        }
    }

    /// @notice Calls a move of another contract, which returns nothing, with these arguments; or its refusal.
    function tell(address target, bytes4 selector, bytes memory arguments) internal {
        assembly ("memory-safe") {
            // NOTE: the word of the length makes room for the selector, and gets its own back.
            let length := mload(arguments)
            mstore(arguments, shr(224, selector))
            let ok := call(gas(), target, 0, add(arguments, 0x1c), add(length, 4), 0, 0)
            mstore(arguments, length)
            if iszero(ok) {
                let start := mload(0x40)
                returndatacopy(start, 0, returndatasize())
                revert(start, returndatasize())
            }
        }
    }
}
