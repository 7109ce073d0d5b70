"""Writes rope_scalings.json: the rotary frequencies of transformers for each scaling.

    python3 tests/golden/rope_scalings.py > tests/golden/data/rope_scalings.json

transformers computes them in f32.
"""
import json
import sys

import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

TRAINED = 2048
CASES = [
    {"scaling": "linear", "factor": 4.0},
    {"scaling": "dynamic", "factor": 2.0, "seqlen": 5000},
    {"scaling": "dynamic", "factor": 2.0, "seqlen": 1000},
    {"scaling": "yarn", "factor": 8.0},
    {"scaling": "yarn", "factor": 40.0, "attention_factor": 0.75, "beta_fast": 16.0, "beta_slow": 2.0},
    {"scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {"scaling": "llama3", "factor": 3.0, "low_freq_factor": 2.0, "high_freq_factor": 16.0},
]


def golden(case):
    base, head_dim = (500000.0, 128) if case["scaling"] == "llama3" else (10000.0, 64)
    parameters = {k: v for k, v in case.items() if k not in ("scaling", "seqlen")}
    parameters |= {"rope_type": case["scaling"], "rope_theta": base, "original_max_position_embeddings": TRAINED}
    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim,
                         max_position_embeddings=TRAINED, rope_parameters=parameters)
    inv_freq, attention_factor = ROPE_INIT_FUNCTIONS[case["scaling"]](config, "cpu", seq_len=case.get("seqlen"))
    return case | {"base": base, "head_dim": head_dim, "inv_freq": inv_freq.tolist(), "result": attention_factor}


if __name__ == "__main__":
    json.dump({"made_by": "tests/golden/rope_scalings.py", "transformers": transformers.__version__,
               "original_max_position": TRAINED, "cases": [golden(case) for case in CASES]}, sys.stdout,
              separators=(",", ":"))
    print()
