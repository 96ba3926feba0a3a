// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Case, Entry, IRule, Opened} from "contracts/element/IRule.sol";

/// @notice Many steps of a chain in one call, compared with expected states.
contract RuleBatch {
    uint256 private constant OPENED_BYTES = 17;

    /// @notice Computes steps `from`, `from + 1` ..., one fewer than there are states: `from + i` makes state i + 1
    /// from state i.
    /// @param states Concatenated.
    /// @param operands For each step: count u8 ‖ ( input u8 ‖ element u64be ‖ bits u64be ) each.
    /// @return wrong The first step that gives another state, or the number of steps.
    /// @return got The state that this step gives.
    function steps(
        IRule rule,
        Case calldata which,
        uint64 from,
        bytes calldata states,
        bytes calldata operands
    ) external pure returns (uint256 wrong, bytes memory got) {
        (, bytes memory first) = rule.begin(which);
        uint256 size = first.length;
        uint256 count = states.length / size - 1;
        for (; wrong < count; ++wrong) {
            bytes calldata state = states[wrong * size:(wrong + 1) * size];
            uint256 length = 1 + OPENED_BYTES * uint8(operands[0]);
            got = rule.step(which, from + uint64(wrong), state, _opened(operands[1:length]));
            operands = operands[length:];
            if (keccak256(got) != keccak256(states[(wrong + 1) * size:(wrong + 2) * size])) break;
        }
        require(wrong < count || operands.length == 0, "operands of no step");
    }

    /// @notice Returns the length, the first state, and the element of the last state.
    function ends(IRule rule, Case calldata which, bytes calldata last)
        external
        pure
        returns (uint64 length, bytes memory first, uint64 bits)
    {
        (length, first) = rule.begin(which);
        bits = rule.finish(which, last, Entry({kind: 1, written: 0}));
    }

    /// @notice Returns the element of a last state, under each of these entries.
    function elements(IRule rule, Case calldata which, bytes calldata last, Entry[] calldata entries)
        external
        pure
        returns (uint64[] memory bits)
    {
        bits = new uint64[](entries.length);
        for (uint256 i = 0; i < bits.length; ++i) {
            bits[i] = rule.finish(which, last, entries[i]);
        }
    }

    function _opened(bytes calldata packed) private pure returns (Opened[] memory opened) {
        opened = new Opened[](packed.length / OPENED_BYTES);
        for (uint256 i = 0; i < opened.length; ++i) {
            bytes calldata one = packed[i * OPENED_BYTES:(i + 1) * OPENED_BYTES];
            opened[i] = Opened(uint8(one[0]), uint64(bytes8(one[1:9])), uint64(bytes8(one[9:17])));
        }
    }
}
