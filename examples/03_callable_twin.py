"""Any Python function can be the twin: here the network written by hand in numpy."""

import numpy as np
import torch

import twinnet

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}


def by_hand(x: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs by name, and under the module's path what a module should give."""
    hidden = x @ weights["0.weight"].T + weights["0.bias"]
    # The tanh form of GELU, where the network uses the exact one.
    active = 0.5 * hidden * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
    return {
        "output": active @ weights["2.weight"].T + weights["2.bias"],
        "0": hidden,
        "1": active.astype(np.float32),
    }


result = twinnet.check(network, torch.randn(8, 16), by_hand)
print(result)
assert [finding.site.module for finding in result.findings] == ["1"]
