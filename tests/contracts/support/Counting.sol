// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {AccessKind, AccountAccess, Base, WordAccess} from "../Base.t.sol";

/// @title Counting
/// @notice What a transaction leaves in the state: words of storage that are new, overwritten or cleared, accounts and
/// bytes of code that are new; with its calldata and its value. referee_py/gas_schedule.py prices them.
abstract contract Counting is Base {
    struct Word {
        address account;
        bytes32 slot;
        bytes32 first;
        bytes32 last;
    }

    /// @dev The words that the present transaction has written, and their places in the list plus one.
    Word[] private _written;
    mapping(bytes32 transaction => mapping(address account => mapping(bytes32 slot => uint256))) private
        _place;

    /// @dev Begins a transaction. NOTE: while accesses are recorded words stay warm from one transaction to the next,
    /// so gas is measured without.
    function record() internal {
        vm.startStateDiffRecording();
    }

    /// @dev Writes down what has happened since `record`: one transaction, and calls of views.
    function counted(string memory group, string memory name) internal {
        AccountAccess[] memory accesses = vm.stopAndReturnStateDiff();
        delete _written;
        bytes32 key = keccak256(abi.encode(group, name));
        (uint256 accounts, uint256 code, uint256 top) = (0, 0, type(uint256).max);
        for (uint256 i = 0; i < accesses.length; ++i) {
            AccountAccess memory access = accesses[i];
            if (top == type(uint256).max && access.kind == AccessKind.Call && access.accessor != address(vm))
            {
                top = i;
            }
            if (access.reverted) continue;
            bool paid = access.kind == AccessKind.Call && access.value > 0 && !access.initialized;
            if (access.kind == AccessKind.Create || paid) ++accounts;
            if (access.kind == AccessKind.Create) code += access.deployedCode.length;
            _note(key, access.words);
        }
        uint256[3] memory words;
        for (uint256 i = 0; i < _written.length; ++i) {
            (bytes32 first, bytes32 last) = (_written[i].first, _written[i].last);
            if (first == last) continue;
            ++words[first == 0 ? 0 : last == 0 ? 2 : 1];
        }
        string memory prefix = string.concat(name, " | ");
        vm.snapshotValue(group, string.concat(prefix, "new"), words[0]);
        vm.snapshotValue(group, string.concat(prefix, "overwritten"), words[1]);
        vm.snapshotValue(group, string.concat(prefix, "cleared"), words[2]);
        vm.snapshotValue(group, string.concat(prefix, "accounts"), accounts);
        vm.snapshotValue(group, string.concat(prefix, "code"), code);
        vm.snapshotValue(group, string.concat(prefix, "bytes"), accesses[top].data.length);
        vm.snapshotValue(group, string.concat(prefix, "value"), accesses[top].value > 0 ? 1 : 0);
    }

    function _note(bytes32 key, WordAccess[] memory words) private {
        for (uint256 i = 0; i < words.length; ++i) {
            WordAccess memory word = words[i];
            if (!word.isWrite || word.reverted) continue;
            uint256 place = _place[key][word.account][word.slot];
            if (place == 0) {
                _written.push(Word(word.account, word.slot, word.previousValue, word.newValue));
                _place[key][word.account][word.slot] = _written.length;
            } else {
                _written[place - 1].last = word.newValue;
            }
        }
    }
}
