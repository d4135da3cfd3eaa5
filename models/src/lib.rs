//! Model registry, import and the operator graph.
