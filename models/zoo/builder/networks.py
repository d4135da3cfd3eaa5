"""Networks that no library defines in the form the zoo wants.

Owns hand-written torch modules (mlp, recurrent classifiers, yolov3-tiny, yolov5n) and thin wrappers that
drive a library's own layers (BERT) or restate one of them (ViT attention). Wrappers are checked
against the library's model by verify.py, so they may differ in form but not in result.
"""

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    """784-128-64-10 perceptron on a 28x28 image, the classic of framework test suites."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, data):
        hidden = functional.relu(self.fc1(data.flatten(1)))
        hidden = functional.relu(self.fc2(hidden))
        return functional.softmax(self.fc3(hidden), dim=1)


class RecurrentClassifier(nn.Module):
    """Two recurrent layers over [batch, seq, 128], then a classifier on the last step."""

    FEATURES = 128
    HIDDEN = 256
    LAYERS = 2
    CLASSES = 10

    def __init__(self, cell):
        super().__init__()
        self.cell = cell(self.FEATURES, self.HIDDEN, self.LAYERS, batch_first=True)
        self.fc = nn.Linear(self.HIDDEN, self.CLASSES)

    def forward(self, data):
        steps, _ = self.cell(data)
        return self.fc(steps[:, -1])


class DarknetConv(nn.Module):
    """A `[convolutional]` section with batch_normalize=1 and activation=leaky (slope 0.1)."""

    def __init__(self, channels_in, channels_out, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(channels_out)

    def forward(self, data):
        return functional.leaky_relu(self.bn(self.conv(data)), 0.1)


class Yolov3Tiny(nn.Module):
    """The layers of darknet's cfg/yolov3-tiny.cfg up to the inputs of its two `[yolo]` layers.

    Decoding boxes from those is post-processing and left out, as in other exports of this network.
    """

    ANCHORS = 3
    CLASSES = 80

    def __init__(self):
        super().__init__()
        head = self.ANCHORS * (5 + self.CLASSES)
        # The number in each name is the section's index in the cfg file.
        self.layer0 = DarknetConv(3, 16, 3)
        self.layer2 = DarknetConv(16, 32, 3)
        self.layer4 = DarknetConv(32, 64, 3)
        self.layer6 = DarknetConv(64, 128, 3)
        self.layer8 = DarknetConv(128, 256, 3)
        self.layer10 = DarknetConv(256, 512, 3)
        self.layer12 = DarknetConv(512, 1024, 3)
        self.layer13 = DarknetConv(1024, 256, 1)
        self.layer14 = DarknetConv(256, 512, 3)
        self.layer15 = nn.Conv2d(512, head, 1)
        self.layer18 = DarknetConv(256, 128, 1)
        self.layer21 = DarknetConv(384, 256, 3)
        self.layer22 = nn.Conv2d(256, head, 1)

    def forward(self, data):
        x = functional.max_pool2d(self.layer0(data), 2, 2)
        x = functional.max_pool2d(self.layer2(x), 2, 2)
        x = functional.max_pool2d(self.layer4(x), 2, 2)
        x = functional.max_pool2d(self.layer6(x), 2, 2)
        route8 = self.layer8(x)
        x = functional.max_pool2d(route8, 2, 2)
        x = self.layer10(x)
        # Darknet's stride-1 pooling pads right and below, and padding never wins the maximum.
        x = functional.pad(x, (0, 1, 0, 1), value=float("-inf"))
        x = self.layer12(functional.max_pool2d(x, 2, 1))
        route13 = self.layer13(x)
        yolo16 = self.layer15(self.layer14(route13))
        x = functional.interpolate(self.layer18(route13), scale_factor=2.0, mode="nearest")
        yolo23 = self.layer22(self.layer21(torch.cat([x, route8], dim=1)))
        return yolo16, yolo23


class SiluConv(nn.Module):
    """A convolution without bias, batch norm with YOLOv5's epsilon, SiLU."""

    def __init__(self, channels_in, channels_out, kernel, stride=1, padding=None):
        super().__init__()
        padding = kernel // 2 if padding is None else padding
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(channels_out, eps=1e-3)

    def forward(self, data):
        return functional.silu(self.bn(self.conv(data)))


class Bottleneck(nn.Module):
    """A 1x1 and a 3x3 convolution of the same width, their input added on request."""

    def __init__(self, channels, shortcut):
        super().__init__()
        self.cv1 = SiluConv(channels, channels, 1)
        self.cv2 = SiluConv(channels, channels, 3)
        self.shortcut = shortcut

    def forward(self, data):
        result = self.cv2(self.cv1(data))
        return data + result if self.shortcut else result


class CrossStage(nn.Module):
    """YOLOv5's C3: half of the channels pass through bottlenecks, the other half past them."""

    def __init__(self, channels_in, channels_out, repeats=1, shortcut=False):
        super().__init__()
        half = channels_out // 2
        self.cv1 = SiluConv(channels_in, half, 1)
        self.cv2 = SiluConv(channels_in, half, 1)
        self.cv3 = SiluConv(2 * half, channels_out, 1)
        self.m = nn.Sequential(*(Bottleneck(half, shortcut) for _ in range(repeats)))

    def forward(self, data):
        return self.cv3(torch.cat([self.m(self.cv1(data)), self.cv2(data)], dim=1))


class PooledPyramid(nn.Module):
    """YOLOv5's SPPF: three 5x5 maxima in a row, all of them and their input side by side."""

    def __init__(self, channels):
        super().__init__()
        self.cv1 = SiluConv(channels, channels // 2, 1)
        self.cv2 = SiluConv(2 * channels, channels, 1)

    def forward(self, data):
        parts = [self.cv1(data)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.cv2(torch.cat(parts, dim=1))


class Yolov5n(nn.Module):
    """YOLOv5n of release 6 (depth 0.33, width 0.25) up to the three maps that boxes are decoded from."""

    ANCHORS = 3
    CLASSES = 80

    def __init__(self):
        super().__init__()
        head = self.ANCHORS * (5 + self.CLASSES)
        # The number in each name is the layer's index in the published configuration.
        self.layer0 = SiluConv(3, 16, 6, 2, 2)
        self.layer1 = SiluConv(16, 32, 3, 2)
        self.layer2 = CrossStage(32, 32, 1, shortcut=True)
        self.layer3 = SiluConv(32, 64, 3, 2)
        self.layer4 = CrossStage(64, 64, 2, shortcut=True)
        self.layer5 = SiluConv(64, 128, 3, 2)
        self.layer6 = CrossStage(128, 128, 3, shortcut=True)
        self.layer7 = SiluConv(128, 256, 3, 2)
        self.layer8 = CrossStage(256, 256, 1, shortcut=True)
        self.layer9 = PooledPyramid(256)
        self.layer10 = SiluConv(256, 128, 1)
        self.layer13 = CrossStage(256, 128)
        self.layer14 = SiluConv(128, 64, 1)
        self.layer17 = CrossStage(128, 64)
        self.layer18 = SiluConv(64, 64, 3, 2)
        self.layer20 = CrossStage(128, 128)
        self.layer21 = SiluConv(128, 128, 3, 2)
        self.layer23 = CrossStage(256, 256)
        self.layer24 = nn.ModuleList(nn.Conv2d(channels, head, 1) for channels in (64, 128, 256))

    def forward(self, data):
        fine = self.layer4(self.layer3(self.layer2(self.layer1(self.layer0(data)))))
        middle = self.layer6(self.layer5(fine))
        coarse = self.layer10(self.layer9(self.layer8(self.layer7(middle))))
        above = functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        between = self.layer14(self.layer13(torch.cat([above, middle], dim=1)))
        above = functional.interpolate(between, scale_factor=2.0, mode="nearest")
        small = self.layer17(torch.cat([above, fine], dim=1))
        medium = self.layer20(torch.cat([self.layer18(small), between], dim=1))
        large = self.layer23(torch.cat([self.layer21(medium), coarse], dim=1))
        return tuple(layer(part) for layer, part in zip(self.layer24, (small, medium, large), strict=True))


class BertEncoder(nn.Module):
    """Runs a transformers BertModel's own layers, with the additive mask written out.

    transformers builds that mask through code that does not trace to a clean graph.
    """

    def __init__(self, bert):
        super().__init__()
        self.embeddings = bert.embeddings
        self.encoder = bert.encoder
        self.pooler = bert.pooler

    def forward(self, input_ids, attention_mask, token_type_ids):
        hidden = self.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        batch, seq = attention_mask.shape
        masked = 1.0 - attention_mask.view(batch, 1, 1, seq).to(hidden.dtype)
        additive = masked * torch.finfo(hidden.dtype).min
        hidden = self.encoder(hidden, attention_mask=additive).last_hidden_state
        return hidden, self.pooler(hidden)


class SplitAttention(nn.Module):
    """nn.MultiheadAttention with the packed input projection as three linear layers.

    The packed form traces to slices and copies of one wide result, which no deployed runtime
    would execute; three projections are the same arithmetic.
    """

    def __init__(self, packed):
        super().__init__()
        self.heads = packed.num_heads
        self.head_dim = packed.head_dim
        names = ("q_proj", "k_proj", "v_proj")
        for name, weight, bias in zip(
            names, packed.in_proj_weight.chunk(3), packed.in_proj_bias.chunk(3), strict=True
        ):
            linear = nn.Linear(packed.embed_dim, packed.embed_dim)
            linear.weight.data.copy_(weight)
            linear.bias.data.copy_(bias)
            setattr(self, name, linear)
        self.out_proj = packed.out_proj

    def forward(self, query, key, value, need_weights=False):
        del key, value, need_weights  # self-attention: the three are one tensor
        batch, tokens, width = query.shape

        def by_head(linear):
            shape = (batch, tokens, self.heads, self.head_dim)
            return linear(query).view(shape).transpose(1, 2)

        scores = by_head(self.q_proj) @ by_head(self.k_proj).transpose(2, 3)
        weights = functional.softmax(scores * self.head_dim**-0.5, dim=-1)
        mixed = (weights @ by_head(self.v_proj)).transpose(1, 2).reshape(batch, tokens, width)
        return self.out_proj(mixed), None


def split_attention(model):
    """A copy of `model` in which every nn.MultiheadAttention is a SplitAttention."""
    for name, child in list(model.named_children()):
        if isinstance(child, nn.MultiheadAttention):
            setattr(model, name, SplitAttention(child))
        else:
            split_attention(child)
    return model
