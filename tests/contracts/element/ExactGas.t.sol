// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {RuleCases} from "./RuleCases.sol";
import {Entry} from "contracts/element/IRule.sol";

/// @notice The gas of a step and of an element in the mode exact, where it differs from repops-f32.
/// forge-config: default.isolate = true
contract ExactGasTest is RuleCases {
    uint8 private constant EXACT = 2;
    uint64 private constant SIGN = 0x80000000;

    /// @dev Saves the gas of step `t` on its own result, and of the element.
    function _two(string memory family, string memory name, uint64 t) private {
        _case.mode = EXACT;
        bytes memory state = _rule(family).step(_case, t, new bytes(96), _opened);
        state = _saved(family, name, t, state);
        _savedFinish(family, string.concat("finish of ", name), state, Entry(1, 0));
    }

    function test_contractions() public {
        _product(513, HALF, PI);
        _two("ExactContractions", "mm", 513);
        // Negative sums have to be turned around before they are rounded.
        _product(513, HALF | SIGN, PI);
        _two("ExactContractions", "mm, negative", 513);
        _product(BF16, 513, NARROW_HALF, NARROW_PI);
        _two("ExactContractions", "mm of bf16", 513);
    }

    function test_convolution() public {
        _operator(53, abi.encodePacked(_window(), uint64(2), _ints(_dims(28, 28))));
        _input(F32, _dims(8, 128, 28, 28));
        _input(F32, _dims(128, 64, 3, 3));
        _output(F32, _dims(8, 128, 28, 28), 100_352 + 64 * 784 + 29);
        _open(0, 100_352 + 64 * 784 + 29, HALF);
        _open(1, 64 * 576 + 4, PI);
        _two("ExactContractions", "conv2d_input_grad", 4);
    }

    function test_sums() public {
        _sum(4096, 1, PI);
        _two("ExactReductions", "sum", 1);
    }

    function test_rows() public {
        _operator(61, "");
        _input(F32, _dims(50_257, 768));
        _input(I64, _dims(4, 256));
        _input(F32, _dims(4, 256, 768));
        _output(F32, _dims(50_257, 768), 1234 * 768 + 9);
        _open(1, 5, 1234);
        _open(2, 5 * 768 + 9, PI);
        _two("ExactRows", "scatter_add", 6);
    }
}
