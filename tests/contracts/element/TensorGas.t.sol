// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {RuleCases} from "./RuleCases.sol";
import {Entry} from "contracts/element/IRule.sol";

/// @notice The gas of a step and of an element of a contraction of bf16 in the mode tc16.
/// forge-config: default.isolate = true
contract TensorGasTest is RuleCases {
    string private constant RULE = "TensorContractions";
    uint8 private constant TC16 = 3;
    uint64 private constant NARROW_SUBNORMAL = 0x0041;

    /// @dev Saves the gas of step `t` of a product of matrices, on its own result if it takes the sum further.
    function _step(string memory name, uint64 t, uint64 k, uint64 a, uint64 b, bytes memory state)
        private
        returns (bytes memory)
    {
        _product(BF16, k, a, b);
        _case.mode = TC16;
        return _saved(RULE, string.concat("mm, ", name), t, state);
    }

    /// @dev A block of 4,096 terms, in the second chunk: its first pair, and one in the middle, in both passes.
    function test_products() public {
        // total 1, c 3.14..: as after the first chunk.
        bytes memory state = hex"3f80000040490fdb0000000000000000";
        state = _step("widen, c first", 1056, 528, NARROW_HALF, NARROW_PI, state);
        state = _step("widen", 1057, 529, NARROW_HALF, NARROW_PI, state);
        bytes memory sum = _step("accumulate, c first", 1072, 528, NARROW_HALF, NARROW_PI, state);
        sum = _step("accumulate", 1073, 529, NARROW_HALF, NARROW_PI, sum);
        sum = _step("accumulate and round", 1087, 543, NARROW_HALF, NARROW_PI, sum);
        _savedFinish(RULE, "finish of mm", sum, Entry(1, 0));
    }

    /// @dev Subnormals have no short path; a chunk ends.
    function test_worst() public {
        bytes memory state = hex"00412345804123450000000000000000";
        state = _step("widen, worst", 1024, 512, NARROW_SUBNORMAL, NARROW_SUBNORMAL | 0x8000, state);
        // A sum of one block with one term ends where it begins.
        _operator(50, "");
        _input(BF16, _dims(64, 513));
        _input(BF16, _dims(513, 1024));
        _output(BF16, _dims(64, 1024), 1024);
        _open(0, 513 + 512, NARROW_SUBNORMAL);
        _open(1, 512 * 1024, NARROW_SUBNORMAL | 0x8000);
        _case.mode = TC16;
        state = hex"00412345804123450079000000000000";
        _saved(RULE, "mm, accumulate and round, worst", 1025, state);
    }

    function test_convolutions() public {
        _convolution(52, "", _dims(8, 64, 28, 28), _dims(128, 64, 3, 3), _dims(8, 128, 28, 28));
        _case.element = 100_352 + 64 * 784 + 29;
        // Channel 17 of tap (1, 1): in the 18th block.
        _open(0, 50_176 + 17 * 784 + 29, NARROW_HALF);
        _open(1, 64 * 576 + 17 * 9 + 4, NARROW_PI);
        _two("conv2d");
        _convolution(
            53,
            abi.encodePacked(_ints(_dims(28, 28))),
            _dims(8, 128, 28, 28),
            _dims(128, 64, 3, 3),
            _dims(8, 64, 28, 28)
        );
        _case.element = 50_176 + 29;
        _open(0, 100_352 + 17 * 784 + 29, NARROW_HALF);
        _open(1, 17 * 576 + 4, NARROW_PI);
        _two("conv2d_input_grad");
        _convolution(
            54,
            abi.encodePacked(_ints(_dims(3, 3))),
            _dims(8, 128, 28, 28),
            _dims(8, 64, 28, 28),
            _dims(128, 64, 3, 3)
        );
        _case.element = 64 * 576 + 4;
        _open(0, 64 * 784 + 17, NARROW_HALF);
        _open(1, 17, NARROW_PI);
        _two("conv2d_weight_grad");
    }

    function _convolution(
        uint16 op,
        bytes memory attribute,
        uint64[] memory first,
        uint64[] memory second,
        uint64[] memory result
    ) private {
        _operator(op, abi.encodePacked(_window(), uint64(1), attribute));
        _input(BF16, first);
        _input(BF16, second);
        _output(BF16, result, 0);
        _case.mode = TC16;
    }

    /// @dev Saves both steps of term 17 of the innermost dimension; of tap (1, 1) if there are taps.
    function _two(string memory name) private {
        uint64 channels = _case.op == 52 ? 64 : 128;
        uint64 from = _case.op == 54 ? 32 : 4 * 2 * channels + 32;
        bytes memory state = hex"3f80000040490fdb0101000000000000";
        state = _saved(RULE, string.concat(name, ", widen"), from + 1, state);
        _saved(RULE, string.concat(name, ", accumulate"), from + 17, state);
    }
}
