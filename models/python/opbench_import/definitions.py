"""Operators that ONNX itself defines by other operators, replaced by their definitions at loading.

That is every operator that neither TVM's frontend nor a rule of this package knows, and a few that the frontend knows in some
of their forms only.
"""

from __future__ import annotations

import onnx
import onnx.inliner
from tvm.relax.frontend.onnx import onnx_frontend

from . import control, expand, frontend, recurrent

ALWAYS = frozenset(
    {"Celu", "GroupNormalization", "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}
)
"""Operators that the frontend lacks or knows only some forms of."""


DEEPEST = 4
"""Most rounds of replacing: definitions use operators that have definitions."""


def inline(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with such operators replaced by their definitions; others stay."""
    for _ in range(DEEPEST):
        wanted = sorted({(n.domain, n.op_type) for n in model.graph.node if is_inlined(model, n)})
        if not wanted:
            break
        try:
            model = replaced(model, wanted)
        except RuntimeError:
            # The inliner does not support every form with omitted inputs; the remaining ones are refused by name later.
            break
    return model


def replaced(model: onnx.ModelProto, wanted: list[tuple[str, str]]) -> onnx.ModelProto:
    """The model with these operators replaced."""
    # The inliner looks types up among the declared values alone.
    declared = {i.name for i in (*model.graph.input, *model.graph.value_info)}
    model.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
        for t in model.graph.initializer
        if t.name not in declared
    )
    for node in model.graph.node:
        if (node.domain, node.op_type) in wanted:
            explicit_defaults(model, node)
    model = onnx.shape_inference.infer_shapes(model)
    return onnx.inliner.inline_selected_functions(model, wanted, exclude=False, inline_schema_functions=True)


def explicit_defaults(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """Gives a node the attributes that it leaves to their defaults, which definitions refer to."""
    given = {a.name for a in node.attribute}
    for name, attribute in schema_of(model, node).attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def is_inlined(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Whether a node is to be replaced by its definition."""
    if node.domain in ("", "ai.onnx") and node.op_type not in ALWAYS:
        known = onnx_frontend._get_convert_map()  # noqa: SLF001 - the table has no public name
        if node.op_type in (*known, *frontend.OWN, *expand.SUPPORTED, *recurrent.SUPPORTED, *control.OPERATORS):
            return False
    try:
        schema = schema_of(model, node)
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function


def schema_of(model: onnx.ModelProto, node: onnx.NodeProto) -> onnx.defs.OpSchema:
    """ONNX's definition of a node's operator in the model's operator set."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = next((o.version for o in model.opset_import if o.domain in (node.domain, domain)), 1)
    return onnx.defs.get_schema(node.op_type, version, domain)
