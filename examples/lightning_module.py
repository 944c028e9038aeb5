"""A LightningModule of your own, trained over a distribution of losses: VSLoss and the polynomial head.

    python examples/lightning_module.py

The backbone, the optimiser and the loop stay yours. Each batch draws one λ; afterwards the dial is asked.
"""

import pytorch_lightning as pl
import torch
from sklearn.datasets import make_classification
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lossdial import ConditionalClassifier, Dial, PolynomialConfig, VSLoss


class Conditional(pl.LightningModule):
    """Any backbone, told λ in its last layer only."""

    def __init__(self, backbone: nn.Module, n_features: int, beta: float) -> None:
        super().__init__()
        self.loss = VSLoss(beta)
        self.space = self.loss.default_space()
        self.model = ConditionalClassifier(backbone, n_features, self.space, PolynomialConfig(degree=2))
        self.draws = torch.Generator().manual_seed(0)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        x, y = batch
        lam = self.space.sample((), self.draws)  # one λ for the batch
        return self.loss(self.model(x, lam), y, lam)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> float:
    pl.seed_everything(0, verbose=False)
    X, y = make_classification(6000, 12, n_informative=6, weights=[0.95], random_state=0)
    x, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    train, held_out = slice(0, 4000), slice(4000, None)
    beta = float((labels[train] == 0).sum() / (labels[train] == 1).sum())
    module = Conditional(nn.Sequential(nn.Linear(12, 32), nn.ReLU()), n_features=32, beta=beta)
    loader = DataLoader(TensorDataset(x[train], labels[train]), batch_size=128, shuffle=True)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(max_epochs=5, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(module, loader)

    lams = module.space.even_grid(11)
    scores = module.model.margins(module.model.embed(x[held_out]), lams).detach().numpy()
    dial = Dial(y[held_out], scores, [lam.as_dict() for lam in lams])
    point = dial.tune(maximize="precision", subject_to={"recall": 0.8})
    print(point)
    return point.metrics["recall"].value


if __name__ == "__main__":
    main()
