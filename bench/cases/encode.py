"""Sentences to embeddings by all-MiniLM-L6: the same token ids for all, tokenization left out."""

import pathlib
import subprocess
import sys

import numpy as np

BENCH = pathlib.Path(__file__).resolve().parent.parent


class EncodeCase:
    dtype = "f32"

    def __init__(self, words):
        self.batch_size = int(words[0])
        self.folder = pathlib.Path(subprocess.run([sys.executable, BENCH.parent / "scripts/get-model", "minilm"],
                                                  check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
        import tokenizers
        tokenizer = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_padding()
        sentences = (BENCH / "sentences.txt").read_text().splitlines()
        encoded = [tokenizer.encode(sentence).ids for sentence in sentences]
        self.num_sentences, self.d_model = len(encoded), 384
        # [(token_ids [B, S], lengths [B])], S = the longest of the batch
        self.batches = [self.pad(encoded[i:i + self.batch_size]) for i in range(0, len(encoded), self.batch_size)]
        self.expected = None

    @staticmethod
    def pad(sequences):
        lengths = np.array([len(ids) for ids in sequences], np.int64)
        token_ids = np.zeros((len(sequences), lengths.max()), np.int64)
        for row, ids in zip(token_ids, sequences):
            row[:len(ids)] = ids
        return token_ids, lengths

    @staticmethod
    def keep(token_ids, lengths):
        """int64 [B, S]: 1 = a token, 0 = padding."""
        return (np.arange(token_ids.shape[1]) < lengths[:, None]).astype(np.int64)

    def flops(self):
        """Of six layers and the tokens that count."""
        lengths = np.concatenate([lengths for _, lengths in self.batches]).astype(float)
        e = self.d_model
        return 6 * float((2 * lengths * (4 * e * e + 2 * e * 4 * e) + 4 * lengths ** 2 * e).sum())

    def onnx_file(self):
        """The model and its pooling as PyTorch exports them, with attention as one node; kept beside the build."""
        path = BENCH.parent / "build/bench/minilm-opset23.onnx"
        if not path.exists():
            import torch
            from engines.pytorch import sentence_model
            path.parent.mkdir(parents=True, exist_ok=True)
            dynamic = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("tokens", min=2, max=256)}
            example = torch.ones(3, 7, dtype=torch.int64), torch.ones(3, 7, dtype=torch.int64)
            torch.onnx.export(sentence_model(self.folder), example, path, input_names=["token_ids", "keep"],
                              output_names=["embeddings"], dynamic_shapes=(dynamic, dynamic), opset_version=23,
                              dynamo=True, verbose=False, external_data=False)
        return path

    def check(self, result):
        """Against the same model in double precision."""
        if self.expected is None:
            import torch
            from engines.pytorch import sentence_model
            model = sentence_model(self.folder).double()
            with torch.inference_mode():
                self.expected = np.concatenate([model(torch.from_numpy(ids), torch.from_numpy(self.keep(ids, lengths)))
                                                for ids, lengths in self.batches])
        error = float(np.abs(result["embeddings"] - self.expected).max())
        return error, not error <= 1e-4
