"""One file an engine. Each class has a name and some of the methods

    attention(case)  backward(case)  decode(case)  varlen(case)  layer(case)  encode(case)

which make everything ready and return a Call, or None where the engine has no way to do the case. Inputs are laid out
as the engine wants them before anything is timed. The constructor sets the number of threads.
"""

import dataclasses
import importlib
from typing import Callable


MOST_SCORES_BYTES = 1 << 30


def keeps_too_much(case):
    """For engines that store all scores of a call, some times over: whether one copy of them is more than 1 GiB."""
    return 4 * case.batch * case.num_heads * case.seqlen_q * case.seqlen_kv > MOST_SCORES_BYTES


@dataclasses.dataclass
class Call:
    run: Callable  # what is timed
    read: Callable = lambda result: result  # result of run -> arrays by name, in the layouts of the case


# module: classes. Classes of one module are ways of one library that are each the best at something.
PEERS = {"pytorch": ["Torch", "TorchPlain", "TorchJagged", "TorchLoop", "TorchFlex"],
         "onnx_runtime": ["OnnxRuntime", "OnnxRuntimeContrib", "OnnxRuntimeGrouped"],
         "open_vino": ["OpenVino"], "jax_xla": ["Jax"], "one_dnn": ["OneDnn"], "c_translate": ["CTranslate"],
         "open_blas": ["OpenBlas"]}


def load_peers(threads, wanted, say):
    """Objects of all wanted engines that this machine has."""
    peers = []
    for module, classes in PEERS.items():
        if wanted and module not in wanted:
            continue
        try:
            loaded = importlib.import_module(f"engines.{module}")
            peers += [getattr(loaded, name)(threads) for name in classes]
        except Exception as error:  # not installed, or not for this machine
            say(f"{module} is left out: {error}")
    return peers
