#!/usr/bin/python3 -B
"""Digits are learned from scratch on an emulated STM32F405, in its 128 KiB of RAM: the accuracy, and the memory that was used
beside what pockc said. The emulator's board has more RAM behind, which is the guard: painted like the stack. And the code of
a library for them is small."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

try:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../examples/cortex-m'))
    import digits
    import sklearn  # noqa: F401
except ImportError as e:
    print(f'skipped: {e} (Debian: python3-onnx python3-sklearn)')
    sys.exit(77)
if not shutil.which('qemu-system-arm'):
    print('skipped: qemu-system-arm is not installed')
    sys.exit(77)
import elf
import gdb

POCKC = os.environ['POCKC']
RAM, RAM_BYTES, GUARD_BYTES = 0x20000000, 128 << 10, 64 << 10
EMULATOR = ('qemu-system-arm -M netduinoplus2 -display none -monitor none -serial none '
            '-semihosting-config enable=on,target=native -kernel').split()
PAINT = 0xA5
LIMIT = 512  # bytes of the stack that may be said and not used
CODE = 12 << 10  # bytes of a library's code: training, prediction, and checkpoints in slots


def table(text):
    rows = dict(re.findall(r'^  (.+?)  +(\d+)(?: of \d+)?$', text, re.MULTILINE))
    return {name: int(bytes) for name, bytes in rows.items()}


def library():
    subprocess.run([POCKC, 'compile', 'model.onnx', '--target', 'cortex-m4', '--emit', 'lib', '-o', 'digits', '--batch', '16',
                    '--loss', 'cross-entropy', '--optimizer', 'sgd:lr=0.02', '--input-scale', '0.0625'],
                   stderr=subprocess.DEVNULL, check=True)
    called = [word for name in ('init', 'step', 'predict', 'store', 'restore') for word in ('-u', f'digits_{name}')]
    subprocess.run(['ld.lld-19', '-m', 'armelf', '--gc-sections', '-e', '0', *called, '-o', 'linked', 'libdigits.a'], check=True)
    code, constants = elf.code_and_constants('linked')
    print(f'library: {code} bytes of code, {constants - elf.symbols("linked")["digits_pock_weights"][1]} of tables')
    assert code <= CODE


def board(folder):
    compiled = subprocess.run(
        [POCKC, 'compile', 'model.onnx', '--target', 'cortex-m4', '--board', 'stm32f405', '-o', 'digits.elf', '--batch', '16',
         '--loss', 'cross-entropy', '--optimizer', 'sgd:lr=0.02,momentum=0.9', '--input-scale', '0.0625'],
        stderr=subprocess.PIPE, text=True, check=True).stderr
    said, names = table(compiled), elf.symbols('digits.elf')
    print(compiled[compiled.index('memory of'):])

    machine = gdb.Board(EMULATOR, 'digits.elf',
                      'train --data train.npy --labels train-labels.npy --eval-data test.npy --eval-labels test-labels.npy '
                      '--epochs 12 --checkpoint learned --log json', f'{folder}/gdb')
    machine.fill(RAM, RAM + RAM_BYTES + GUARD_BYTES, PAINT)
    machine.run_to(names['pock_exit'][0])
    top = names['pock_stack_top'][0]
    stack = machine.read(RAM, top)
    guard = machine.read(RAM + RAM_BYTES, RAM + RAM_BYTES + GUARD_BYTES)
    status, out, err = machine.finish()
    assert status == 0, err
    assert set(guard) == {PAINT}, 'something was written above the RAM'

    used = len(stack.lstrip(bytes([PAINT])))
    print(f'stack: {said["RAM: stack, at its deepest"]} said, {used} used')
    assert used <= said['RAM: stack, at its deepest'] <= used + LIMIT
    assert said['RAM: stack, at its deepest'] == top - RAM
    for row, name in (('RAM: arena', 'pock_arena'), ('RAM: trained parameters', 'pock_params'),
                      ('RAM: optimizer state', 'pock_state')):
        assert said[row] == names[name][1], (row, names[name])
    fixed = sum(said[row] for row in ('RAM: static data', 'RAM: arena', 'RAM: trained parameters', 'RAM: optimizer state'))
    assert fixed == names['pock_bss_end'][0] - top
    assert said['RAM in all'] == names['pock_heap_begin'][0] - RAM
    assert said['flash in all'] == os.path.getsize('digits.bin')

    score = [json.loads(line) for line in out.splitlines() if line.startswith('{"eval"')][-1]
    print('accuracy of the test images:', score['accuracy'])
    assert score['accuracy'] >= 0.95


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        digits.write(folder)
        os.chdir(folder)
        library()
        board(folder)
