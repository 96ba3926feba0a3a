// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Descent} from "contracts/commit/Descents.sol";
import {TrialPosition} from "contracts/interfaces/ICourt.sol";

/// @title Statements
/// @notice The statements that count in a trial after each move, computed from those before and the move.
library Statements {
    /// @dev Returns the argument of `showOutputs` that shows one side's root.
    function only(uint256 side, bytes32 root) internal pure returns (bytes32[2] memory roots) {
        roots[side] = root;
    }

    function shown(TrialPosition memory position, uint8 side, bytes32 root)
        internal
        pure
        returns (TrialPosition memory now_)
    {
        now_ = copy(position);
        now_.nodes[side] = root;
    }

    function walked(TrialPosition memory position, Descent memory way)
        internal
        pure
        returns (TrialPosition memory now_)
    {
        now_ = copy(position);
        (now_.nodes[0], now_.nodes[1]) = (way.node0, way.node1);
    }

    /// @dev The element is found: each side's bits, and the state before the first step.
    function found(uint64[2] memory values, bytes memory first)
        internal
        pure
        returns (TrialPosition memory now_)
    {
        (now_.values, now_.agreed) = (values, keccak256(first));
    }

    function posted(TrialPosition memory position, bytes memory states)
        internal
        pure
        returns (TrialPosition memory now_)
    {
        now_ = copy(position);
        now_.offer = keccak256(states);
    }

    /// @dev `size`: the bytes of a state. `own` is empty at the last place, where both keep their statements.
    function answered(
        TrialPosition memory position,
        bytes memory states,
        uint256 size,
        uint256 place,
        bytes memory own
    ) internal pure returns (TrialPosition memory now_) {
        now_ = copy(position);
        now_.offer = 0;
        if (place > 0) now_.agreed = keccak256(_state(states, size, place - 1));
        if (own.length == 0) return now_;
        (now_.states[0], now_.states[1]) = (keccak256(_state(states, size, place)), keccak256(own));
    }

    function hash(TrialPosition memory position) internal pure returns (bytes32) {
        return keccak256(abi.encode(position));
    }

    function copy(TrialPosition memory position) internal pure returns (TrialPosition memory) {
        return abi.decode(abi.encode(position), (TrialPosition));
    }

    function _state(bytes memory states, uint256 size, uint256 i) private pure returns (bytes memory state) {
        state = new bytes(size);
        for (uint256 b = 0; b < size; ++b) {
            state[b] = states[i * size + b];
        }
    }
}
