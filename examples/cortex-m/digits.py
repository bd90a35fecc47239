#!/usr/bin/python3 -B
"""Handwritten digits and a net for them: digits.py FOLDER

writes model.onnx, 64-32-10 with random weights, and train.npy, train-labels.npy, test.npy, test-labels.npy: the 1797 images
of 8x8 that come with scikit-learn, bytes from 0 to 16, of which every fifth is for testing."""
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(sizes=(64, 32, 10)):
    random = numpy.random.default_rng(0)
    nodes, weights, x = [], [], 'x'
    for i, (rows, columns) in enumerate(zip(sizes, sizes[1:]), 1):
        w = random.normal(0, (2 / rows) ** 0.5, (rows, columns)).astype(numpy.float32)
        weights += [numpy_helper.from_array(w, f'fc{i}.weight'),
                    numpy_helper.from_array(numpy.zeros(columns, numpy.float32), f'fc{i}.bias')]
        last = i == len(sizes) - 1
        y = 'scores' if last else f'h{i}'
        nodes.append(helper.make_node('Gemm', [x, f'fc{i}.weight', f'fc{i}.bias'], [y], name=f'fc{i}'))
        if not last:
            nodes.append(helper.make_node('Relu', [y], [f'r{i}'], name=f'relu{i}'))
        x = f'r{i}'
    graph = helper.make_graph(
        nodes, 'digits', [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['N', sizes[0]])],
        [helper.make_tensor_value_info('scores', TensorProto.FLOAT, ['N', sizes[-1]])], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13)])
    made.ir_version = 8
    return made


def write(folder):
    from sklearn.datasets import load_digits
    onnx.save(model(), f'{folder}/model.onnx')
    images, labels = load_digits(return_X_y=True)
    images, labels = images.astype(numpy.uint8), labels.astype(numpy.uint8)
    tested = numpy.arange(len(images)) % 5 == 0
    for name, chosen in ('train', ~tested), ('test', tested):
        numpy.save(f'{folder}/{name}.npy', images[chosen])
        numpy.save(f'{folder}/{name}-labels.npy', labels[chosen])


if __name__ == '__main__':
    write(sys.argv[1])
