"""Architectures of transformers with tiny configurations and random weights: what kinds of models meet the compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Inputs = dict[str, torch.Tensor]

TEXT = {"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
ROTARY = {**TEXT, "max_position_embeddings": 64, "num_key_value_heads": 2, "pad_token_id": 0}


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A model of `kind`, and inputs of a batch size and a sequence length (or 0 where the size is fixed)."""

    name: str
    kind: str
    make: Callable[[], nn.Module]
    make_inputs: Callable[[int, int], Inputs]
    dynamic: bool = True
    """The length of the sequence may change from call to call."""
    float64: bool = True
    """It runs in float64, which judges the gradients; else eager's do."""
    breaks: int = 0
    """Graph breaks that the model itself asks for."""

    def build(self) -> nn.Module:
        torch.manual_seed(0)
        return self.make()

    def inputs(self, batch: int = 2, length: int = 12) -> Inputs:
        torch.manual_seed(1)
        return self.make_inputs(batch, length)


def _tokens(batch: int, length: int) -> Inputs:
    return {"input_ids": torch.randint(3, 128, (batch, length)), "use_cache": False}  # type: ignore[dict-item]


def _plain_tokens(batch: int, length: int) -> Inputs:
    return {"input_ids": torch.randint(3, 128, (batch, length))}


def _pairs(batch: int, length: int) -> Inputs:
    return {
        "input_ids": torch.randint(3, 128, (batch, length)),
        "decoder_input_ids": torch.randint(3, 128, (batch, length // 2 + 1)),
        "use_cache": False,  # type: ignore[dict-item]
    }


def _images(size: int) -> Callable[[int, int], Inputs]:
    return lambda batch, length: {"pixel_values": torch.randn(batch, 3, size, size)}


def _model(class_name: str, config_name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        config = getattr(transformers, config_name)(**settings)
        config._attn_implementation = "sdpa"
        try:
            model: nn.Module = getattr(transformers, class_name)(config)
        except ValueError:  # no sdpa for this architecture
            config._attn_implementation = "eager"
            model = getattr(transformers, class_name)(config)
        return model

    return make


def _text(name: str, kind: str, class_name: str, config: str, float64: bool = True, **settings: Any) -> Architecture:
    inputs = _plain_tokens if kind == "encoder" else _tokens
    return Architecture(name, kind, _model(class_name, config, **settings), inputs, float64=float64)


_ENCODER_DECODER = {
    "vocab_size": 128,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}

ARCHITECTURES = [
    _text(
        "roberta", "encoder", "RobertaForMaskedLM", "RobertaConfig", **TEXT, max_position_embeddings=80, **_NO_DROPOUT
    ),
    _text(
        "albert",
        "encoder",
        "AlbertForMaskedLM",
        "AlbertConfig",
        **TEXT,
        embedding_size=16,
        max_position_embeddings=64,
        **_NO_DROPOUT,
    ),
    _text(
        "electra",
        "encoder",
        "ElectraForMaskedLM",
        "ElectraConfig",
        **TEXT,
        embedding_size=16,
        max_position_embeddings=64,
        **_NO_DROPOUT,
    ),
    _text(
        "distilbert",
        "encoder",
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        vocab_size=128,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
        max_position_embeddings=64,
        dropout=0.0,
        attention_dropout=0.0,
    ),
    _text(
        "deberta_v2",
        "encoder",
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        **TEXT,
        max_position_embeddings=64,
        relative_attention=True,
        position_buckets=8,
        pos_att_type=["p2c", "c2p"],
        **_NO_DROPOUT,
    ),
    _text("qwen2", "decoder", "Qwen2ForCausalLM", "Qwen2Config", **ROTARY),
    _text("gemma", "decoder", "GemmaForCausalLM", "GemmaConfig", **ROTARY, head_dim=8),
    _text("phi", "decoder", "PhiForCausalLM", "PhiConfig", **ROTARY),
    _text(
        "opt",
        "decoder",
        "OPTForCausalLM",
        "OPTConfig",
        vocab_size=128,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        max_position_embeddings=64,
        word_embed_proj_dim=32,
        dropout=0.0,
        attention_dropout=0.0,
    ),
    _text("gpt_neox", "decoder", "GPTNeoXForCausalLM", "GPTNeoXConfig", **TEXT, max_position_embeddings=64),
    _text(
        "bloom",
        "decoder",
        "BloomForCausalLM",
        "BloomConfig",
        vocab_size=128,
        hidden_size=32,
        n_layer=2,
        n_head=4,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    ),
    _text(
        "mixtral",
        "mixture of experts",
        "MixtralForCausalLM",
        "MixtralConfig",
        float64=False,
        **ROTARY,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    _text(
        "mamba",
        "state space",
        "MambaForCausalLM",
        "MambaConfig",
        vocab_size=128,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=4,
        use_mambapy=False,
    ),
    Architecture(
        "t5",
        "encoder and decoder",
        _model(
            "T5ForConditionalGeneration",
            "T5Config",
            vocab_size=128,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
        ),
        _pairs,
    ),
    Architecture(
        "bart", "encoder and decoder", _model("BartForConditionalGeneration", "BartConfig", **_ENCODER_DECODER), _pairs
    ),
    Architecture(
        "whisper",
        "audio",
        _model(
            "WhisperForConditionalGeneration",
            "WhisperConfig",
            **{k: v for k, v in _ENCODER_DECODER.items() if k != "max_position_embeddings"},
            num_mel_bins=8,
            max_source_positions=16,
            max_target_positions=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            suppress_tokens=[],
            begin_suppress_tokens=[],
        ),
        lambda batch, length: {
            "input_features": torch.randn(batch, 8, 32),
            "decoder_input_ids": torch.randint(3, 128, (batch, 6)),
            "use_cache": False,
        },
        dynamic=False,
    ),
    Architecture(
        "wav2vec2",
        "audio",
        _model(
            "Wav2Vec2Model",
            "Wav2Vec2Config",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            conv_dim=(16, 16),
            conv_stride=(5, 2),
            conv_kernel=(10, 3),
            num_feat_extract_layers=2,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            feat_proj_dropout=0.0,
            activation_dropout=0.0,
            layerdrop=0.0,
            mask_time_prob=0.0,
            apply_spec_augment=False,
        ),
        lambda batch, length: {"input_values": torch.randn(batch, 400)},
        dynamic=False,
    ),
    Architecture(
        "vit",
        "vision",
        _model("ViTForImageClassification", "ViTConfig", **_VISION, **_NO_DROPOUT),
        _images(32),
        dynamic=False,
    ),
    Architecture(
        "swin",
        "vision",
        _model(
            "SwinForImageClassification",
            "SwinConfig",
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[1, 1],
            num_heads=[2, 4],
            window_size=4,
            drop_path_rate=0.0,
            **_NO_DROPOUT,
        ),
        _images(32),
        dynamic=False,
    ),
    Architecture(
        "convnext",
        "vision",
        _model(
            "ConvNextForImageClassification",
            "ConvNextConfig",
            hidden_sizes=[16, 32],
            depths=[1, 1],
            num_stages=2,
            image_size=32,
        ),
        _images(32),
        dynamic=False,
    ),
    Architecture(
        "resnet",
        "vision",
        _model(
            "ResNetForImageClassification",
            "ResNetConfig",
            embedding_size=16,
            hidden_sizes=[16, 32],
            depths=[1, 1],
            layer_type="basic",
        ),
        _images(32),
        dynamic=False,
    ),
    Architecture(
        "clip",
        "vision and text",
        _model(
            "CLIPModel",
            "CLIPConfig",
            text_config={
                **TEXT,
                "max_position_embeddings": 32,
                "bos_token_id": 1,
                "eos_token_id": 2,
                "pad_token_id": 0,
            },
            vision_config=_VISION,
            projection_dim=16,
        ),
        lambda batch, length: {
            "input_ids": torch.randint(3, 128, (batch, 8)),
            "pixel_values": torch.randn(batch, 3, 32, 32),
        },
        dynamic=False,
    ),
]
BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}
