#!/usr/bin/env python3.8
"""Prints test/optim/mxnet_vectors.h: the weights that MXNet 1.9.1 computes with its own optimizers.

  python3.8 -m venv V && V/bin/pip install numpy==1.23.5 mxnet==1.9.1
  V/bin/python test/optim/mxnet_vectors.py | clang-format > test/optim/mxnet_vectors.h

Every case makes six updates of three weights. The rate is halved before the fourth one. sgld is without its noise.
"""
import mxnet as mx

mx.optimizer.optimizer.normal = lambda mean, deviation, shape, dtype, ctx: mx.nd.zeros(shape, ctx, dtype)

START = [1.0, -0.5, 0.25]
GRADIENTS = [[4.0, -2.0, 0.5], [-2.0, 1.0, 0.25], [1.0, 3.0, -4.0], [8.0, -0.5, 0.125], [-3.0, 2.0, 1.0], [0.5, -6.0, 2.0]]
SCALE = 0.125
DECAY = 0.01
# dtrain's schedule has the factor with which LBSGD multiplies the rate.
NO_FACTOR = {"warmup_strategy": "none", "warmup_epochs": 1000}
# dtrain's name, MXNet's name, rate, arguments of MXNet
RULES = [
    ("sgd", "sgd", 0.1, {"momentum": 0.9}),
    ("sgd", "sgd", 0.1, {"momentum": 0.0}),
    ("nag", "nag", 0.1, {"momentum": 0.9}),
    ("sgld", "sgld", 0.1, {}),
    ("adam", "adam", 0.001, {}),
    ("adagrad", "adagrad", 0.1, {}),
    ("rmsprop", "rmsprop", 0.001, {}),
    ("adadelta", "adadelta", 0.1, {}),
    ("ftrl", "ftrl", 0.1, {}),
    ("signum", "signum", 0.1, {"momentum": 0.9}),
    ("signum", "signum", 0.1, {"momentum": 0.0}),
    ("adamax", "adamax", 0.002, {}),
    ("adam(beta1=0.8,beta2=0.9,epsilon=0.001)", "adam", 0.001, {"beta1": 0.8, "beta2": 0.9, "epsilon": 0.001}),
    ("rmsprop(centered=1)", "rmsprop", 0.001, {"centered": True}),
    ("rmsprop(gamma1=0.8,clip_weights=0.9)", "rmsprop", 0.001, {"gamma1": 0.8, "clip_weights": 0.9}),
    ("signum(wd_lh=0.1)", "signum", 0.1, {"momentum": 0.9, "wd_lh": 0.1}),
    ("adadelta(rho=0.8)", "adadelta", 0.1, {"rho": 0.8}),
    ("ftrl(lamda1=0.1,beta=2)", "ftrl", 0.1, {"lamda1": 0.1, "beta": 2}),
    ("dcasgd", "dcasgd", 0.1, {"momentum": 0.0}),
    ("lbsgd(batch_scale=2)", "lbsgd", 0.1, {"momentum": 0.9, "batch_scale": 2, **NO_FACTOR}),
    ("lbsgd(batch_scale=4)", "lbsgd", 0.1, {"momentum": 0.0, "batch_scale": 4, **NO_FACTOR}),
    ("lbsgd(batch_scale=1,lars=1)", "lbsgd", 0.1, {"momentum": 0.9, "batch_scale": 1, "warmup_strategy": "lars"}),
    ("lbsgd(batch_scale=3,lars=1)", "lbsgd", 0.1, {"momentum": 0.9, "batch_scale": 3, "warmup_strategy": "lars"}),
]


def trace(name, rate, arguments, clip):
    if clip:
        arguments = dict(arguments, clip_gradient=clip)
    rule = mx.optimizer.create(name, learning_rate=rate, wd=DECAY, rescale_grad=SCALE, **arguments)
    weight = mx.nd.array(START)
    state = rule.create_state(0, weight)
    rows = []
    for i, gradient in enumerate(GRADIENTS):
        if i == 3:
            rule.set_learning_rate(rate / 2)
        rule.update(0, weight, mx.nd.array(gradient), state)
        rows.append(weight.asnumpy().tolist())
    return rows


print("// Weights that MXNet 1.9.1 computes; test/optim/mxnet_vectors.py wrote this file and says how.")
print("#pragma once\n\n#include <array>\n#include <string>\n#include <vector>\n")
print("namespace dtrain::optim::test {\n")
print("constexpr double kVectorScale = %r, kVectorDecay = %r;" % (SCALE, DECAY))
print("using Triple = std::array<double, 3>;")
print("const Triple kVectorStart = {%s};" % ", ".join(map(repr, START)))
print("const std::vector<Triple> kVectorGradients = {%s};" % ", ".join("{%s}" % ", ".join(map(repr, g)) for g in GRADIENTS))
print("struct Vector {\n  std::string rule;\n  double rate, momentum, clip;\n  std::vector<Triple> weights;  // after each update\n};")
print("const std::vector<Vector> kVectors = {")
for ours, name, rate, arguments in RULES:
    for clip in (0.0, 0.2):
        rows = ", ".join("{%s}" % ", ".join("%.9g" % x for x in row) for row in trace(name, rate, arguments, clip))
        print('{"%s", %r, %r, %r, {%s}},' % (ours, rate, arguments.get("momentum", 0.9), clip, rows))
print("};\n\n}  // namespace dtrain::optim::test")
