// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {RuleCases} from "./RuleCases.sol";

/// @notice The gas of one step of each family as a call, including the check of shapes and attributes. Sums and
/// contractions also in their worst cases: with the most folds, and with operands that have no short path.
/// forge-config: default.isolate = true
contract RuleGasTest is RuleCases {
    // ------------------------------------------------------------------ one step

    function test_elementwise() public {
        _operator(1, "");
        _input(F32, _dims(8, 3, 64, 64));
        _input(F32, _dims(3, 1, 1));
        _output(F32, _dims(8, 3, 64, 64), 70_000);
        _open(0, 70_000, HALF);
        _open(1, 2, PI);
        _saved("Elementwise", "add, broadcast", 0, _state(2, 0));
        _operator(30, hex"02");
        _input(F32, _dims(64, 64));
        _output(I64, _dims(64, 64), 70);
        _open(0, 70, PI);
        _saved("Elementwise", "cast", 0, _state(2, 0));
        _operator(30, hex"04");
        _input(F32, _dims(64, 64));
        _output(BF16, _dims(64, 64), 70);
        _open(0, 70, PI);
        _saved("Elementwise", "cast to bf16", 0, _state(2, 0));
        _operator(31, "");
        _input(F32, _dims(64, 64));
        _input(I64, _dims(64, 64));
        _output(BF16, _dims(64, 64), 70);
        _open(0, 70, PI);
        _open(1, 70, PI);
        _saved("Elementwise", "cast_stochastic", 0, _state(2, 0));
    }

    /// @dev The largest possible cases.
    function test_worst() public {
        _operator(29, "");
        _input(3, _eight(5));
        _input(F32, _eight(5));
        _input(F32, _eight(5));
        _output(F32, _eight(5), 390_624);
        _open(0, 390_624, 1);
        _open(1, 390_624, PI);
        _open(2, 390_624, HALF);
        _saved("Elementwise", "where, worst", 0, _state(2, 0));
        _operator(74, abi.encodePacked(uint64(7)));
        for (uint256 i = 0; i < 255; ++i) {
            _input(F32, _eight(1));
        }
        uint64[] memory joined = _eight(1);
        joined[7] = 255;
        _output(F32, joined, 254);
        _open(254, 0, PI);
        _saved("Layout", "cat, worst", 0, _state(2, 0));
    }

    function _unary(uint16 op, uint64 bits, string memory family, string memory name) private {
        _operator(op, "");
        _input(F32, _dims(8, 64));
        _output(F32, _dims(8, 64), 99);
        _open(0, 99, bits);
        _saved(family, name, 0, _state(2, 0));
    }

    function test_elementary() public {
        _unary(9, PI, "Exponentials", "exp");
        _unary(12, HALF, "Exponentials", "erf");
        _unary(13, PI, "Exponentials", "tanh");
        _unary(10, PI, "Logarithms", "log");
        _unary(16, PI, "Logarithms", "log1p");
        _unary(14, PI, "Trigonometry", "sin");
        // 2^100: the reduction by pi needs many bits.
        _unary(14, 0x71800000, "Trigonometry", "sin of a large number");
        _operator(17, "");
        _input(F32, _dims(8, 64));
        _input(F32, _dims());
        _output(F32, _dims(8, 64), 99);
        _open(0, 99, PI);
        _open(1, 0, HALF + 1);
        _saved("Logarithms", "pow", 0, _state(2, 0));
    }

    function test_contractions() public {
        _product(513, HALF, PI);
        _saved("Contractions", "mm", 513, abi.encodePacked(uint32(HALF), uint32(PI)));
        _product(BF16, 513, NARROW_HALF, NARROW_PI);
        _saved("Contractions", "mm of bf16", 513, abi.encodePacked(uint32(HALF), uint32(PI)));
        // A chunk ends, so the sums are added as well, and no number is normal.
        _product(512, SUBNORMAL, SUBNORMAL);
        _saved("Contractions", "mm, worst", 512, abi.encodePacked(uint32(SUBNORMAL), uint32(SUBNORMAL)));
        _operator(52, abi.encodePacked(_window(), uint64(2)));
        _input(F32, _dims(8, 128, 28, 28));
        _input(F32, _dims(128, 64, 3, 3));
        _output(F32, _dims(8, 128, 28, 28), 100_352 + 64 * 784 + 29);
        _open(0, 100_352 + 64 * 784 + 29, HALF);
        _open(1, 64 * 576 + 4, PI);
        _saved("Contractions", "conv2d", 4, abi.encodePacked(uint32(HALF), uint32(PI)));
    }

    function test_contractionGradients() public {
        _operator(53, abi.encodePacked(_window(), uint64(2), _ints(_dims(28, 28))));
        _input(F32, _dims(8, 128, 28, 28));
        _input(F32, _dims(128, 64, 3, 3));
        _output(F32, _dims(8, 128, 28, 28), 100_352 + 64 * 784 + 29);
        _open(0, 100_352 + 64 * 784 + 29, HALF);
        _open(1, 64 * 576 + 4, PI);
        _saved("Contractions", "conv2d_input_grad", 4, abi.encodePacked(uint32(HALF), uint32(PI)));
        _operator(54, abi.encodePacked(_window(), uint64(2), _ints(_dims(3, 3))));
        _input(F32, _dims(8, 128, 28, 28));
        _input(F32, _dims(8, 128, 28, 28));
        _output(F32, _dims(128, 64, 3, 3), 64 * 576 + 4);
        _open(0, 64 * 784 + 29, HALF);
        _open(1, 64 * 784 + 29, PI);
        _saved("Contractions", "conv2d_weight_grad", 29, abi.encodePacked(uint32(HALF), uint32(PI)));
        // A chunk ends, so the sums are added as well, and no number is normal.
        delete _opened;
        _open(0, 64 * 784 + 512, SUBNORMAL);
        _open(1, 64 * 784 + 512, SUBNORMAL);
        _saved(
            "Contractions",
            "conv2d_weight_grad, worst",
            512,
            abi.encodePacked(uint32(SUBNORMAL), uint32(SUBNORMAL))
        );
    }

    function test_sums() public {
        _sum(4096, 32, PI);
        _saved("Reductions", "sum", 1, _state(6, uint32(HALF)));
        // The last lane: every fold is due.
        _sum(4096, 4095, PI);
        _saved("Reductions", "sum, end of a block", 4095, _state(6, uint32(HALF)));
        // The last step of as many elements as allowed: all lanes of three levels are folded, and no number is
        // ordinary.
        _sum(1 << 30, (1 << 30) - 1, SUBNORMAL);
        _saved("Reductions", "sum, worst", (1 << 30) - 1, _state(18, uint32(SUBNORMAL)));
    }

    function test_largest() public {
        _operator(41, abi.encodePacked(_ints(_dims(1)), uint64(1)));
        _input(F32, _dims(64, 1000));
        _output(F32, _dims(64, 1), 3);
        _open(0, 3007, PI);
        _saved("Reductions", "amax", 7, _state(2, 0));
        _operator(42, abi.encodePacked(uint64(1), uint64(0)));
        _input(F32, _dims(64, 1000));
        _output(I64, _dims(64), 3);
        _open(0, 3007, PI);
        _saved("Reductions", "argmax", 7, _state(4, 0));
        _operator(55, abi.encodePacked(_ints(_dims(3, 3)), _window()));
        _input(F32, _dims(8, 64, 112, 112));
        _output(F32, _dims(8, 64, 112, 112), 114);
        _case.outputs = abi.encodePacked(_case.outputs, _type(I64, _dims(8, 64, 112, 112)));
        _open(0, 114, PI);
        _saved("Pooling", "max_pool2d", 4, _state(4, 0));
    }

    function test_rows() public {
        _operator(60, "");
        _input(F32, _dims(50_257, 768));
        _input(I64, _dims(4, 256));
        _output(F32, _dims(4, 256, 768), 768 * 5 + 9);
        _open(1, 5, 1234);
        _open(0, 1234 * 768 + 9, PI);
        _saved("Rows", "take", 0, _state(2, 0));
        _operator(61, "");
        _input(F32, _dims(50_257, 768));
        _input(I64, _dims(4, 256));
        _input(F32, _dims(4, 256, 768));
        _output(F32, _dims(50_257, 768), 1234 * 768 + 9);
        _open(1, 5, 1234);
        _open(2, 5 * 768 + 9, PI);
        _saved("Rows", "scatter_add", 6, _state(1, uint32(HALF)));
    }

    function test_layout() public {
        _operator(71, _ints(_dims(0, 2, 1, 3)));
        _input(F32, _dims(4, 256, 12, 64));
        _output(F32, _dims(4, 12, 256, 64), 64 * 256);
        _open(0, 64, PI);
        _saved("Layout", "permute", 0, _state(2, 0));
        _operator(74, abi.encodePacked(uint64(1)));
        for (uint256 i = 0; i < 12; ++i) {
            _input(F32, _dims(256, 64));
        }
        _output(F32, _dims(256, 768), 767);
        _open(11, 63, PI);
        _saved("Layout", "cat of 12", 0, _state(2, 0));
    }

    function test_sources() public {
        _operator(82, abi.encodePacked(_ints(_dims(256, 768)), F32, uint64(7)));
        _input(I64, _dims());
        _input(I64, _dims());
        _output(F32, _dims(256, 768), 1234);
        _open(0, 0, 42);
        _open(1, 0, 3);
        _saved("Sources", "philox", 0, _state(2, 0));
    }
}
