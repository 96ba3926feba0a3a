// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {RuleCases} from "./RuleCases.sol";
import {Entry} from "contracts/element/IRule.sol";

/// @notice The gas of a step in rounded-f64, where it differs from repops-f32, and of a decision.
/// forge-config: default.isolate = true
contract RoundedGasTest is RuleCases {
    // Modes: 26 and 32 bits, proven; 32 bits, probable.
    uint8 private constant BITS_26 = 0x80;
    uint8 private constant BITS_32 = 0x86;
    uint8 private constant PROBABLE = 0x8E;
    Entry private _none = Entry(1, 0);
    Entry private _up = Entry(2, 0);

    /// @dev Returns the state after the step, from its own result: sum, magnitude and smallest of two terms.
    function _two(string memory family, string memory name, uint64 t, bytes memory state)
        private
        returns (bytes memory)
    {
        state = _rule(family).step(_case, t, state, _opened);
        return _saved(family, name, t, state);
    }

    function _finished(string memory family, string memory name, bytes memory state) private {
        _savedFinish(family, string.concat(name, ", no entry"), state, _none);
        _savedFinish(family, string.concat(name, ", direction"), state, _up);
        _savedFinish(family, string.concat(name, ", written"), state, Entry(3, 0xC2000000));
    }

    function test_contractions() public {
        _product(513, HALF, PI);
        _case.mode = BITS_32;
        bytes memory state = _two("RoundedContractions", "mm", 513, new bytes(200));
        _finished("RoundedContractions", "finish of mm", state);
        // As many terms as allowed, of which the root is taken.
        _case.mode = PROBABLE;
        for (uint256 i = 0; i < 8; ++i) {
            state[192 + i] = bytes8(uint64(1 << 31))[i];
        }
        _finished("RoundedContractions", "finish of mm, 2^31 terms, probable", state);
        // Negative, and far from the unit.
        _product(513, HALF | 0x80000000, PI);
        _case.mode = BITS_26;
        _two("RoundedContractions", "mm, negative", 513, new bytes(200));
        _product(BF16, 513, NARROW_HALF, NARROW_PI);
        _case.mode = BITS_32;
        state = _two("RoundedContractions", "mm of bf16", 513, new bytes(200));
        _finished("RoundedContractions", "finish of mm of bf16", state);
    }

    function test_convolution() public {
        _operator(53, abi.encodePacked(_window(), uint64(2), _ints(_dims(28, 28))));
        _case.mode = BITS_32;
        _input(F32, _dims(8, 128, 28, 28));
        _input(F32, _dims(128, 64, 3, 3));
        _output(F32, _dims(8, 128, 28, 28), 100_352 + 64 * 784 + 29);
        _open(0, 100_352 + 64 * 784 + 29, HALF);
        _open(1, 64 * 576 + 4, PI);
        bytes memory state = _two("RoundedContractions", "conv2d_input_grad", 4, new bytes(200));
        _savedFinish("RoundedContractions", "finish of conv2d_input_grad, direction", state, _up);
    }

    function test_sums() public {
        _sum(4096, 1, PI);
        _case.mode = BITS_32;
        bytes memory state = _two("RoundedReductions", "sum", 1, new bytes(204));
        _finished("RoundedReductions", "finish of sum", state);
    }

    function test_rows() public {
        _operator(61, "");
        _case.mode = BITS_32;
        _input(F32, _dims(50_257, 768));
        _input(I64, _dims(4, 256));
        _input(F32, _dims(4, 256, 768));
        _output(F32, _dims(50_257, 768), 1234 * 768 + 9);
        _open(1, 5, 1234);
        _open(2, 5 * 768 + 9, PI);
        bytes memory state = _two("RoundedRows", "scatter_add", 6, new bytes(204));
        _savedFinish("RoundedRows", "finish of scatter_add, direction", state, _up);
    }

    function test_operations() public {
        _operator(1, "");
        _case.mode = BITS_26;
        _input(F32, _dims(8, 3, 64, 64));
        _input(F32, _dims(3, 1, 1));
        _output(F32, _dims(8, 3, 64, 64), 70_000);
        _open(0, 70_000, HALF);
        _open(1, 2, PI);
        _saved("RoundedElementwise", "add, broadcast", 0, new bytes(8));
        _operator(30, hex"01");
        _case.mode = BITS_32;
        _input(I64, _dims(64, 64));
        _output(F32, _dims(64, 64), 70);
        _open(0, 70, 12_345_678_901);
        _saved("RoundedElementwise", "cast of i64", 0, new bytes(8));
    }

    function _function(uint16 op, uint64 bits, string memory family, string memory name) private {
        _operator(op, "");
        _case.mode = BITS_26;
        _input(F32, _dims(8, 64));
        if (op == 17) _input(F32, _dims());
        _output(F32, _dims(8, 64), 99);
        _open(0, 99, bits);
        if (op == 17) _open(1, 0, HALF + 1);
        bytes memory state = _saved(family, string.concat("operands of ", name), 0, new bytes(8));
        _savedFinish(family, string.concat("finish of ", name), state, _up);
    }

    function test_functions() public {
        _function(9, PI, "Exponentials", "exp");
        _function(12, HALF, "Exponentials", "erf");
        _function(13, PI, "Exponentials", "tanh");
        _function(10, PI, "Logarithms", "log");
        _function(16, PI, "Logarithms", "log1p");
        _function(17, PI, "Logarithms", "pow");
        _function(14, PI, "Trigonometry", "sin");
        _function(11, PI, "RoundedElementwise", "rsqrt");
    }
}
