"""Real gradients: of a small network that learns to read digits, one step after the other."""

from __future__ import annotations

import numpy as np

LAYERS = (64, 512, 512, 10)
BATCH, RATE, MOST_STEPS = 128, 0.1, 64


def digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, str]:
    """(images, labels, what they are): scikit-learn's, or random ones where it is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        images = rng.random((1797, 64), dtype=np.float32)
        return images, rng.integers(0, 10, 1797), "random images, since scikit-learn is not installed"
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels, "scikit-learn's digits"


def describe() -> str:
    return f"gradients of a network of {'-'.join(map(str, LAYERS))} units, on {digits(np.random.default_rng(0))[2]}"


def gradients(n: int, rank: int = 0, seed: int = 0) -> np.ndarray:
    """n values: the gradients of as many steps of SGD as it takes, at most 64, then the same again. Ranks draw batches of
    their own, from the same start."""
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((a, b), dtype=np.float32) * np.sqrt(2 / a) for a, b in zip(LAYERS, LAYERS[1:])]
    biases = [np.zeros(b, np.float32) for b in LAYERS[1:]]
    images, labels, _ = digits(rng)
    found: list[np.ndarray] = []
    draws = np.random.default_rng([seed, rank])
    while sum(each.size for each in found) < n and len(found) < MOST_STEPS * 2 * len(weights):
        chosen = draws.integers(0, len(images), BATCH)
        for part, step in zip((*weights, *biases), _backward(weights, biases, images[chosen], labels[chosen])):
            found.append(step.astype(np.float32).reshape(-1))
            part -= RATE * step
    return np.resize(np.concatenate(found), n) if found else np.empty(0, np.float32)


def _backward(
    weights: list[np.ndarray], biases: list[np.ndarray], x: np.ndarray, labels: np.ndarray
) -> list[np.ndarray]:
    """The gradient of the cross-entropy: of all weights, then of all biases."""
    inputs = [x]
    for w, b in zip(weights, biases):
        inputs.append(np.maximum(inputs[-1] @ w + b, 0) if w is not weights[-1] else inputs[-1] @ w + b)
    odds = np.exp(inputs[-1] - inputs[-1].max(1, keepdims=True))
    delta = odds / odds.sum(1, keepdims=True)
    delta[np.arange(len(x)), labels] -= 1
    delta /= len(x)
    of_weights, of_biases = [], []
    for w, given in zip(reversed(weights), reversed(inputs[:-1])):
        of_weights.append(given.T @ delta)
        of_biases.append(delta.sum(0))
        delta = (delta @ w.T) * (given > 0)
    return of_weights[::-1] + of_biases[::-1]
