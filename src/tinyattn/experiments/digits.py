"""Encoder only: which digit is on a small picture, read row by row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.data import digits
from tinyattn.training import seeded, train
from tinyattn.transformer import Encoder, Sinusoidal, TransformerConfig
from tinyattn.transformer.generate import evaluating

BAR = 0.97  # mean accuracy over the seeds
N_TEST = 450


@dataclass(frozen=True)
class DigitsConfig:
    """What is trained and for how long.

    Args:
        patch: height and width of a patch in pixels, each a divisor of 8.
        d_model: width of a token vector.
        n_heads: heads in each attention.
        n_layers: encoder layers.
        batch_size: pictures in a step.
        steps: how many steps.
        lr: highest learning rate.
        noise: standard deviation of what is added to pixels (0 … 1) in training.
    """

    patch: tuple[int, int] = (1, 8)
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    batch_size: int = 64
    steps: int = 700
    lr: float = 3e-3
    noise: float = 0.1


class DigitClassifier(nn.Module):
    """Patches become token vectors, an encoder mixes them, their mean is classified."""

    def __init__(self, config: DigitsConfig) -> None:
        super().__init__()
        height, width = config.patch
        if height < 1 or width < 1 or 8 % height or 8 % width:
            raise ValueError(f"patch must divide the 8 pixels of a side, got {config.patch}")
        self.patch = config.patch
        self.embed = nn.Linear(height * width, config.d_model)
        self.encoder = Encoder(
            TransformerConfig(
                vocab_size=1,  # tokens are vectors here
                d_model=config.d_model,
                n_heads=config.n_heads,
                d_ff=2 * config.d_model,
                n_layers=config.n_layers,
                positions=Sinusoidal,
            )
        )
        self.classify = nn.Linear(config.d_model, 10)

    def forward(self, images: Float[Tensor, "b 8 8"]) -> Float[Tensor, "b 10"]:
        return self.classify(self.encoder(self.embed(patches(images, self.patch))).mean(dim=1))


def patches(images: Float[Tensor, "b 8 8"], patch: tuple[int, int]) -> Float[Tensor, "b n d_patch"]:
    """The patches of each picture, row by row, each as a list of its pixels.

    Example:
        >>> patches(torch.arange(64.0).view(1, 8, 8), (4, 4))[0, 1, :5]
        tensor([ 4.,  5.,  6.,  7., 12.])
    """
    height, width = patch
    grid = images.unflatten(1, (-1, height)).unflatten(3, (-1, width))
    return grid.transpose(2, 3).flatten(3).flatten(1, 2)  # (b, rows, columns, height, width)


def split() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pixels from 0 to 1 and labels: to train on, and to test on."""
    images, labels = digits()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, rest = order[:N_TEST], order[N_TEST:]
    return images[rest] / 16, labels[rest], images[test] / 16, labels[test]


def shifted(images: Float[Tensor, "b 8 8"], generator: torch.Generator) -> Float[Tensor, "b 8 8"]:
    """Each picture moved by at most one pixel in each direction; paper comes in at the edge."""
    b = len(images)
    down, right = torch.randint(0, 3, (2, b, 1, 1), generator=generator)
    at = torch.arange(8)
    padded = F.pad(images, (1, 1, 1, 1))
    return padded[torch.arange(b)[:, None, None], down + at[:, None], right + at]


def build(config: DigitsConfig, seed: int) -> DigitClassifier:
    """The untrained model of a seed."""
    with seeded(seed):
        return DigitClassifier(config)


def fit(model: DigitClassifier, config: DigitsConfig, seed: int) -> list[float]:
    """Train on pictures that are moved a little and made noisy, differently each time."""
    images, labels, _, _ = split()

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        chosen = torch.randint(len(labels), (config.batch_size,), generator=generator)
        batch = shifted(images[chosen], generator)
        batch = batch + config.noise * torch.randn(batch.shape, generator=generator)
        return F.cross_entropy(model(batch), labels[chosen])

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label="digits")


def predict(model: nn.Module, images: Float[Tensor, "b 8 8"]) -> Int64[Tensor, "b"]:
    """The likeliest digit of each picture."""
    with evaluating(model):
        return model(images).argmax(dim=-1)


def accuracy(model: nn.Module) -> float:
    """Share of the test pictures that are named rightly."""
    _, _, images, labels = split()
    return float((predict(model, images) == labels).double().mean())


def baselines() -> dict[str, float]:
    """Test accuracies of logistic regression on pixels and of the nearest neighbour."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    images, labels, test_images, test_labels = (
        part.flatten(1) if part.dim() > 1 else part for part in split()
    )
    models = {
        "logistic regression": LogisticRegression(max_iter=1000),
        "1-nearest neighbour": KNeighborsClassifier(n_neighbors=1),
    }
    return {
        name: float(
            model.fit(images.numpy(), labels.numpy()).score(
                test_images.numpy(), test_labels.numpy()
            )
        )
        for name, model in models.items()
    }
