"""CTranslate2: its encoder of the converted checkpoint; the mean over tokens is NumPy's."""

import shutil

import ctranslate2
import numpy as np

from engines import Call


class CTranslate:
    name = "ctranslate2"

    def __init__(self, threads):
        self.threads = threads

    def encode(self, case):
        folder = case.onnx_file().parent / "minilm-ctranslate2"
        if not (folder / "model.bin").exists():
            shutil.rmtree(folder, ignore_errors=True)
            ctranslate2.converters.TransformersConverter(str(case.folder)).convert(str(folder))
        encoder = ctranslate2.Encoder(str(folder), compute_type="float32", intra_threads=self.threads)
        batches = [[ids[:n].tolist() for ids, n in zip(token_ids, lengths)] for token_ids, lengths in case.batches]
        masks = [case.keep(*batch)[..., None] for batch in case.batches]

        def run():
            parts = []
            for batch, keep in zip(batches, masks):
                hidden = np.asarray(encoder.forward_batch(batch).last_hidden_state)
                sums = (hidden * keep).sum(1)  # its length does not matter: the result has length 1
                parts.append(sums / np.linalg.norm(sums, axis=-1, keepdims=True))
            return parts

        return Call(run, lambda r: {"embeddings": np.concatenate(r)})
