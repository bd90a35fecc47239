#!/usr/bin/python3 -B
"""Whether all targets compute the same bits: bits.py [--models mlp,lenet] [--targets rpi4,cortex-m4] [--steps 20] [--jobs 2]

trains each model on each target that `pockc targets` lists, under its emulator, and prints a hash of the loss of every step and
of what the trainer saved after the last one, weights and the optimizer's state. Ends with 1 where one differs from this
machine's. POCKC names the compiler."""
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = f'{HERE}/../train'
POCKC = os.environ.get('POCKC', f'{HERE}/../../build/release/tools/pockc')
# The folder of its file and data, and how it is compiled.
MODELS = {
    'mlp': ('digits', ['--batch', '16', '--optimizer', 'adamw:lr=0.01', '--input-scale', '0.0625']),
    'lenet': ('lenet', ['--batch', '4', '--optimizer', 'sgd:lr=0.05,momentum=0.9']),
    'mcunet': ('mcunet', ['--batch', '1', '--optimizer', 'sgd:lr=0.01', '--input-scale', '0.00390625',
                          '--sparse-scheme', f'{HERE}/mcunet.toml']),
    'mobile': ('mobile', ['--batch', '4', '--optimizer', 'sgd:lr=0.01', '--sparse-scheme', 'expand-convs:2:0.5']),
}


def make(folder):
    """The nets that are no files, with images that are noise: what is learned does not matter here."""
    import numpy
    import onnx
    sys.path[:0] = [f'{HERE}/../../examples/cortex-m', f'{HERE}/../models']
    import digits
    import mcunet
    random = numpy.random.default_rng(0)
    for name, model, shape in ('digits', digits.model(), (96, 64)), ('mcunet', mcunet.model(0), (8, 3, 128, 128)):
        os.makedirs(f'{folder}/{name}')
        onnx.save(model, f'{folder}/{name}/model.onnx')
        numpy.save(f'{folder}/{name}/data.npy', random.integers(0, 17, shape, numpy.uint8))
        numpy.save(f'{folder}/{name}/labels.npy', random.integers(0, 10, shape[0], numpy.uint8))


def hash_of(target, model, steps, folder, sources):
    """The hash, and what went wrong where there is none."""
    net, flags = MODELS[model]
    place = f'{folder}/{target["name"]}-{model}'
    made = subprocess.run([POCKC, 'compile', f'{sources[net]}/model.onnx', '-o', place, '--target', target['name'], '--loss',
                           'cross-entropy', *flags], stderr=subprocess.PIPE, text=True)
    if made.returncode:
        return None, made.stderr
    words = ['train', '--data', f'{sources[net]}/data.npy', '--labels', f'{sources[net]}/labels.npy', '--steps', str(steps),
             '--checkpoint', f'{place}.saved', '--log', 'json']
    if target['board']:
        command = [*target['emulator'], place, '-append', ' '.join(words)]
    else:
        command = [*target['emulator'], place, *words, '--threads', '1']
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    losses = [line for line in ran.stdout.splitlines() if line.startswith('{"step"')]
    if ran.returncode or len(losses) != steps:
        return None, ran.stderr
    saved = open(f'{place}.saved', 'rb').read()
    return hashlib.sha256('\n'.join(losses).encode() + saved).hexdigest()[:12], ''


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models', default='mlp,lenet,mobile', help='there is mcunet, too')
    parser.add_argument('--targets', default='')
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    args = parser.parse_args()
    models = args.models.split(',')
    known = json.loads(subprocess.run([POCKC, 'targets', '--json'], stdout=subprocess.PIPE, check=True).stdout)
    names = args.targets.split(',') if args.targets else [t['name'] for t in known]
    targets = [t for t in known if t['name'] in {'host', *names}]
    missing = {t['emulator'][0] for t in targets if t['emulator'] and not shutil.which(t['emulator'][0])}
    if missing:
        print(f'skipped: {", ".join(sorted(missing))} is not installed')
        return 77
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        make(folder)
        sources = {net: f'{folder}/{net}' if os.path.exists(f'{folder}/{net}') else f'{NETS}/{net}'
                   for net, _ in MODELS.values()}
        running = {(t['name'], m): pool.submit(hash_of, t, m, args.steps, folder, sources) for t in targets for m in models}
        print(f'{"target":16}' + ''.join(f'{m:14}' for m in models))
        wrong = []
        for t in targets:
            row = f'{t["name"]:16}'
            for m in models:
                found, why = running[t['name'], m].result()
                row += f'{found or "failed":14}'
                if why:
                    print(why, file=sys.stderr)
                if not found or found != running['host', m].result()[0]:
                    wrong.append(f'{m} on {t["name"]}')
            print(row, flush=True)
    if wrong:
        print('not the bits of this machine: ' + ', '.join(wrong))
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
