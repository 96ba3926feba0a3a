// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Calls
/// @notice Calls with arguments that are encoded already: those of the current call, as they lie in calldata, or an
/// answer of another contract. No word of them is encoded again.
///
/// SAFETY: both contracts decode the arguments by the same types, so they read the same values.
library Calls {
    /// @notice Returns the answer of another contract's view to the arguments of this call; reverts as that view does.
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

    /// @notice Ends this call with the answer of another contract's view of the same name and arguments.
    function relay(address target) internal view {
        bytes memory answer = ask(target, msg.sig);
        assembly ("memory-safe") {
            return(add(answer, 0x20), mload(answer))
        }
    }

    /// @notice Calls another contract's move, which returns nothing, with these arguments; reverts as that move does.
    function tell(address target, bytes4 selector, bytes memory arguments) internal {
        assembly ("memory-safe") {
            // NOTE: the selector takes the place of the length, which is restored after the call.
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
