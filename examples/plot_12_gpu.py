"""
On a GPU
========

``engine="torch"`` runs pursuit, sums and learning in torch: with special kernels on a GPU, and with
plain torch on any other device. Needs ``pip install 'dynpart[gpu]'``.
"""

# %%
# Tensors in, tensors out
# -----------------------

import torch

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_bars

device = "cuda" if torch.cuda.is_available() else "cpu"
bars = make_bars(5, 600, random_state=0)
X = torch.as_tensor(bars, dtype=torch.uint8, device=device)

model = DynamicPartitionModel(12, random_state=0)
if device == "cuda":  # on a CPU the compiled engine learns faster than torch
    model.set_params(engine="torch", device=device)
model = model.fit(X if device == "cuda" else bars)

# %%
# Codes of tensors are tensors on the same device.

model.set_params(engine="torch", device=device)
codes = model.transform(X)
print(f"on {device}: {type(codes).__name__} of shape {tuple(codes.shape)} on {codes.device}")

# %%
# The same codes as the CPU engine
# --------------------------------
# All engines follow one specification: for the same experts they find the same codes.

model.set_params(engine="cpu", device=None)
same = (model.transform(bars) == codes.cpu().numpy()).all()
print(f"equal to the codes of the CPU engine: {bool(same)}")
