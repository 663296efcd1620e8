"""Averages by plain decoding on the sphere of weights: shares no code with the sampler."""

from itertools import pairwise

import numpy as np
from oracle import decoded
from problems import random_nbest
from scipy.linalg import sqrtm


def random_lists(seed, *, lists=12, size=5, dimension=2, kind="loss"):
    """Features [M, D], offsets and statistics for a sum of losses, F1 or BLEU."""
    found = random_nbest(seed, lists=lists, size=size, dimension=dimension, kind=kind)
    return found.dense_features() * np.array([1.0, 7.0, 0.2, 3.0])[:dimension], found.offsets, found.statistics


def whitening(features, offsets):
    """The matrix from the sphere to weights: one over the deviation within lists, times (C + I / 10)^(-1/2)."""
    centred = np.concatenate([features[a:b] - features[a:b].mean(0) for a, b in pairwise(offsets.tolist())])
    deviation = centred.std(0)
    scaled = centred / deviation
    inverse = np.linalg.inv(np.real(sqrtm(scaled.T @ scaled / len(scaled) + 0.1 * np.eye(len(deviation)))))
    return np.diag(1 / deviation) @ inverse


def energy(metric, statistics, rows):
    """The sum of losses, or S times the loss of a ratio."""
    total = statistics[rows].sum(0)
    return metric.loss(total) * (1 if statistics.shape[1] == 1 else len(rows))


def unit(metric, features, offsets, statistics, weights):
    """The mean |difference| that the choice between two hypotheses of a list makes, by all pairs."""
    rows = decoded(features, offsets, weights)
    means = []
    for s, (begin, end) in enumerate(pairwise(offsets.tolist())):
        costs = []
        for i in range(begin, end):
            switched = rows.copy()
            switched[s] = i
            costs.append(energy(metric, statistics, switched))
        means.append(np.mean([abs(a - b) for a in costs for b in costs]))
    return float(np.mean(means))


def mean_on_circle(features, offsets, statistics, metric, density, basis, inside=lambda _: True, more=()):
    """The mean direction of weights [2], exact: between any two angles at which a choice can change.

    density: of an energy and the least of all; more: further angles on the sphere at which `inside` may change.
    """
    sphere = features @ basis
    angles = set(more)
    for begin, end in pairwise(offsets.tolist()):
        for i in range(begin, end):
            for j in range(begin, i):
                x, y = sphere[i] - sphere[j]
                angles |= {float(np.arctan2(x, -y)), float(np.arctan2(-x, y))}
    around = sorted(angles)
    pieces = []
    for a, b in pairwise([*around, around[0] + 2 * np.pi]):
        weights = basis @ np.array([np.cos((a + b) / 2), np.sin((a + b) / 2)])
        if b > a and inside(weights):
            pieces.append((a, b, energy(metric, statistics, decoded(features, offsets, weights))))
    least = min(level for _, _, level in pieces)
    mean = np.zeros(2)
    for a, b, level in pieces:
        mean += density(level, least) * np.array([np.sin(b) - np.sin(a), np.cos(a) - np.cos(b)])
    return basis @ mean


def gibbs(temperature):
    return lambda level, least: np.exp((least - level) / temperature)


def mean_on_sphere(features, offsets, statistics, metric, temperature, basis, inside, points=40_000):
    """The mean direction of weights [3] over points spread evenly (a Fibonacci lattice)."""
    k = np.arange(points) + 0.5
    z, turn = 1 - 2 * k / points, np.pi * (1 + 5**0.5) * k
    flat = np.sqrt(1 - z * z)
    sphere = np.column_stack([flat * np.cos(turn), flat * np.sin(turn), z])
    weights = sphere @ basis.T
    kept = inside(weights.T)
    sphere, weights = sphere[kept], weights[kept]
    rows = np.stack([a + np.argmax(features[a:b] @ weights.T, axis=0) for a, b in pairwise(offsets.tolist())], axis=1)
    levels = np.array([energy(metric, statistics, one) for one in rows])
    return basis @ (np.exp((levels.min() - levels) / temperature)[:, None] * sphere).sum(0)


def cosine(first, second):
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
