"""Which part of a ``transformers`` model is exported, and what goes in and comes out."""

from __future__ import annotations

from collections.abc import Callable

from . import torch_graph
from .errors import bad_shape
from .torch_graph import SEED, Example

DEFAULT_TOKENS = 128
"""Of a prompt, a sentence, or a cache."""
DEFAULT_IMAGE = 224
AUDIO_SAMPLES = 16_000
"""One second at the rate that speech models use."""


Chosen = Callable[[object], object]
"""The module's outputs among the model's results."""


def first(result):
    """The first tensor: exporters get only this one, because the others are seldom read."""
    return result[0]


def every(torch) -> Chosen:
    """All tensors, as a run of the model in Python computes them."""
    return lambda result: tuple(torch_graph.outputs(torch, result))


class Parts:
    """A configuration and the part of its model requested by the user."""

    def __init__(self, torch, library, config, name: str, part: str | None, chosen: Chosen) -> None:
        self.torch, self.library, self.config, self.name, self.chosen = torch, library, config, name, chosen
        dtype = getattr(config, "dtype", None)
        self.dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        """The type that the model computes in; None for the library's own."""
        auto = library.models.auto.modeling_auto
        if hasattr(config, "text_config") and hasattr(config, "vision_config"):
            halves = [half.model_type for half in (config.text_config, config.vision_config)]
            built = [kind for kind in halves if kind in auto.MODEL_MAPPING_NAMES]
            advice = f"name one, e.g. {' or '.join(built)}" if built else "export one and use --modelsource onnx"
            raise bad_shape(f"{name} joins a model of text and one of images; {advice}")
        both = bool(getattr(config, "is_encoder_decoder", False))
        # Encoders can be built as language models too, but are trained for masked tokens.
        generates = (
            config.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
            and config.model_type not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        )
        possible = ["encoder", "decoder"] if both else ["prefill", "decode"] if generates else ["model"]
        if part and part not in possible:
            raise bad_shape(
                f"{name} has no part '{part}'"
                + ("" if possible == ["model"] else f"; it has {' and '.join(f'{name}:{p}' for p in possible)}")
            )
        self.part = part or possible[0]
        # Only a decode step has a use for the keys and values that come out.
        config.use_cache = self.part == "decode"

    def model(self, checkpoint: str | None = None):
        """The module, of random weights or of a checkpoint's."""
        library = self.library
        kind = library.AutoModelForCausalLM if self.part in ("prefill", "decode") else library.AutoModel
        if checkpoint is not None:
            return kind.from_pretrained(checkpoint, config=self.config)
        return kind.from_config(self.config)

    def example(self, model, batch: int, seqlen: int | None) -> Example:
        """The exported part, with seeded inputs."""
        torch = self.torch
        torch.manual_seed(SEED)
        if self.part == "encoder":
            encoder = model.get_encoder()
            name = getattr(encoder, "main_input_name", model.main_input_name)
            return self.one_input(encoder, name, batch, seqlen)
        if self.part == "decoder":
            return self.decoder(model, batch, seqlen)
        if self.part == "decode":
            return self.decode(model, batch, seqlen)
        return self.one_input(model, model.main_input_name, batch, seqlen)

    def one_input(self, model, name: str, batch: int, seqlen: int | None) -> Example:
        """A model that reads one tensor, of this name."""
        chosen = self.chosen

        class OneInput(self.torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, data):
                return chosen(self.model(**{name: data}))

        return Example(OneInput().eval(), {name: self.data(name, batch, seqlen)})

    def data(self, name: str, batch: int, seqlen: int | None):
        """Seeded values for the main input, in the shape that the configuration says."""
        torch, config = self.torch, self.config
        if name in ("input_ids", "decoder_input_ids"):
            return self.tokens(batch, self.length(seqlen))
        if seqlen is not None and name != "input_values":
            raise bad_shape(f"{self.name} has no sequence of tokens, so --seqlen means nothing for it")
        if name == "pixel_values":
            size = getattr(config, "image_size", DEFAULT_IMAGE)
            height, width = size if isinstance(size, (list, tuple)) else (size, size)
            return torch.randn(batch, config.num_channels, height, width, dtype=self.dtype)
        if name == "input_features" and hasattr(config, "max_source_positions"):
            # The encoder halves the number of frames.
            return torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions, dtype=self.dtype)
        if name == "input_values":
            return torch.randn(batch, seqlen or AUDIO_SAMPLES, dtype=self.dtype)
        raise bad_shape(
            f"{self.name} reads '{name}', for which no shape is known; export the model and use --modelsource onnx"
        )

    def tokens(self, batch: int, length: int):
        """Seeded token numbers."""
        return self.torch.randint(0, self.config.vocab_size, (batch, length))

    def length(self, seqlen: int | None) -> int:
        """The number of tokens, which must be one that the model has positions for."""
        most = getattr(self.config, "max_position_embeddings", None)
        if seqlen is not None and most is not None and 0 < most < seqlen:
            raise bad_shape(f"sequence length {seqlen} is beyond what {self.name} allows ({most})")
        return seqlen or min(DEFAULT_TOKENS, most if most and most > 0 else DEFAULT_TOKENS)

    def decoder(self, model, batch: int, seqlen: int | None) -> Example:
        """All tokens through the decoder, which also reads the encoder's result of the same length."""
        torch = self.torch
        encoder = model.get_encoder()
        name = getattr(encoder, "main_input_name", model.main_input_name)
        seen = self.data(name, batch, seqlen if name == "input_ids" else None)
        with torch.no_grad():
            state = encoder(**{name: seen})[0]
        decoder = model.get_decoder()

        class Decoder(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.decoder = decoder

            def forward(self, input_ids, encoder_hidden_states):
                return self.decoder(input_ids=input_ids, encoder_hidden_states=encoder_hidden_states)[0]

        tokens = self.tokens(batch, self.length(seqlen))
        return Example(Decoder().eval(), {"input_ids": tokens, "encoder_hidden_states": state})

    def decode(self, model, batch: int, seqlen: int | None) -> Example:
        """One token after ``seqlen`` others, whose keys and values are inputs; the longer ones are outputs."""
        torch, cache_kind = self.torch, self.library.DynamicCache
        past = self.length(seqlen)
        most = getattr(self.config, "max_position_embeddings", None)
        if most is not None and 0 < most < past + 1:
            raise bad_shape(f"a cache of {past} tokens leaves no position for one more in {self.name} ({most})")
        with torch.no_grad():
            filled = getattr(model(input_ids=self.tokens(batch, past), use_cache=True), "past_key_values", None)
        if not isinstance(filled, cache_kind) or not all(hasattr(layer, "keys") for layer in filled.layers):
            raise bad_shape(f"{self.name} keeps another state than keys and values; only {self.name}:prefill is there")

        class Decode(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, input_ids, *past):
                cache = cache_kind()
                for index in range(len(past) // 2):
                    cache.update(past[2 * index], past[2 * index + 1], index)
                result = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
                grown = [t for layer in result.past_key_values.layers for t in (layer.keys, layer.values)]
                return (result.logits, *grown)

        inputs = {"input_ids": self.tokens(batch, 1)}
        for index, layer in enumerate(filled.layers):
            inputs[f"past_key_{index}"] = layer.keys
            inputs[f"past_value_{index}"] = layer.values
        return Example(Decode().eval(), inputs)
