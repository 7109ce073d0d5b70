"""A document as `multihead heads --json` writes it, with random numbers from a seed."""

import random

ROLES = ["previous", "next", "self", "offset", "first", "separator", "punctuation", "parked", "local", "long_range",
         "broad", "duplicate", "induction", "rare_word"]


def score(rng, has_role):
    lift = rng.uniform(0.4, 1) if has_role else rng.uniform(-0.05, 0.3)
    return {"lift": lift, "hit": abs(lift), "eligible": 100, "interval": [lift - 0.02, lift + 0.02], "threshold": 0.4,
            "passed": has_role, "active": None}


def head(rng, layer, number, roles):
    scores = {role: score(rng, role in roles) for role in ROLES}
    scores["induction"] = None
    statistics = {"confidence": rng.random(), "distance": 9 * rng.random(), "variability": rng.random(),
                  "depends_on": "both", "value_weighted": {"confidence": rng.random()}}
    return {"layer": layer, "head": number, "role": roles[0] if roles else "unassigned", "labels": roles,
            "roles": scores, "statistics": statistics}


def compared(rng, document):
    """Adds what heads have in common, and importances."""
    heads = document["heads"]
    count = len(heads)
    for n, each in enumerate(heads):
        near = [heads[(n + k) % count] for k in (1, 2, 3)]
        each.update(importance=rng.random(), importances={"ablation_zero": rng.random(), "output_norm": rng.random()},
                    cluster=n // 2, position=[rng.gauss(0, 1), rng.gauss(0, 1)], replaceable=rng.random(),
                    nearest=[{"layer": h["layer"], "head": h["head"], "looks_alike": 0.98, "writes_alike": 0.12,
                              "cosine": -0.5} for h in near])
    pairs = [[0.0] * count for _ in heads]
    for i in range(count):
        for j in range(i, count):
            pairs[i][j] = pairs[j][i] = 1.0 if i == j else rng.random()
    document["similarity"] = {"looks_alike": pairs, "writes_alike": [[x * x for x in row] for row in pairs],
                              "cosine": [[2 * x - 1 for x in row] for row in pairs]}
    document["layers"] = [{"layer": layer, "num_heads": count, "effective_heads": 1.5, "averaging_loss": 0.5}
                          for layer in range(document["num_layers"])]
    return document


def model(layers, heads, seed=1, full=True):
    """Heads have the roles in turn: none, one, two."""
    rng = random.Random(seed)
    listed = [head(rng, layer, number, rng.sample([r for r in ROLES if r != "induction"], (layer * heads + number) % 3))
              for layer in range(layers) for number in range(heads)]
    document = {"model": "/models/small", "num_layers": layers, "text": {"segments": 64, "tokens": 8000},
                "heads": listed}
    return compared(rng, document) if full else document
